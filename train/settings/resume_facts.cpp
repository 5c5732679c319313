#include "train/settings/resume_facts.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "checkpoint/format.h"
#include "config/elastic_options.h"
#include "config/families/hf_config.h"
#include "config/load.h"
#include "config/reader/json_reader.h"
#include "config/reader/value.h"
#include "core/status/error.h"
#include "core/values/index.h"
#include "train/settings/zero_settings.h"

namespace ds {
namespace {

Value parse_object(const std::string& text, const std::string& what) {
  try {
    return read_config_document(text, what);
  } catch (const ConfigError& error) {
    throw ValidationError(error.what());
  }
}

const Value& member(const Value& in, const char* key, Value::Kind kind) {
  const Value* const found = in.find(key);
  if (found == nullptr || found->kind() != kind) {
    throw ValidationError(
        fmt::format("the facts of a checkpoint have no \"{}\" of the right kind", key));
  }
  return *found;
}

std::string text_in(const Value& in, const char* key) {
  return member(in, key, Value::Kind::kString).as_string();
}
int64_t integer_in(const Value& in, const char* key) {
  return member(in, key, Value::Kind::kInteger).as_integer();
}

// "a.b" -> its value as JSON, for everything that is no object.
void flatten(const Value& value, const std::string& path, std::map<std::string, std::string>& out) {
  if (!value.is_object()) {
    std::string text = to_json(value);
    std::erase(text, '\n');
    out[path] = std::move(text);
    return;
  }
  for (const Member& one : value.members())
    flatten(one.value, path.empty() ? one.key : path + "." + one.key, out);
}

struct Difference {
  std::string key, before, now;
};

std::vector<Difference> differences(const std::string& before, const std::string& now,
                                    const std::string& what) {
  std::map<std::string, std::string> a;
  std::map<std::string, std::string> b;
  flatten(parse_object(before, what), "", a);
  flatten(parse_object(now, what), "", b);
  std::set<std::string> keys;
  for (const auto& side : {a, b}) {
    for (const auto& [key, value] : side) keys.insert(key);
  }
  std::vector<Difference> out;
  const auto value_in = [](const std::map<std::string, std::string>& side, const std::string& key) {
    const auto found = side.find(key);
    return found == side.end() ? "nothing" : found->second;
  };
  for (const std::string& key : keys) {
    if (value_in(a, key) != value_in(b, key))
      out.push_back({key, value_in(a, key), value_in(b, key)});
  }
  return out;
}

// What it means for a checkpoint that masters are another's dtype: there they are fp32.
bool says_masters(const std::string& key) {
  return key.ends_with("_master_weights_and_grads") || key == "amp.opt_level";
}

std::string words(const Difference& one) {
  return fmt::format("{} was {} and is {}{}", one.key, one.before, one.now,
                     says_masters(one.key)
                         ? " (weights go on from those that were saved, rounded once where they "
                           "are kept in fewer bits now)"
                         : "");
}

// Keys of config.json that say nothing about what the model computes.
bool is_about_the_model(const std::string& key) {
  constexpr std::array kOther{"architectures", "torch_dtype",          "dtype",
                              "use_cache",     "transformers_version", "initializer_range",
                              "pad_token_id",  "bos_token_id",         "eos_token_id"};
  return std::ranges::find(kOther, key) == kOther.end();
}

// Both as this release writes them: another one may have said the same in other keys. What is no
// model to this one is compared as it is.
std::pair<std::string, std::string> in_like_keys(const std::string& before,
                                                 const std::string& now) {
  const auto rewritten = [](const std::string& model) {
    return format_hf_config(parse_hf_config(model, "the model of a checkpoint"), DType::kF32);
  };
  try {
    return {rewritten(before), rewritten(now)};
  } catch (const Error&) {
    return {before, now};
  }
}

bool is_dropout(const std::string& key) {
  return key.find("drop") != std::string::npos || key.ends_with("pdrop");
}

// Whether it makes other adapters: what they compute, and not how they began or what DeepSpeed's
// words say of it. Releases before this one do not name the section, which is to have none.
bool is_of_adapters(const Difference& one) {
  constexpr std::array kOther{"lora.adapter",         "lora.init_lora_weights",
                              "lora.offload",         "lora.offload_ratio",
                              "lora.delay_lora_init", "lora.base_weight_sharding"};
  const auto is_none = [](const std::string& value) {
    return value == "nothing" || value == "null";
  };
  if (is_none(one.before) && is_none(one.now)) return false;
  return one.key.starts_with("lora") && !is_dropout(one.key) &&
         std::ranges::find(kOther, one.key) == kOther.end();
}

// Compared by what they mean, or said elsewhere.
bool is_compared_already(const std::string& key) {
  constexpr std::array kKeys{"train.seed",
                             "data.order",
                             "data.sequence_length",
                             "train_batch_size",
                             "train_micro_batch_size_per_gpu",
                             "gradient_accumulation_steps",
                             "train.distillation.teacher",
                             "lora.base_format",
                             "lora.base_block",
                             "lora.double_quantization",
                             "lora.load_in_4bit",
                             "lora.load_in_8bit",
                             "lora.q_bits",
                             "lora.mantissa_bits",
                             "lora.bnb_4bit_quant_type",
                             "lora.bnb_4bit_compute_dtype"};
  return key.starts_with("model.") || std::ranges::find(kKeys, key) != kKeys.end();
}

}  // namespace

std::string to_text(const RunFacts& facts) {
  Value out = Value::object();
  out.set("model", Value::string(facts.model));
  out.set("config", Value::string(facts.config));
  out.set("data", Value::string(facts.data));
  out.set("seed", Value::integer(facts.seed));
  out.set("global_batch", Value::integer(facts.global_batch));
  out.set("sequence_length", Value::integer(facts.sequence_length));
  out.set("order", Value::string(facts.order));
  for (const auto& [key, fingerprint] :
       {std::pair{"teacher", &facts.teacher}, {"base", &facts.base}}) {
    if (!fingerprint->empty()) out.set(key, Value::string(*fingerprint));
  }
  out.set("saved_at", Value::integer(facts.saved_at));
  return to_json(out);
}

RunFacts parse_facts(const std::string& text) {
  const Value in = parse_object(text, "the facts of a checkpoint");
  return {.model = text_in(in, "model"),
          .config = text_in(in, "config"),
          .data = text_in(in, "data"),
          .seed = integer_in(in, "seed"),
          .global_batch = integer_in(in, "global_batch"),
          .sequence_length = integer_in(in, "sequence_length"),
          .order = text_in(in, "order"),
          .teacher = in.find("teacher") != nullptr ? text_in(in, "teacher") : "",
          .base = in.find("base") != nullptr ? text_in(in, "base") : "",
          .saved_at = integer_in(in, "saved_at")};
}

namespace {

struct BaseOfRun {
  std::optional<kernels::BlockCode> code{};  // nothing: it is kept as the model's other weights
  int64_t ranks = 1;                         // that share a layer
};

// What this release does not read is of one that had no codes.
BaseOfRun base_in(const std::string& text) {
  try {
    const Config config = parse_config(text);
    return {.code = base_code(config.lora), .ranks = tensor_split(config).ranks};
  } catch (const ConfigError&) {
    return {};
  }
}

// As what the base of adapters is kept, in whichever words a configuration says it. Blocks are
// those of what a rank has of a layer.
void compare_bases(const std::string& before, const std::string& now, FactChanges& out) {
  const auto words = [](const std::optional<kernels::BlockCode>& code) {
    return code ? code_words(*code) : "as the model's others are";
  };
  const BaseOfRun was = base_in(before), is = base_in(now);
  if (was.code != is.code) {
    out.model.push_back(fmt::format("lora.base_format: the base was kept {}, and is kept {}",
                                    words(was.code), words(is.code)));
  } else if (is.code && was.ranks != is.ranks) {
    out.exact.push_back(fmt::format(
        "blocks of lora.base_format are those of tensor-parallel ranks, and these were {} and are "
        "{}",
        was.ranks, is.ranks));
  }
}

}  // namespace

void compare_models(const std::string& before, const std::string& now, FactChanges& out) {
  const auto [saved, present] = in_like_keys(before, now);
  for (const Difference& one : differences(saved, present, "the model of a checkpoint")) {
    if (!is_about_the_model(one.key)) continue;
    (is_dropout(one.key) ? out.exact : out.model).push_back(words(one));
  }
}

FactChanges compare(const RunFacts& saved, const RunFacts& now) {
  FactChanges out;
  compare_models(saved.model, now.model, out);
  const auto compare_number = [&](const char* what, int64_t before, int64_t after) {
    if (before != after)
      out.exact.push_back(fmt::format("{} was {} and is {}", what, before, after));
  };
  compare_number("the seed", saved.seed, now.seed);
  compare_number("the global batch size", saved.global_batch, now.global_batch);
  compare_number("the sequence length", saved.sequence_length, now.sequence_length);
  if (saved.order != now.order) {
    out.exact.push_back(
        fmt::format("the order of samples was {} and is {}", saved.order, now.order));
  }
  if (saved.teacher != now.teacher) {
    out.exact.emplace_back(saved.teacher.empty() ? "it had no teacher and has one"
                           : now.teacher.empty() ? "it had a teacher and has none"
                                                 : "the weights of the teacher are others");
  }
  if (!saved.base.empty() && !now.base.empty() && saved.base != now.base) {
    out.exact.emplace_back("the weights of model.folder, which adapters are beside, are others");
  }
  if (saved.data != now.data) out.exact.emplace_back("the training data are others");
  compare_bases(saved.config, now.config, out);
  for (const Difference& one :
       differences(saved.config, now.config, "the configuration of a checkpoint")) {
    if (is_compared_already(one.key)) continue;
    (is_of_adapters(one)   ? out.model
     : is_dropout(one.key) ? out.exact
                           : out.other)
        .push_back(words(one));
  }
  return out;
}

std::vector<std::string> compare_tensors(const CheckpointReader& reader,
                                         const std::vector<ParamSpec>& specs,
                                         const std::vector<std::vector<std::string>>& slots,
                                         const std::vector<std::string>& auxiliary) {
  std::vector<std::string> out;
  std::set<std::string> wanted;
  for (size_t i = 0; i < specs.size(); ++i) {
    const ParamSpec& spec = specs[i];
    std::vector<std::string> suffixes{"weight"};
    suffixes.insert(suffixes.end(), nth(slots, i).begin(), nth(slots, i).end());
    for (const std::string& suffix : suffixes) {
      const std::string name = spec.name + "/" + suffix;
      wanted.insert(name);
      if (!reader.contains(name)) {
        out.push_back(fmt::format("{} is not in it", name));
      } else if (const Shape shape = reader.info(name).shape; shape != spec.logical_shape()) {
        out.push_back(fmt::format("{} has shape {} in it, and {} in the model", name,
                                  shape.to_string(), spec.logical_shape().to_string()));
      }
    }
  }
  const auto is_extra = [&](const std::string& name) {
    return std::ranges::find(auxiliary, name.substr(name.rfind('/') + 1)) != auxiliary.end();
  };
  for (const std::string& name : reader.names()) {
    if (!wanted.contains(name) && !is_extra(name))
      out.push_back(fmt::format("{} is in it, and not in the model", name));
  }
  return out;
}

bool has_state(const CheckpointReader& reader, const std::string& parameter,
               const std::set<std::string>& slots) {
  return std::ranges::any_of(
      slots, [&](const std::string& slot) { return reader.contains(parameter + "/" + slot); });
}

std::vector<std::string> compare_trained(const CheckpointReader& reader,
                                         const std::vector<ParamSpec>& specs,
                                         const std::vector<std::vector<std::string>>& slots) {
  std::set<std::string> kinds;
  for (const std::vector<std::string>& of_param : slots) {
    kinds.insert(of_param.begin(), of_param.end());
  }
  std::vector<std::string> out;
  for (size_t i = 0; i < specs.size(); ++i) {
    const ParamSpec& spec = specs[i];
    if (!reader.contains(spec.name + "/weight")) continue;
    const bool had_state = has_state(reader, spec.name, kinds);
    const bool trains = !nth(slots, i).empty();
    if (had_state == trains) continue;
    out.push_back(
        fmt::format("{} {}", spec.name,
                    had_state ? "is frozen now, and trained" : "trains now, and was frozen"));
  }
  return out;
}

std::string digest_of(const SampleSet& samples) {
  constexpr int64_t kMostSamples = 16384;
  const int64_t count = std::min(samples.size(), kMostSamples);
  std::string text = fmt::format("{} {}\n", samples.size(), samples.sequence_length());
  std::vector<int32_t> tokens(to_size(samples.sequence_length()) + 1);
  for (int64_t i = 0; i < count; ++i) {
    // Evenly over the set, its first and last sample among them.
    const int64_t sample = count == 1 ? 0 : i * (samples.size() - 1) / (count - 1);
    samples.read(sample, tokens);
    text += digest_of(std::as_bytes(std::span(tokens)));
  }
  return digest_of(std::as_bytes(std::span(text)));
}

}  // namespace ds
