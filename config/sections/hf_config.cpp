#include "config/sections/hf_config.h"

#include <fmt/format.h>
#include <rapidjson/document.h>
#include <rapidjson/error/en.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include <algorithm>
#include <array>
#include <span>

#include "config/reader/convert.h"
#include "config/reader/fields.h"
#include "core/error.h"
#include "core/files/deepspeed_folder.h"
#include "core/files/hub_name.h"

namespace ds {
namespace {

using Json = rapidjson::Value;

constexpr int64_t kLargestConfig = 1 << 20;

// What Hugging Face calls a family; in the order of ModelConfig.
struct HfNames {
  std::string_view class_name;
  std::string_view type_name;
};
constexpr std::array<HfNames, std::variant_size_v<ModelConfig>> kNames{
    {{"GPT2LMHeadModel", "gpt2"}, {"LlamaForCausalLM", "llama"}}};

// Another name of a key.
struct Alias {
  std::string_view other;
  std::string_view key;
};
// GPT2Config.attribute_map; LlamaConfig has none.
constexpr std::array kGpt2Aliases{
    Alias{"hidden_size", "n_embd"}, Alias{"max_position_embeddings", "n_positions"},
    Alias{"num_attention_heads", "n_head"}, Alias{"num_hidden_layers", "n_layer"}};

std::span<const Alias> aliases_of(const Gpt2Config&) { return kGpt2Aliases; }
std::span<const Alias> aliases_of(const LlamaConfig&) { return {}; }

// Null pointer where the key is silent or null, which mean the same to transformers.
const Json* find(const Json& object, std::string_view key) {
  const auto found = object.FindMember(
      Json(rapidjson::StringRef(key.data(), static_cast<rapidjson::SizeType>(key.size()))));
  return found == object.MemberEnd() || found->value.IsNull() ? nullptr : &found->value;
}

std::string_view text_of(const Json& value) { return {value.GetString(), value.GetStringLength()}; }

// What a field can be made of; of a list or an object only that it is one.
Value scalar(const Json& value) {
  if (value.IsBool()) return Value::boolean(value.GetBool());
  if (value.IsInt64()) return Value::integer(value.GetInt64());
  if (value.IsNumber()) return Value::number(value.GetDouble());
  if (value.IsString()) return Value::string(std::string(text_of(value)));
  return value.IsArray() ? Value::list() : Value::object();
}

class FamilyReader final : public Visitor {
 public:
  FamilyReader(const Json& object, const std::string& path, std::span<const Alias> aliases)
      : object_(object), path_(path), aliases_(aliases) {}

  void on_field(const Field& field) override {
    std::string_view key = field.key;
    const Json* const json = find_by_any_name(key);
    if (json == nullptr) return;
    const Value value = scalar(*json);
    Spec as_written = field.spec;
    as_written.refuse_text = as_written.refuse_boolean = true;
    const bool is_switch = std::holds_alternative<bool*>(field.slot);
    if ((is_switch && !json->IsBool()) ||
        store(value, {field.key, field.slot, as_written}) == Stored::kWrongKind) {
      throw DataError(fmt::format("{}: \"{}\" is {}, expected {}", path_, key, value.kind_name(),
                                  type_text(field)));
    }
  }
  void on_section(const Section&) override {}
  void on_collection(const Collection&) override {}

 private:
  // transformers lets the alias win where both are given, which nobody can have meant.
  const Json* find_by_any_name(std::string_view& key) const {
    const Json* value = find(object_, key);
    for (const Alias& alias : aliases_) {
      const Json* other = alias.key == key ? find(object_, alias.other) : nullptr;
      if (other == nullptr) continue;
      if (value == nullptr) {
        key = alias.other;
        return other;
      }
      if (*value != *other) {
        throw DataError(
            fmt::format("{}: \"{}\" and \"{}\" are two names of one size, but differ; remove one",
                        path_, alias.key, alias.other));
      }
    }
    return value;
  }

  const Json& object_;
  const std::string& path_;
  std::span<const Alias> aliases_;
};

class FamilyWriter final : public Visitor {
 public:
  explicit FamilyWriter(Value& object) : object_(object) {}
  void on_field(const Field& field) override { object_.set(field.key, field_value(field)); }
  void on_section(const Section&) override {}
  void on_collection(const Collection&) override {}

 private:
  Value& object_;
};

[[noreturn]] void refuse_feature(const std::string& path, const std::string& what) {
  throw Unsupported(fmt::format("{}: {} is not supported", path, what));
}

void refuse_unless(const Json& object, const std::string& path, const char* key, bool built) {
  const Json* value = find(object, key);
  if (value == nullptr) return;
  if (value->IsBool() && value->GetBool() == built) return;
  refuse_feature(path, fmt::format("\"{}\" other than {}", key, built));
}

std::optional<double> number_in(const Json& object, const std::string& path, const char* key) {
  const Json* value = find(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->IsNumber()) throw DataError(fmt::format("{}: \"{}\" must be a number", path, key));
  return value->GetDouble();
}

// "rope_scaling" (transformers 4) and "rope_parameters" (5) are built only where they change
// nothing.
void refuse_rope_variants(const Json& object, const std::string& path) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* rope = find(object, key);
    if (rope == nullptr) continue;
    if (!rope->IsObject()) throw DataError(fmt::format("{}: \"{}\" must be an object", path, key));
    for (const char* type : {"rope_type", "type"}) {
      const Json* name = find(*rope, type);
      if (name == nullptr) continue;
      if (name->IsString() && text_of(*name) == "default") continue;
      refuse_feature(path, fmt::format("\"{}\" with a \"{}\" other than \"default\"", key, type));
    }
    if (find(*rope, "factor") != nullptr)
      refuse_feature(path, fmt::format("\"{}\" with a factor", key));
  }
}

// What a family's config.json may say beside its fields.
void read_rest(const Json& object, const std::string& path, Gpt2Config&) {
  refuse_unless(object, path, "scale_attn_weights", true);
  refuse_unless(object, path, "scale_attn_by_inverse_layer_idx", false);
  refuse_unless(object, path, "add_cross_attention", false);
}

void read_rest(const Json& object, const std::string& path, LlamaConfig& config) {
  refuse_rope_variants(object, path);
  const double rotary_factor = number_in(object, path, "partial_rotary_factor").value_or(1);
  if (rotary_factor != 1) {
    refuse_feature(path, fmt::format("\"partial_rotary_factor\" = {}", rotary_factor));
  }
  // Newer files have it in "rope_parameters".
  const Json* rope = find(object, "rope_parameters");
  const auto theta = rope == nullptr ? std::nullopt : number_in(*rope, path, "rope_theta");
  if (!theta) return;
  if (find(object, "rope_theta") != nullptr && config.rope_theta != *theta) {
    throw DataError(
        fmt::format("{}: \"rope_theta\" is {}, but that of \"rope_parameters\" is {}; remove one",
                    path, config.rope_theta, *theta));
  }
  config.rope_theta = *theta;
}

template <class Config>
ModelConfig read_family(const Json& object, const std::string& path) {
  if (find(object, "quantization_config") != nullptr) {
    refuse_feature(path, "a quantized model (\"quantization_config\")");
  }
  Config config;
  FamilyReader reader(object, path, aliases_of(config));
  fields(reader, config);
  read_rest(object, path, config);
  try {
    check(config, "");
  } catch (const ConfigError& error) {
    throw DataError(fmt::format("{}: {}", path, error.what()));
  } catch (const Unsupported& error) {
    throw Unsupported(fmt::format("{}: {}", path, error.what()));
  }
  return config;
}

std::string architecture(const Json& object, const std::string& path) {
  const Json* list = find(object, "architectures");
  if (list != nullptr && list->IsArray() && list->Size() > 0 && (*list)[0].IsString()) {
    return std::string(text_of((*list)[0]));
  }
  const Json* type = find(object, "model_type");
  if (type == nullptr) return "";
  if (!type->IsString()) throw DataError(fmt::format("{}: \"model_type\" must be a string", path));
  return std::string(text_of(*type));
}

std::string_view torch_name(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
    default:
      return "float32";
  }
}

rapidjson::Document parse_object(std::string_view json, const std::string& path) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseNanAndInfFlag>(json.data(),
                                                                                  json.size());
  if (document.HasParseError()) {
    throw DataError(fmt::format("{}: not valid JSON at byte {}: {}", path,
                                document.GetErrorOffset(),
                                rapidjson::GetParseError_En(document.GetParseError())));
  }
  if (!document.IsObject()) throw DataError(fmt::format("{}: not a JSON object", path));
  return document;
}

}  // namespace

ModelConfig parse_hf_config(std::string_view json, const std::string& path) {
  const rapidjson::Document document = parse_object(json, path);
  const std::string name = architecture(document, path);
  constexpr std::array kReaders{read_family<Gpt2Config>, read_family<LlamaConfig>};
  static_assert(kReaders.size() == kNames.size(), "each family of kNames has a reader");
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i].class_name || name == kNames[i].type_name)
      return kReaders[i](document, path);
  }
  throw Unsupported(fmt::format("{}: architecture \"{}\"; known are {} and {}", path, name,
                                kNames[0].class_name, kNames[1].class_name));
}

ModelConfig read_hf_config(FileSystem& file_system, const std::string& folder) {
  const std::string path = join_path(folder, "config.json");
  if (!file_system.exists(folder)) {
    throw InputMissing(fmt::format("{}: there is no such folder; {}", folder,
                                   hub_advice(file_system, folder, "model")));
  }
  if (!file_system.exists(path)) {
    const std::string advice = deepspeed_advice(file_system, folder);
    if (!advice.empty()) throw Unsupported(advice);
    if (is_pickled(folder)) {
      const size_t slash = folder.rfind('/');
      const std::string parent = slash == std::string::npos ? "." : folder.substr(0, slash);
      throw ConfigError(fmt::format("{}: a model is a folder, {} here; {}", folder, parent,
                                    pickle_advice(parent)));
    }
  }
  return parse_hf_config(file_system.read_text(path, kLargestConfig), path);
}

std::string format_hf_config(const ModelConfig& config, DType dtype, const HfTokenIds& ids) {
  const auto text = [](std::string_view word) { return Value::string(std::string(word)); };
  const auto id = [](std::optional<int64_t> number) {
    return number ? Value::integer(*number) : Value::null();
  };
  const HfNames& names = kNames[config.index()];
  Value object = Value::object();
  object.set("architectures", Value::list({text(names.class_name)}));
  object.set("model_type", text(names.type_name));
  object.set("torch_dtype", text(torch_name(dtype)));
  FamilyWriter writer(object);
  std::visit([&](auto family) { fields(writer, family); }, config);
  object.set("bos_token_id", id(ids.bos));
  object.set("eos_token_id", id(ids.eos));
  object.set("pad_token_id", id(ids.pad));
  return to_json(object);
}

std::string keep_hf_config(std::string_view source, const std::string& path,
                           const ModelConfig& config, DType dtype) {
  if (format_hf_config(parse_hf_config(source, path), dtype) != format_hf_config(config, dtype)) {
    throw DataError(fmt::format(
        "{}: it is no longer of the model that is trained; put back what it was", path));
  }
  rapidjson::Document document = parse_object(source, path);
  auto& memory = document.GetAllocator();
  const auto set = [&](const char* key, Json value) {
    const auto found = document.FindMember(key);
    if (found == document.MemberEnd()) {
      document.AddMember(rapidjson::StringRef(key), value, memory);
    } else {
      found->value = value;
    }
  };
  const auto text = [](std::string_view word) {
    return Json(rapidjson::StringRef(word.data(), static_cast<rapidjson::SizeType>(word.size())));
  };
  const HfNames& names = kNames[config.index()];
  if (find(document, "architectures") == nullptr) {
    Json list(rapidjson::kArrayType);
    list.PushBack(text(names.class_name), memory);
    set("architectures", std::move(list));
  }
  if (find(document, "model_type") == nullptr) set("model_type", text(names.type_name));
  // transformers 5 writes "dtype" and reads both; 4 writes "torch_dtype", and its older versions
  // read no other.
  if (document.HasMember("dtype")) set("dtype", text(torch_name(dtype)));
  set("torch_dtype", text(torch_name(dtype)));
  rapidjson::StringBuffer buffer;
  rapidjson::PrettyWriter<rapidjson::StringBuffer> json(buffer);
  json.SetIndent(' ', 2);
  if (!document.Accept(json)) {
    throw Unsupported(fmt::format("{}: NaN or Infinity cannot be written back; remove it", path));
  }
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

}  // namespace ds
