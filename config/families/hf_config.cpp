#include "config/families/hf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rapidjson/document.h>
#include <rapidjson/error/en.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>

#include "config/families/spec/classifier_keys.h"
#include "config/families/spec/hf_object.h"
#include "config/families/spec/idle_keys.h"
#include "config/reader/convert.h"
#include "config/reader/fields.h"
#include "core/files/deepspeed_folder.h"
#include "core/files/hub_name.h"
#include "core/status/error.h"

namespace ds {
namespace {

using Json = rapidjson::Value;

constexpr int64_t kLargestConfig = 1 << 20;

// What a field can be made of; of a list or an object only that it is one.
Value scalar(const Json& value) {
  if (value.IsBool()) return Value::boolean(value.GetBool());
  if (value.IsInt64()) return Value::integer(value.GetInt64());
  if (value.IsNumber()) return Value::number(value.GetDouble());
  if (value.IsString()) return Value::string(std::string(text_of(value)));
  return value.IsArray() ? Value::list() : Value::object();
}

// Names that transformers has of an activation beside ours.
constexpr std::array kOtherNames{std::pair{"swish", "silu"}, std::pair{"gelu_python", "gelu"}};

Value by_known_name(Value value, const Spec& spec) {
  if (!value.is_string()) return value;
  for (const auto& [other, name] : kOtherNames) {
    const bool has_name = std::ranges::find(spec.only, std::string_view(name)) != spec.only.end();
    if (has_name && value.as_string() == other) return Value::string(name);
  }
  return value;
}

class FamilyReader final : public Visitor {
 public:
  FamilyReader(const HfObject& object, std::span<const HfAlias> aliases)
      : object_(object), path_(object.path()), aliases_(aliases) {}

  void on_field(const Field& field) override {
    std::string_view key = field.key;
    const Json* const json = find_by_any_name(key);
    if (json == nullptr) {
      // transformers has None then, whatever the default is.
      const bool can_be_unset = std::holds_alternative<std::optional<int64_t>*>(field.slot) ||
                                std::holds_alternative<std::optional<double>*>(field.slot);
      if (can_be_unset && object_.is_null(field.key)) store(Value::null(), field);
      return;
    }
    const Value value = by_known_name(scalar(*json), field.spec);
    Spec as_written = field.spec;
    as_written.refuse_text = as_written.refuse_boolean = true;
    const bool is_switch = std::holds_alternative<bool*>(field.slot);
    if ((is_switch && !json->IsBool()) ||
        store(value, {field.key, field.slot, as_written}) == Stored::kWrongKind) {
      throw DataError(fmt::format("{}: \"{}\" is {}, expected {}", path_, key, value.kind_name(),
                                  type_text(field)));
    }
  }
  void on_section(const Section&) override {}  // what is nested has many names: read_rest()
  void on_collection(const Collection&) override {}

 private:
  // transformers lets the alias win where both are given, which nobody can have meant.
  const Json* find_by_any_name(std::string_view& key) const {
    const Json* value = object_.find(key);
    for (const HfAlias& alias : aliases_) {
      const Json* other = alias.key == key ? object_.find(alias.other) : nullptr;
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

  const HfObject& object_;
  const std::string& path_;
  std::span<const HfAlias> aliases_;
};

class FamilyWriter final : public Visitor {
 public:
  explicit FamilyWriter(Value& object) : object_(object) {}
  void on_field(const Field& field) override {
    Value value = field_value(field);
    if (value.is_null() && field.spec.omit_unset) return;
    object_.set(field.key, std::move(value));
  }
  void on_section(const Section& section) override {
    if (!section.present()) return;
    FamilyWriter inside(object_.set(section.key, Value::object()));
    section.walk(inside);
  }
  void on_collection(const Collection&) override {}

 private:
  Value& object_;
};

template <class Config>
using FamilyOf = Family<std::remove_cvref_t<Config>>;

// transformers takes the model by "model_type", and others by the class that weights were saved of.
void refuse_other_type(const HfObject& object, std::string_view family) {
  const Json* const type = object.find("model_type");
  if (type == nullptr || !type->IsString() || text_of(*type) == family) return;
  object.refuse(
      fmt::format("\"model_type\" = \"{}\" beside \"architectures\" of another family, {}: they "
                  "are two models,",
                  text_of(*type), family));
}

template <class Config>
ModelConfig read_family(const HfObject& object) {
  const std::string& path = object.path();
  refuse_other_type(object, Family<Config>::kName);
  if (object.find("quantization_config") != nullptr) {
    object.refuse("a quantized model (\"quantization_config\")");
  }
  Config config;
  FamilyReader reader(object, Family<Config>::aliases());
  fields(reader, config);
  Family<Config>::read_rest(object, config);
  try {
    check(config, "");
  } catch (const ConfigError& error) {
    throw DataError(fmt::format("{}: {}", path, error.what()));
  } catch (const Unsupported& error) {
    throw Unsupported(fmt::format("{}: {}", path, error.what()));
  }
  if (is_causal(ModelConfig(config))) object.refuse_unless("is_causal", true);
  if (object.find("per_layer_config") != nullptr) {
    object.refuse("layers of several shapes (\"per_layer_config\")");
  }
  return config;
}

template <class Config>
void write_family(Config& config, FamilyWriter& writer, Value& object) {
  fields(writer, config);
  if constexpr (requires { Family<Config>::write_rest(object, config); }) {
    Family<Config>::write_rest(object, config);
  }
}

std::string architecture(const HfObject& object) {
  const Json* list = object.find("architectures");
  if (list != nullptr && !(list->IsArray() && (list->Empty() || (*list)[0].IsString()))) {
    throw DataError(fmt::format("{}: \"architectures\" must be a list with the name of a class",
                                object.path()));
  }
  if (list != nullptr && !list->Empty()) return std::string(text_of((*list)[0]));
  const Json* type = object.find("model_type");
  if (type == nullptr) return "";
  if (!type->IsString()) {
    throw DataError(fmt::format("{}: \"model_type\" must be a string", object.path()));
  }
  return std::string(text_of(*type));
}

std::string_view headless_class_of(const HfClasses& classes) {
  return classes.headless.empty() ? classes.body : classes.headless;
}

// Whether a model of a family has this name in a config.json.
template <class Config>
bool has_name(std::string_view name) {
  const HfClasses& classes = Family<Config>::kClasses;
  return !name.empty() && (name == classes.model || name == Family<Config>::kName ||
                           name == classes.with_other_heads || name == headless_class_of(classes));
}

// What models of a "model_type" have that no family here has.
struct MissingPart {
  std::string_view type, part;
};
constexpr std::array<MissingPart, 11> kMissingParts{
    {{"albert", "layers that share one set of weights"},
     {"bloom", "a bias of attention by distance (ALiBi)"},
     {"deberta", "attention to relative positions beside contents"},
     {"deberta-v2", "attention to relative positions beside contents"},
     {"deepseek_v2", "experts and latent attention"},
     {"deepseek_v3", "experts and latent attention"},
     {"gpt_oss", "experts and sinks of attention"},
     {"mamba", "state spaces in place of attention"},
     {"mpnet", "a bias of attention by relative positions"},
     {"mpt", "a bias of attention by distance (ALiBi)"},
     {"t5", "an encoder beside a decoder, and a bias of attention by relative positions"}}};

// For a refusal: "; it has experts, which this build does not compute", or nothing.
std::string missing_part(std::string_view type) {
  const auto* const found = std::ranges::find(kMissingParts, type, &MissingPart::type);
  if (found == kMissingParts.end()) return "";
  return fmt::format("; it has {}, which this build does not compute", found->part);
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

// What the scores of a model that has some are wanted to be.
void set_problem(const HfObject& object, ClassifierProblem problem, ModelConfig& config) {
  Classifier& classifier = *config.classifier;
  if (classifier.problem == problem) return;
  if (classifier.task == ClassifierTask::kTokens) {
    throw DataError(fmt::format("{}: {} scores one class of each token; remove model.problem_type",
                                object.path(), hf_model_class(config)));
  }
  if (problem == ClassifierProblem::kOneClass && classifier.labels.size() < 2) {
    throw DataError(
        fmt::format("{}: the model scores \"{}\" alone, a class that all texts would be of; remove "
                    "model.problem_type",
                    object.path(), classifier.labels.front()));
  }
  classifier.problem = problem;
}

// Has the model tell of pairs beside its tokens.
void set_pairs(const HfObject& object, const WantedClasses& wanted, ModelConfig& config) {
  if (config.classifier) {
    throw DataError(
        fmt::format("{}: {} is no model of model.task; remove that key, or take a "
                    "model that tells tokens",
                    object.path(), hf_model_class(config)));
  }
  if (!wanted.labels.empty() || wanted.problem) {
    throw DataError(
        fmt::format("{}: model.task next_sentence_prediction has two classes of its "
                    "own; remove model.{}",
                    object.path(), wanted.problem ? "problem_type" : "labels"));
  }
  if (!has_classifier(config, ClassifierTask::kPairs)) {
    object.refuse(fmt::format("a head that scores {} (model.task) of \"{}\"",
                              scored_words(ClassifierTask::kPairs), family_name(config)));
  }
  config.pairs = PairHead{.is_fresh = architecture(object) != hf_classes(config).with_other_heads};
}

// Has the model score these classes.
void set_classes(const HfObject& object, const WantedClasses& wanted, ModelConfig& config) {
  const std::vector<std::string>& labels = wanted.labels;
  if (wanted.task == ClassifierTask::kPairs) return set_pairs(object, wanted, config);
  if (config.classifier) {
    if (wanted.task.value_or(config.classifier->task) != config.classifier->task) {
      throw DataError(
          fmt::format("{}: {} is no model of model.task; remove that key, or take the "
                      "model that this one was made of",
                      object.path(), hf_model_class(config)));
    }
    if (labels.empty() || config.classifier->labels == labels) {
      return set_problem(object, wanted.problem.value_or(config.classifier->problem), config);
    }
    throw DataError(fmt::format(
        "{}: the model scores \"{}\" already, and model.labels has \"{}\"; remove model.labels, or "
        "take the model that this one was made of",
        object.path(), fmt::join(config.classifier->labels, "\", \""),
        fmt::join(labels, "\", \"")));
  }
  if (labels.empty()) {
    if (!wanted.task && !wanted.problem) return;
    throw DataError(fmt::format(
        "{}: {} scores no classes, as {} says; give their names in model.labels", object.path(),
        hf_model_class(config), wanted.task ? "model.task" : "model.problem_type"));
  }
  const ClassifierTask task = wanted.task.value_or(ClassifierTask::kTexts);
  if (!has_classifier(config, task)) {
    object.refuse(fmt::format("a head that scores {} (model.labels) of \"{}\"", scored_words(task),
                              family_name(config)));
  }
  const ClassifierProblem problem = wanted.problem.value_or(problem_of(labels));
  config.classifier = fresh_classifier(object, labels, task, problem);
}

// Leaves the last of members with one name, as Python's reader does, in all objects.
void keep_last(Json& value, rapidjson::Document::AllocatorType& memory) {
  std::vector<Json*> left{&value};
  while (!left.empty()) {
    Json& one = *left.back();
    left.pop_back();
    if (one.IsArray()) {
      for (Json& item : one.GetArray()) left.push_back(&item);
    }
    if (!one.IsObject()) continue;
    std::map<std::string_view, rapidjson::SizeType> last;
    rapidjson::SizeType place = 0;
    for (const auto& member : one.GetObject()) last[text_of(member.name)] = place++;
    if (last.size() != one.MemberCount()) {
      Json kept(rapidjson::kObjectType);
      for (place = 0; auto& member : one.GetObject()) {
        if (last[text_of(member.name)] == place++) {
          Json name(member.name, memory);
          kept.AddMember(name, member.value, memory);
        }
      }
      one = kept;
    }
    for (auto& member : one.GetObject()) left.push_back(&member.value);
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
  keep_last(document, document.GetAllocator());
  return document;
}

}  // namespace

namespace {

ModelConfig model_of(const HfObject& object, const WantedClasses& wanted) {
  const std::string name = architecture(object);
  for (const std::string_view part : {"text_config", "vision_config", "audio_config"}) {
    if (object.find(part) == nullptr) continue;
    object.refuse(
        fmt::format("a model of several parts (\"{}\"), as those that see images are,", part));
  }
  std::optional<ModelConfig> found;
  std::vector<std::string_view> known;
  std::string near;  // the class of the same family, or what there is no family for
  const Json* const type = object.find("model_type");
  if (type != nullptr && type->IsString()) near = missing_part(text_of(*type));
  const auto try_family = [&]<class Config>(const Config& config) {
    known.push_back(Family<Config>::kClasses.model);
    if (!found && has_name<Config>(name)) found = read_family<Config>(object);
    for (const ClassifierTask task : {ClassifierTask::kTexts, ClassifierTask::kTokens}) {
      if (found || name != classifier_class(Family<Config>::kClasses, task)) continue;
      if (!has_classifier(config, task)) continue;
      found = read_family<Config>(object);
      found->classifier = read_classifier(object, task);
    }
    if (type != nullptr && type->IsString() && text_of(*type) == Family<Config>::kName) {
      near = fmt::format("; of \"{}\" this build has {}", Family<Config>::kName, known.back());
    }
  };
  std::apply([&](const auto&... config) { (try_family(config), ...); }, FamilyConfigs{});
  if (found) set_classes(object, wanted, *found);
  if (found) return *found;
  throw Unsupported(fmt::format("{}: architecture \"{}\"{}; known are {}", object.path(), name,
                                near, fmt::join(known, ", ")));
}

}  // namespace

ModelConfig parse_hf_config(std::string_view json, const std::string& path,
                            const WantedClasses& wanted) {
  const rapidjson::Document document = parse_object(json, path);
  return model_of(HfObject(document, path), wanted);
}

std::vector<std::string> unread_hf_keys(std::string_view json, const std::string& path) {
  const rapidjson::Document document = parse_object(json, path);
  std::set<std::string> asked;
  const HfObject object(document, path, asked);
  model_of(object, {});
  std::vector<std::string> unread;
  for (const std::string_view key : object.keys()) {
    const bool is_read = asked.contains(std::string(key));
    if (!is_read && !is_idle_key(key, *object.find(key))) unread.emplace_back(key);
  }
  return unread;
}

ModelConfig read_hf_config(FileSystem& file_system, const std::string& folder,
                           const WantedClasses& wanted) {
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
      throw ConfigError(fmt::format(
          "{}: a model is a folder with the weights and their config.json; here, that is {}",
          folder, parent));
    }
  }
  return parse_hf_config(file_system.read_text(path, kLargestConfig), path, wanted);
}

std::string headless_class(FileSystem& file_system, const std::string& folder) {
  const std::string path = join_path(folder, "config.json");
  if (!file_system.exists(path)) return "";
  const std::string json = file_system.read_text(path, kLargestConfig);
  const rapidjson::Document document = parse_object(json, path);
  std::string name = architecture(HfObject(document, path));
  const bool is_headless = std::apply(
      [&](const auto&... config) {
        return ((name == headless_class_of(FamilyOf<decltype(config)>::kClasses)) || ...);
      },
      FamilyConfigs{});
  return is_headless ? name : "";
}

std::string format_hf_config(const ModelConfig& config, DType dtype, const HfTokenIds& ids) {
  const auto text = [](std::string_view word) { return Value::string(std::string(word)); };
  const auto id = [](std::optional<int64_t> number) {
    return number ? Value::integer(*number) : Value::null();
  };
  Value object = Value::object();
  object.set("architectures", Value::list({text(hf_model_class(config))}));
  object.set("model_type", text(family_name(config)));
  object.set("torch_dtype", text(torch_name(dtype)));
  FamilyWriter writer(object);
  std::visit([&](auto family) { write_family(family, writer, object); }, config);
  object.set("bos_token_id", id(ids.bos));
  object.set("eos_token_id", id(ids.eos));
  const bool is_a_field = object.find("pad_token_id") != nullptr;
  if (!is_a_field) object.set("pad_token_id", id(ids.pad));
  if (config.classifier) set_classifier(object, *config.classifier);
  return to_json(object);
}

std::string keep_hf_config(std::string_view source, const std::string& path,
                           const ModelConfig& config, DType dtype) {
  WantedClasses wanted;
  if (config.pairs) {
    wanted = {.task = ClassifierTask::kPairs};
  } else if (config.classifier && config.classifier->is_fresh) {
    wanted = {.labels = config.classifier->labels, .task = config.classifier->task};
  }
  ModelConfig stated = parse_hf_config(source, path, wanted);
  const bool is_new_head = stated.classifier && stated.classifier->is_fresh;
  // What the scores of the same head are may be another for the run than for the folder.
  std::optional<ClassifierProblem> other;
  if (stated.classifier && config.classifier &&
      stated.classifier->problem != config.classifier->problem) {
    other = stated.classifier->problem = config.classifier->problem;
  }
  if (format_hf_config(stated, dtype) != format_hf_config(config, dtype)) {
    throw DataError(fmt::format(
        "{}: it is of another model than the weights are; in a run, put back what it was", path));
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
  const HfObject object(document, path);
  const std::string model_class = hf_model_class(config);
  if (architecture(object) != model_class) {  // which is what weights are written of
    Json list(rapidjson::kArrayType);
    list.PushBack(text(model_class), memory);
    set("architectures", std::move(list));
  }
  if (is_new_head) {
    set_classifier(document, *config.classifier);
  } else if (other) {
    set("problem_type", text(enum_name(*other)));
  }
  if (object.find("model_type") == nullptr) set("model_type", text(family_name(config)));
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
