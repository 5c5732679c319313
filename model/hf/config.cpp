#include "model/hf/config.h"

#include <rapidjson/document.h>
#include <rapidjson/error/en.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include <array>
#include <cmath>
#include <span>

namespace ds {
namespace {

constexpr int64_t kLargestConfig = 1 << 20;

// What an optional integer is when the key is null or silent; written back as null.
constexpr int64_t kDerived = 0;

// Every key we build from, once; reading and writing both walk this.
template <class Visitor, class Config>
void visit_fields(Visitor&& visit,
                  Config& c) requires std::is_same_v<std::remove_const_t<Config>, Gpt2Config> {
  visit("vocab_size", c.vocab_size);
  visit("n_positions", c.n_positions);
  visit("n_embd", c.n_embd);
  visit("n_layer", c.n_layer);
  visit("n_head", c.n_head);
  visit("n_inner", c.n_inner);
  visit("activation_function", c.activation_function);
  visit("resid_pdrop", c.resid_pdrop);
  visit("embd_pdrop", c.embd_pdrop);
  visit("attn_pdrop", c.attn_pdrop);
  visit("layer_norm_epsilon", c.layer_norm_epsilon);
  visit("initializer_range", c.initializer_range);
  visit("tie_word_embeddings", c.tie_word_embeddings);
}

template <class Visitor, class Config>
void visit_fields(Visitor&& visit,
                  Config& c) requires std::is_same_v<std::remove_const_t<Config>, LlamaConfig> {
  visit("vocab_size", c.vocab_size);
  visit("max_position_embeddings", c.max_position_embeddings);
  visit("hidden_size", c.hidden_size);
  visit("intermediate_size", c.intermediate_size);
  visit("num_hidden_layers", c.num_hidden_layers);
  visit("num_attention_heads", c.num_attention_heads);
  visit("num_key_value_heads", c.num_key_value_heads);
  visit("head_dim", c.head_dim);
  visit("rms_norm_eps", c.rms_norm_eps);
  visit("rope_theta", c.rope_theta);
  visit("initializer_range", c.initializer_range);
  visit("tie_word_embeddings", c.tie_word_embeddings);
  visit("attention_bias", c.attention_bias);
  visit("attention_dropout", c.attention_dropout);
  visit("mlp_bias", c.mlp_bias);
}

const rapidjson::Value* find(const rapidjson::Value& object, const char* key) {
  const auto found = object.FindMember(key);
  return found == object.MemberEnd() || found->value.IsNull() ? nullptr : &found->value;
}

// Another name of a key.
struct Alias {
  const char* other;
  const char* key;
};
// GPT2Config.attribute_map; LlamaConfig has none.
constexpr std::array kGpt2Aliases{
    Alias{"hidden_size", "n_embd"}, Alias{"max_position_embeddings", "n_positions"},
    Alias{"num_attention_heads", "n_head"}, Alias{"num_hidden_layers", "n_layer"}};

class Reader {
 public:
  Reader(const rapidjson::Value& object, const std::string& path,
         std::span<const Alias> aliases = {})
      : object_(object), path_(path), aliases_(aliases) {}

  void operator()(const char* key, int64_t& field) const {
    const rapidjson::Value* value = find_by_any_name(key);
    if (value == nullptr) return;
    if (value->IsInt64()) {
      field = value->GetInt64();
    } else if (value->IsDouble() && std::trunc(value->GetDouble()) == value->GetDouble() &&
               std::abs(value->GetDouble()) < 0x1p53) {
      field = static_cast<int64_t>(value->GetDouble());
    } else {
      refuse(key, "an integer");
    }
  }
  void operator()(const char* key, double& field) const {
    const rapidjson::Value* value = find(object_, key);
    if (value == nullptr) return;
    if (!value->IsNumber()) refuse(key, "a number");
    field = value->GetDouble();
  }
  void operator()(const char* key, bool& field) const {
    const rapidjson::Value* value = find(object_, key);
    if (value == nullptr) return;
    if (!value->IsBool()) refuse(key, "true or false");
    field = value->GetBool();
  }
  void operator()(const char* key, std::string& field) const {
    const rapidjson::Value* value = find(object_, key);
    if (value == nullptr) return;
    if (!value->IsString()) refuse(key, "a string");
    field.assign(value->GetString(), value->GetStringLength());
  }

 private:
  // transformers lets the alias win where both are given, which nobody can have meant.
  const rapidjson::Value* find_by_any_name(const char*& key) const {
    const rapidjson::Value* value = find(object_, key);
    for (const Alias& alias : aliases_) {
      const rapidjson::Value* other =
          std::string_view(alias.key) == key ? find(object_, alias.other) : nullptr;
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
  [[noreturn]] void refuse(const char* key, const char* expected) const {
    throw DataError(fmt::format("{}: \"{}\" must be {}", path_, key, expected));
  }

  const rapidjson::Value& object_;
  const std::string& path_;
  std::span<const Alias> aliases_;
};

class Writer {
 public:
  using Json = rapidjson::PrettyWriter<rapidjson::StringBuffer>;
  explicit Writer(Json& json) : json_(json) {}

  void operator()(const char* key, const std::optional<int64_t>& id) const {
    json_.Key(key);
    if (id) {
      json_.Int64(*id);
    } else {
      json_.Null();
    }
  }
  void operator()(const char* key, const int64_t& field) const {
    json_.Key(key);
    if (field == kDerived) {
      json_.Null();
    } else {
      json_.Int64(field);
    }
  }
  void operator()(const char* key, const double& field) const {
    json_.Key(key);
    json_.Double(field);
  }
  void operator()(const char* key, const bool& field) const {
    json_.Key(key);
    json_.Bool(field);
  }
  void operator()(const char* key, const std::string& field) const {
    json_.Key(key);
    json_.String(field.data(), static_cast<rapidjson::SizeType>(field.size()));
  }

 private:
  Json& json_;
};

[[noreturn]] void refuse_feature(const std::string& path, const std::string& what) {
  throw Unsupported(fmt::format("{}: {} is not supported", path, what));
}

void refuse_unless(const rapidjson::Value& object, const std::string& path, const char* key,
                   bool built) {
  const rapidjson::Value* value = find(object, key);
  if (value == nullptr) return;
  if (value->IsBool() && value->GetBool() == built) return;
  refuse_feature(path, fmt::format("\"{}\" other than {}", key, built));
}

void refuse_features(const rapidjson::Value& object, const std::string& path, const Gpt2Config&) {
  refuse_unless(object, path, "scale_attn_weights", true);
  refuse_unless(object, path, "scale_attn_by_inverse_layer_idx", false);
  refuse_unless(object, path, "add_cross_attention", false);
}

// "rope_scaling" (transformers 4) and "rope_parameters" (5) are built only where they change
// nothing.
void refuse_rope_variants(const rapidjson::Value& object, const std::string& path) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const rapidjson::Value* rope = find(object, key);
    if (rope == nullptr) continue;
    if (!rope->IsObject()) throw DataError(fmt::format("{}: \"{}\" must be an object", path, key));
    for (const char* type : {"rope_type", "type"}) {
      const rapidjson::Value* name = find(*rope, type);
      if (name == nullptr) continue;
      if (name->IsString() && std::string_view(name->GetString()) == "default") continue;
      refuse_feature(path, fmt::format("\"{}\" with a \"{}\" other than \"default\"", key, type));
    }
    if (find(*rope, "factor") != nullptr)
      refuse_feature(path, fmt::format("\"{}\" with a factor", key));
  }
}

void refuse_features(const rapidjson::Value& object, const std::string& path, const LlamaConfig&) {
  refuse_rope_variants(object, path);
  const Reader read(object, path);
  std::string activation{"silu"};
  double rotary_factor = 1;
  read("hidden_act", activation);
  read("partial_rotary_factor", rotary_factor);
  if (activation != "silu")
    refuse_feature(path, fmt::format("\"hidden_act\" = \"{}\"", activation));
  if (rotary_factor != 1) {
    refuse_feature(path, fmt::format("\"partial_rotary_factor\" = {}", rotary_factor));
  }
}

// Newer files have it in "rope_parameters".
void read_rope_theta(const rapidjson::Value& object, const std::string& path, LlamaConfig& config) {
  const rapidjson::Value* rope = find(object, "rope_parameters");
  if (rope == nullptr) return;
  const double outside = config.rope_theta;
  Reader(*rope, path)("rope_theta", config.rope_theta);
  if (find(object, "rope_theta") != nullptr && config.rope_theta != outside) {
    throw DataError(
        fmt::format("{}: \"rope_theta\" is {}, but that of \"rope_parameters\" is {}; remove one",
                    path, outside, config.rope_theta));
  }
}

template <class Config>
ModelConfig read_family(const rapidjson::Value& object, const std::string& path, Config config) {
  if (find(object, "quantization_config") != nullptr) {
    refuse_feature(path, "a quantized model (\"quantization_config\")");
  }
  refuse_features(object, path, config);
  if constexpr (std::is_same_v<Config, LlamaConfig>) {
    visit_fields(Reader(object, path), config);
    read_rope_theta(object, path, config);
  } else {
    visit_fields(Reader(object, path, kGpt2Aliases), config);
  }
  try {
    check(config);
  } catch (const ConfigError& error) {
    throw DataError(fmt::format("{}: {}", path, error.what()));
  }
  return config;
}

// Hugging Face's GPT2Config trains with dropout unless told otherwise.
Gpt2Config gpt2_defaults() {
  Gpt2Config config;
  config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.1;
  return config;
}

std::string architecture(const rapidjson::Value& object, const std::string& path) {
  std::string name;
  const rapidjson::Value* list = find(object, "architectures");
  if (list != nullptr && list->IsArray() && list->Size() > 0 && (*list)[0].IsString()) {
    name.assign((*list)[0].GetString(), (*list)[0].GetStringLength());
  } else {
    Reader(object, path)("model_type", name);
  }
  return name;
}

const char* torch_name(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
    default:
      return "float32";
  }
}

using Buffer = rapidjson::StringBuffer;

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

const char* class_name(const ModelConfig& config) {
  return std::holds_alternative<Gpt2Config>(config) ? "GPT2LMHeadModel" : "LlamaForCausalLM";
}

const char* type_name(const ModelConfig& config) {
  return std::holds_alternative<Gpt2Config>(config) ? "gpt2" : "llama";
}

}  // namespace

ModelConfig parse_hf_config(std::string_view json, const std::string& path) {
  const rapidjson::Document document = parse_object(json, path);
  const std::string name = architecture(document, path);
  if (name == "GPT2LMHeadModel" || name == "gpt2") {
    return read_family(document, path, gpt2_defaults());
  }
  if (name == "LlamaForCausalLM" || name == "llama") {
    return read_family(document, path, LlamaConfig());
  }
  throw Unsupported(fmt::format(
      "{}: architecture \"{}\"; known are GPT2LMHeadModel and LlamaForCausalLM", path, name));
}

ModelConfig read_hf_config(FileSystem& file_system, const std::string& folder) {
  const std::string path = join_path(folder, "config.json");
  return parse_hf_config(file_system.read_text(path, kLargestConfig), path);
}

std::string format_hf_config(const ModelConfig& config, DType dtype, const HfTokenIds& ids) {
  Buffer buffer;
  Writer::Json json(buffer);
  json.SetIndent(' ', 2);
  json.StartObject();
  const bool gpt2 = std::holds_alternative<Gpt2Config>(config);
  json.Key("architectures");
  json.StartArray();
  json.String(class_name(config));
  json.EndArray();
  json.Key("model_type");
  json.String(type_name(config));
  json.Key("torch_dtype");
  json.String(torch_name(dtype));
  std::visit([&](const auto& family) { visit_fields(Writer(json), family); }, config);
  if (!gpt2) {
    json.Key("hidden_act");
    json.String("silu");
  }
  const Writer write(json);
  write("bos_token_id", ids.bos);
  write("eos_token_id", ids.eos);
  write("pad_token_id", ids.pad);
  json.EndObject();
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

std::string keep_hf_config(std::string_view source, const std::string& path,
                           const ModelConfig& config, DType dtype) {
  if (format_hf_config(parse_hf_config(source, path), dtype) != format_hf_config(config, dtype)) {
    throw DataError(fmt::format(
        "{}: it is no longer of the model that is trained; put back what it was", path));
  }
  rapidjson::Document document = parse_object(source, path);
  auto& memory = document.GetAllocator();
  const auto set = [&](const char* key, rapidjson::Value value) {
    const auto found = document.FindMember(key);
    if (found == document.MemberEnd()) {
      document.AddMember(rapidjson::StringRef(key), value, memory);
    } else {
      found->value = value;
    }
  };
  const auto text = [](const char* word) { return rapidjson::Value(rapidjson::StringRef(word)); };
  if (find(document, "architectures") == nullptr) {
    rapidjson::Value list(rapidjson::kArrayType);
    list.PushBack(text(class_name(config)), memory);
    set("architectures", std::move(list));
  }
  if (find(document, "model_type") == nullptr) set("model_type", text(type_name(config)));
  // transformers 5 writes "dtype" and reads both; 4 writes "torch_dtype", and its older versions
  // read no other.
  if (document.HasMember("dtype")) set("dtype", text(torch_name(dtype)));
  set("torch_dtype", text(torch_name(dtype)));
  Buffer buffer;
  Writer::Json json(buffer);
  json.SetIndent(' ', 2);
  if (!document.Accept(json)) {
    throw Unsupported(fmt::format("{}: NaN or Infinity cannot be written back; remove it", path));
  }
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

}  // namespace ds
