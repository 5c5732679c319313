#include "config/families/spec/classifier_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/reader/convert.h"
#include "config/reader/fields.h"
#include "core/status/error.h"
#include "core/text/number_in.h"
#include "core/values/index.h"

namespace ds {
namespace {

using Json = rapidjson::Value;

constexpr int64_t kMostClasses = 1 << 20;

std::vector<std::string> numbered_names(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(fmt::format("LABEL_{}", i));
  return names;
}

// {"0": "NEGATIVE", "1": "POSITIVE"}
std::vector<std::string> names_in(const HfObject& object, const Json& map) {
  const auto count = static_cast<int64_t>(map.MemberCount());
  std::vector<std::string> names(to_size(count));
  std::vector<bool> seen(to_size(count));
  for (const auto& member : map.GetObject()) {
    const std::optional<int64_t> id = number_in<int64_t>(text_of(member.name));
    if (!id || *id < 0 || *id >= count || nth(seen, *id) || !member.value.IsString() ||
        text_of(member.value).empty()) {
      throw DataError(
          fmt::format("{}: \"id2label\" has \"{}\", expected the numbers from 0 to {}, each with a "
                      "name",
                      object.path(), text_of(member.name), count - 1));
    }
    seen[to_size(*id)] = true;
    nth(names, *id) = std::string(text_of(member.value));
  }
  return names;
}

// Which row is scored, and what is dropped.
void read_form(const HfObject& object, Classifier& classifier) {
  if (const std::optional<double> padding = object.number("pad_token_id")) {
    classifier.padding = static_cast<int64_t>(std::clamp(*padding, -1.0, 1e15));
  }
  if (classifier.task == ClassifierTask::kTokens) {
    object.refuse_unless("token_classification_bias", true);
  }
  classifier.dropout = object.number("classifier_dropout");
  if (classifier.dropout && !(*classifier.dropout >= 0 && *classifier.dropout < 1)) {
    throw DataError(fmt::format("{}: \"classifier_dropout\" is {}, expected at least 0 and below 1",
                                object.path(), *classifier.dropout));
  }
}

// What scores of texts are. Heads of tokens know one kind of problem, and transformers never looks
// at the key.
ClassifierProblem read_problem(const HfObject& object, const Classifier& classifier) {
  if (classifier.task == ClassifierTask::kTokens) return ClassifierProblem::kOneClass;
  const Json* const problem = object.find("problem_type");
  if (problem == nullptr) return problem_of(classifier.labels);
  const std::string_view name = problem->IsString() ? text_of(*problem) : "";
  for (const EnumName& known : names_of(ClassifierProblem())) {
    if (known.name == name) return static_cast<ClassifierProblem>(known.value);
  }
  object.refuse(problem->IsString() ? fmt::format("\"problem_type\": \"{}\"", name)
                                    : "a \"problem_type\" that is no text");
}

}  // namespace

Classifier read_classifier(const HfObject& object, ClassifierTask task) {
  Classifier classifier{.labels = {}, .task = task};
  const double count = object.number("num_labels").value_or(2);
  if (count < 1 || count > static_cast<double>(kMostClasses) ||
      count != static_cast<double>(static_cast<int64_t>(count))) {
    throw DataError(fmt::format("{}: \"num_labels\" is {}, expected a number of classes",
                                object.path(), count));
  }
  object.object("id2label");
  const Json* const names = object.find("id2label");
  classifier.labels =
      names != nullptr ? names_in(object, *names) : numbered_names(static_cast<int64_t>(count));
  if (classifier.labels.empty()) object.refuse("an empty \"id2label\"");
  classifier.problem = read_problem(object, classifier);
  if (classifier.labels.size() < 2 && classifier.problem == ClassifierProblem::kOneClass) {
    object.refuse(fmt::format("one class (\"num_labels\": 1), which all {} are of,",
                              task == ClassifierTask::kTexts ? "texts" : "tokens"));
  }
  read_form(object, classifier);
  return classifier;
}

Classifier fresh_classifier(const HfObject& object, const std::vector<std::string>& labels,
                            ClassifierTask task, ClassifierProblem problem) {
  Classifier classifier{.labels = labels, .is_fresh = true, .task = task, .problem = problem};
  read_form(object, classifier);
  return classifier;
}

void set_classifier(Value& object, const Classifier& classifier) {
  Value names = Value::object(), numbers = Value::object();
  for (size_t i = 0; i < classifier.labels.size(); ++i) {
    names.set(std::to_string(i), Value::string(classifier.labels[i]));
    numbers.set(classifier.labels[i], Value::integer(narrow<int64_t>(i)));
  }
  object.set("id2label", std::move(names));
  object.set("label2id", std::move(numbers));
  if (classifier.task == ClassifierTask::kTexts) {
    object.set("problem_type", Value::string(std::string(enum_name(classifier.problem))));
  }
  if (classifier.dropout) object.set("classifier_dropout", Value::number(*classifier.dropout));
}

void set_classifier(rapidjson::Document& object, const Classifier& classifier) {
  auto& memory = object.GetAllocator();
  const auto text = [&](const std::string& word) {
    return Json(word.data(), static_cast<rapidjson::SizeType>(word.size()), memory);
  };
  Json names(rapidjson::kObjectType), numbers(rapidjson::kObjectType);
  for (size_t i = 0; i < classifier.labels.size(); ++i) {
    names.AddMember(text(std::to_string(i)), text(classifier.labels[i]), memory);
    numbers.AddMember(text(classifier.labels[i]), Json(static_cast<int64_t>(i)), memory);
  }
  const auto set = [&](const char* key, Json value) {
    object.RemoveMember(key);
    object.AddMember(Json(key, memory), value, memory);
  };
  set("id2label", std::move(names));
  set("label2id", std::move(numbers));
  if (classifier.task == ClassifierTask::kTexts) {
    set("problem_type", text(std::string(enum_name(classifier.problem))));
  }
  object.RemoveMember("num_labels");  // id2label says it
}

}  // namespace ds
