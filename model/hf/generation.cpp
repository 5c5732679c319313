#include "model/hf/generation.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "model/hf/json_file.h"

namespace ds {
namespace {

using Json = rapidjson::Value;

constexpr const char* kGeneration = "generation_config.json";
constexpr const char* kEosKey = "eos_token_id";

int32_t id_of(const Json& value, const std::string& path) {
  if (!value.IsInt() || value.GetInt() < 0) {
    throw DataError(
        fmt::format("{}: \"{}\" is no token id: expected a number from 0, a list of them, or null",
                    path, kEosKey));
  }
  return value.GetInt();
}

std::optional<std::vector<int32_t>> ids_of(FileSystem& files, const std::string& path) {
  const rapidjson::Document document = object_in(files, path);
  const Json* const found = value_of(document, kEosKey);
  if (found == nullptr) return std::nullopt;
  std::vector<int32_t> ids;
  if (found->IsArray()) {
    for (const Json& item : found->GetArray()) ids.push_back(id_of(item, path));
  } else {
    ids.push_back(id_of(*found, path));
  }
  return ids;
}

// For people: as JSON, without the end of long ones. What others nest as deep as they like is named
// alone: writing it costs stack.
std::string excerpt(const Json& value) {
  if (value.IsArray()) return "a list";
  if (value.IsObject()) return "an object";
  constexpr size_t kLongest = 40;
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer, rapidjson::UTF8<>, rapidjson::ASCII<>,
                    rapidjson::CrtAllocator, rapidjson::kWriteNanAndInfFlag>
      writer(buffer);
  value.Accept(writer);
  const std::string text(buffer.GetString(), buffer.GetSize());
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

// Reads the values of an object, or blames its file.
class Values {
 public:
  Values(const Json& object, const std::string& path) : object_(object), path_(path) {}

  std::optional<bool> boolean(const char* key) const {
    const Json* const value = value_of(object_, key);
    if (value == nullptr) return std::nullopt;
    if (!value->IsBool()) refuse(key, *value, "true or false");
    return value->GetBool();
  }
  std::optional<int64_t> whole(const char* key, int64_t least) const {
    const Json* const value = value_of(object_, key);
    if (value == nullptr) return std::nullopt;
    if (!value->IsInt64() || value->GetInt64() < least) {
      refuse(key, *value, fmt::format("a whole number from {} on", least));
    }
    return value->GetInt64();
  }
  struct Bounds {
    double least = 0;
    double most = std::numeric_limits<double>::max();
    const char* says = "";
  };
  std::optional<double> number(const char* key, const Bounds& bounds) const {
    const Json* const value = value_of(object_, key);
    if (value == nullptr) return std::nullopt;
    // What is not a number is within no bounds.
    const bool is_good = value->IsNumber() && value->GetDouble() >= bounds.least &&
                         value->GetDouble() <= bounds.most;
    if (!is_good) refuse(key, *value, bounds.says);
    return value->GetDouble();
  }

 private:
  [[noreturn]] void refuse(const char* key, const Json& value, const std::string& expected) const {
    throw DataError(fmt::format("{}: \"{}\" is {}, expected {}; correct it there, or remove it",
                                path_, key, excerpt(value), expected));
  }

  const Json& object_;
  const std::string& path_;
};

// Keys that are read, and keys of transformers 5.24 that change how a text comes, and not which
// one. Penalties of length and the end of a search are of beams, which are told by their number.
constexpr std::array<std::string_view, 45> kWithoutEffect = {"do_sample",
                                                             "temperature",
                                                             "top_k",
                                                             "top_p",
                                                             "min_p",
                                                             "repetition_penalty",
                                                             "max_new_tokens",
                                                             "eos_token_id",
                                                             "bos_token_id",
                                                             "pad_token_id",
                                                             "decoder_start_token_id",
                                                             "_from_model_config",
                                                             "transformers_version",
                                                             "early_stopping",
                                                             "length_penalty",
                                                             "renormalize_logits",
                                                             "use_cache",
                                                             "use_mtp",
                                                             "cache_implementation",
                                                             "cache_config",
                                                             "max_cache_len",
                                                             "low_memory",
                                                             "prefill_chunk_size",
                                                             "compile_config",
                                                             "disable_compile",
                                                             "continuous_batching_config",
                                                             "output_attentions",
                                                             "output_hidden_states",
                                                             "output_scores",
                                                             "output_logits",
                                                             "return_dict_in_generate",
                                                             "is_assistant",
                                                             "num_assistant_tokens",
                                                             "num_assistant_tokens_schedule",
                                                             "assistant_confidence_threshold",
                                                             "assistant_early_exit",
                                                             "assistant_lookbehind",
                                                             "assistant_ensemble_weight",
                                                             "target_lookbehind",
                                                             "prompt_lookup_num_tokens",
                                                             "max_matching_ngram_size",
                                                             "speculation_type",
                                                             "generation_kwargs",
                                                             "auto_map",
                                                             "_commit_hash"};

// A key that a number turns off.
struct Neutral {
  std::string_view key;
  double value;
};
constexpr std::array<Neutral, 14> kNeutral = {{{"num_beams", 1},
                                               {"num_beam_groups", 1},
                                               {"num_return_sequences", 1},
                                               {"diversity_penalty", 0},
                                               {"typical_p", 1},
                                               {"epsilon_cutoff", 0},
                                               {"eta_cutoff", 0},
                                               {"penalty_alpha", 0},
                                               {"no_repeat_ngram_size", 0},
                                               {"encoder_no_repeat_ngram_size", 0},
                                               {"encoder_repetition_penalty", 1},
                                               {"min_length", 0},
                                               {"min_new_tokens", 0},
                                               {"guidance_scale", 1}}};

bool changes_nothing(std::string_view key, const Json& value) {
  if (std::ranges::find(kWithoutEffect, key) != kWithoutEffect.end()) return true;
  if (value.IsNull() || value.IsFalse()) return true;
  if (value.IsArray() && value.Empty()) return true;
  if (value.IsObject() && value.ObjectEmpty()) return true;
  const auto* const neutral = std::ranges::find(kNeutral, key, &Neutral::key);
  return neutral != kNeutral.end() && value.IsNumber() && value.GetDouble() == neutral->value;
}

}  // namespace

std::optional<std::vector<int32_t>> read_eos_ids(FileSystem& files, const std::string& folder) {
  for (const char* name : {kGeneration, "config.json"}) {
    if (auto ids = ids_of(files, join_path(folder, name))) return ids;
  }
  return std::nullopt;
}

GenerationDefaults read_generation_defaults(FileSystem& files, const std::string& folder) {
  const std::string path = join_path(folder, kGeneration);
  const rapidjson::Document document = object_in(files, path);
  GenerationDefaults out;
  if (document.IsNull()) return out;
  const Values values(document, path);
  constexpr double kSmallest = std::numeric_limits<double>::denorm_min();
  out.do_sample = values.boolean("do_sample");
  out.temperature = values.number("temperature", {.says = "a finite number from 0 on"});
  out.top_k = values.whole("top_k", 0);
  out.top_p = values.number(
      "top_p", {.least = kSmallest, .most = 1, .says = "a number above 0 and up to 1"});
  out.min_p = values.number("min_p", {.most = 1, .says = "a number from 0 to 1"});
  out.repetition_penalty =
      values.number("repetition_penalty", {.least = kLeastRepetitionPenalty,
                                           .most = kMostRepetitionPenalty,
                                           .says = "a number from 1e-6 to 1e6"});
  out.max_new_tokens = values.whole("max_new_tokens", 1);
  for (const auto& member : document.GetObject()) {
    const std::string key(member.name.GetString(), member.name.GetStringLength());
    if (changes_nothing(key, member.value)) continue;
    out.not_applied.push_back(fmt::format("{} {}", key, excerpt(member.value)));
  }
  return out;
}

}  // namespace ds
