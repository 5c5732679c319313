#include "config/sections/adapters/adapter_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/reader/convert.h"
#include "config/reader/json_reader.h"
#include "core/files/input_files.h"
#include "core/status/error.h"
#include "core/text/join_some.h"

namespace ds {
namespace {

constexpr int64_t kLargestFile = int64_t{1} << 20;
constexpr size_t kMostNamed = 8;

// Keys that change nothing of what trained adapters compute.
constexpr std::array<std::string_view, 16> kIdleKeys{"auto_mapping",      "base_model_name_or_path",
                                                     "corda_config",      "eva_config",
                                                     "fan_in_fan_out",    "inference_mode",
                                                     "init_lora_weights", "loftq_config",
                                                     "lora_ga_config",    "megatron_core",
                                                     "peft_type",         "peft_version",
                                                     "qalora_group_size", "revision",
                                                     "runtime_config",    "task_type"};

bool says_nothing(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kNull:
      return true;
    case Value::Kind::kBoolean:
      return !value.as_boolean();
    case Value::Kind::kList:
      return value.items().empty();
    case Value::Kind::kObject:
      return value.members().empty();
    default:
      return false;
  }
}

class PeftReader final : public Visitor {
 public:
  PeftReader(const Value& document, const std::string& path) : document_(document), path_(path) {}

  void on_field(const Field& field) override {
    known_.push_back(std::string(field.key));
    const Value* value = document_.find(field.key);
    if (value == nullptr || value->is_null() || field.key == "init_lora_weights") return;
    if (store(*value, field) != Stored::kDone) {
      throw DataError(fmt::format("{}: \"{}\": {}", path_, field.key, refusal(*value, field)));
    }
  }
  void on_section(const Section&) override {}
  void on_collection(const Collection&) override {}

  // Refuses keys that say something nobody here knows of.
  void refuse_others() const {
    std::vector<std::string> others;
    for (const Member& member : document_.members()) {
      const bool is_known = std::ranges::find(known_, member.key) != known_.end() ||
                            std::ranges::find(kIdleKeys, member.key) != kIdleKeys.end();
      if (is_known || says_nothing(member.value)) continue;
      others.push_back(fmt::format("\"{}\" = {}", member.key, member.value.excerpt()));
    }
    if (others.empty()) return;
    throw Unsupported(fmt::format("{}: {}: this build has LoRA, rsLoRA and DoRA without {}", path_,
                                  join_some(others, kMostNamed),
                                  others.size() > 1 ? "them" : "it"));
  }

 private:
  const Value& document_;
  const std::string& path_;
  std::vector<std::string> known_;
};

std::string text_in(const Value& document, std::string_view key) {
  const Value* value = document.find(key);
  return value != nullptr && value->is_string() ? value->as_string() : "";
}

// Adapters that begin so take what they begin with out of the model's weights, which then are
// others than those of the folder.
void refuse_changed_base(const Value& document, const std::string& path) {
  const std::string start = text_in(document, "init_lora_weights");
  for (const std::string_view other : {"pissa", "olora", "corda", "loftq", "lora_ga"}) {
    if (!start.starts_with(other)) continue;
    throw Unsupported(
        fmt::format("{}: \"init_lora_weights\" = \"{}\": such adapters belong to weights that they "
                    "have changed; save them as plain LoRA, with peft's "
                    "path_initial_model_for_weight_conversion",
                    path, start));
  }
}

}  // namespace

bool has_adapter(FileSystem& files, const std::string& folder) {
  return files.exists(join_path(folder, adapter_names::kConfig));
}

AdapterFile read_adapter_file(FileSystem& files, const std::string& folder) {
  const std::string path = join_path(folder, adapter_names::kConfig);
  InputFiles inputs(files);
  Value document;
  try {
    document = read_config_document(inputs.read_text(path, kLargestFile), path);
  } catch (const ConfigError& error) {
    throw DataError(error.what());
  }
  const std::string method = text_in(document, "peft_type");
  if (method != "LORA") {
    throw Unsupported(fmt::format("{}: \"peft_type\" = \"{}\"; this build has LORA", path, method));
  }
  LoraConfig config;
  PeftReader reader(document, path);
  fields(reader, config);
  reader.refuse_others();
  refuse_changed_base(document, path);
  for (const LoraConflict& conflict : conflicts_of(config)) {
    throw DataError(fmt::format("{}: \"{}\" {}", path, conflict.key, conflict.why));
  }
  AdapterFile file{.spec = adapter_spec(config),
                   .base = text_in(document, "base_model_name_or_path"),
                   .task = text_in(document, "task_type")};
  file.spec.folder = folder;
  return file;
}

AdapterSpec adapters_of(const LoraConfig& lora, FileSystem& files) {
  if (!lora.adapter) return adapter_spec(lora);
  AdapterSpec spec = read_adapter_file(files, *lora.adapter).spec;
  if (lora.dropout != LoraConfig().dropout) spec.dropout = lora.dropout;
  return spec;
}

namespace {

Value texts(const std::vector<std::string>& list) {
  Value value = Value::list();
  for (const std::string& text : list) value.items().push_back(Value::string(text));
  return value;
}

template <class T>
Value unless_empty(const std::vector<T>& list, const Value& value) {
  return list.empty() ? Value::null() : value;
}

Value text_or_null(const std::string& text) {
  return text.empty() ? Value::null() : Value::string(text);
}

// As JSON has it: 16, and not 16.0.
Value number(double value) {
  const auto whole = static_cast<int64_t>(value);
  return static_cast<double>(whole) == value ? Value::integer(whole) : Value::number(value);
}

Value layers_of(const AdapterSpec& spec) {
  Value list = Value::list();
  for (const int64_t layer : spec.layers) list.items().push_back(Value::integer(layer));
  return unless_empty(spec.layers, list);
}

}  // namespace

std::string format_adapter_file(const AdapterText& text) {
  const AdapterSpec& spec = text.spec;
  Value ranks = Value::object(), alphas = Value::object();
  for (const auto& [pattern, rank] : spec.ranks) ranks.set(pattern, Value::integer(rank));
  for (const auto& [pattern, alpha] : spec.alphas) alphas.set(pattern, number(alpha));
  static constexpr std::array kBiases{"none", "all", "lora_only"};
  Value out = Value::object();
  out.set("alpha_pattern", std::move(alphas));
  out.set("base_model_name_or_path", text_or_null(text.base));
  out.set("bias", Value::string(kBiases.at(static_cast<size_t>(spec.bias))));
  out.set("exclude_modules", unless_empty(spec.excluded, texts(spec.excluded)));
  out.set("fan_in_fan_out", Value::boolean(text.inputs_first));
  out.set("inference_mode", Value::boolean(true));
  out.set("init_lora_weights", Value::boolean(true));
  out.set("layers_pattern", unless_empty(spec.layer_lists, texts(spec.layer_lists)));
  out.set("layers_to_transform", layers_of(spec));
  out.set("lora_alpha", number(spec.alpha));
  out.set("lora_dropout", Value::number(spec.dropout));
  out.set("modules_to_save", unless_empty(spec.saved_modules, texts(spec.saved_modules)));
  out.set("peft_type", Value::string("LORA"));
  out.set("r", Value::integer(spec.rank));
  out.set("rank_pattern", std::move(ranks));
  out.set("target_modules", texts(text.modules));
  out.set("task_type", text_or_null(text.task));
  out.set("use_dora", Value::boolean(spec.has_magnitudes));
  out.set("use_rslora", Value::boolean(spec.scales_by_root));
  return to_json(out) + "\n";
}

}  // namespace ds
