#include "config/automatic.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "config/catalogue.h"
#include "config/field_writer.h"
#include "config/reader/convert.h"

namespace ds {

namespace {

constexpr std::string_view kPeak = "scheduler.params.warmup_max_lr";

bool is_automatic(const Value* value) {
  return value != nullptr && value->is_string() && value->as_string() == "auto";
}

const Value* at_path(const Value& root, std::string_view path) {
  const Value* value = &root;
  while (value != nullptr && !path.empty()) {
    const size_t dot = path.find('.');
    value = value->find(path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
  }
  return value;
}

// "auto" is a value of its own, or how the absence of one is written.
bool has_value_auto(const Field& field) {
  if (field.spec.unset_text == "auto") return true;
  const auto* names = std::get_if<EnumRef>(&field.slot);
  return names != nullptr && std::ranges::any_of(names->names(), [](const EnumName& name) {
           return name.name == "auto";
         });
}

// Walks the document beside the fields that read it.
class AutomaticFinder final : public Visitor {
 public:
  explicit AutomaticFinder(const Value& document) : object_(&document) {}
  std::vector<AutomaticValue> take() { return std::move(found_); }

  void on_field(const Field& field) override {
    const Member* member = object_->find_member(field.key);
    for (const std::string_view synonym : field.spec.synonyms) {
      if (member == nullptr) member = object_->find_member(synonym);
    }
    if (member == nullptr || !is_automatic(&member->value) || has_value_auto(field)) return;
    const Value value = field_value(field);
    std::string reason;
    if (value.is_null()) {
      const std::string_view meaning = field.spec.unset_meaning;
      reason = fmt::format("not given{}{}", meaning.empty() ? "" : ": ", meaning);
    }
    found_.push_back({path_of(field.key), member->value.origin(), value, std::move(reason)});
  }

  void on_section(const Section& section) override {
    const Value* value = object_->find(section.key);
    if (value == nullptr) return;
    const std::string path = path_of(section.key);
    if (value->is_object()) return inside(path, *value, section.walk);
    if (is_automatic(value)) found_.push_back({path, value->origin(), Value(), "not given"});
  }

  void on_collection(const Collection& collection) override {
    const Value* value = object_->find(collection.key);
    if (value == nullptr) return;
    const std::string path = path_of(collection.key);
    for (const std::string& name : collection.names()) {
      const bool is_list = collection.is_list();
      const Value* element = is_list ? &value->items().at(std::stoul(name)) : value->find(name);
      if (element == nullptr || !element->is_object()) continue;
      inside(is_list ? fmt::format("{}[{}]", path, name) : fmt::format("{}.{}", path, name),
             *element, [&](Visitor& v) { collection.walk(name, v); });
    }
  }

 private:
  std::string path_of(std::string_view key) const {
    return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  }
  void inside(const std::string& path, const Value& object,
              const std::function<void(Visitor&)>& walk) {
    const std::string outer_path = std::exchange(path_, path);
    const Value* outer = std::exchange(object_, &object);
    walk(*this);
    object_ = outer;
    path_ = outer_path;
  }

  const Value* object_;
  std::string path_;
  std::vector<AutomaticValue> found_;
};

std::string_view precision_of(const Config& config) {
  if (config.fp16.enabled) return "fp16";
  if (config.bf16.enabled) return "bf16";
  if (config.amp.enabled || config.torch_autocast.enabled) return "mixed";
  return "fp32";
}

// Why a value is what it is where "auto" stands for one.
std::string reason_of(const AutomaticValue& found, const Config& config,
                      const std::vector<CatalogueEntry>& entries) {
  if (found.path == "fp16.enabled" || found.path == "bf16.enabled") {
    return fmt::format("so that training is in {} precision", precision_of(config));
  }
  if (found.path == kPeak) return "the learning rate of the optimizer";
  const CatalogueEntry* entry = find_entry(entries, found.path);
  const bool is_default = entry != nullptr && same_content(entry->default_value, found.value);
  return is_default ? "the default" : "which follows from other keys";
}

// What the Trainer of Hugging Face puts into keys that have "auto", in the names of its
// TrainingArguments; empty for keys that it leaves as they are.
std::string_view trainers_own(std::string_view path) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"train_batch_size", "the product of its batch per device, its accumulation steps and ranks"},
      {"train_micro_batch_size_per_gpu", "its per_device_train_batch_size"},
      {"gradient_accumulation_steps", "its gradient_accumulation_steps"},
      {"gradient_clipping", "its max_grad_norm"},
      {"optimizer.params.lr", "its learning_rate"},
      {"optimizer.params.betas", "its adam_beta1 and adam_beta2"},
      {"optimizer.params.eps", "its adam_epsilon"},
      {"optimizer.params.weight_decay", "its weight_decay"},
      {"scheduler.params.warmup_min_lr", "0"},
      {"scheduler.params.warmup_num_steps", "its warmup_steps, or its share of all steps,"},
      {"scheduler.params.total_num_steps", "the number of its steps"},
      {"fp16.enabled", "its fp16"},
      {"bf16.enabled", "its bf16"},
      {"amp.enabled", "its fp16, if fp16_backend is apex,"},
      {"amp.opt_level", "its fp16_opt_level"},
      {"zero_optimization.reduce_bucket_size", "hidden_size * hidden_size"},
      {"zero_optimization.stage3_prefetch_bucket_size", "0.9 * hidden_size * hidden_size"},
      {"zero_optimization.stage3_param_persistence_threshold", "10 * hidden_size"},
  };
  const auto* found =
      std::ranges::find(kNames, path, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(kNames) ? std::string_view() : found->second;
}

}  // namespace

std::vector<AutomaticValue> automatic_values(const Value& document, const Config& config) {
  Config walked = config;
  AutomaticFinder finder(document);
  fields(finder, walked);
  std::vector<AutomaticValue> found = finder.take();
  if (found.empty()) return found;
  const std::vector<CatalogueEntry> entries = catalogue_of(config);
  for (AutomaticValue& value : found) {
    if (value.reason.empty()) value.reason = reason_of(value, config, entries);
    value.value = without_brackets(value.value);
  }
  return found;
}

void settle_automatic(const Value& document, Config& config) {
  if (!is_automatic(at_path(document, kPeak))) return;
  const Value settled = write_fields(config);
  const Value* rate = at_path(settled, "optimizer.params.lr");
  const bool known = rate != nullptr && !rate->is_null();
  const double peak = known ? rate->as_number() : config.optimizer.adam.lr;
  config.scheduler.warmup.warmup_max_lr = std::vector<double>{peak};
  config.scheduler.warmup_decay.warmup_max_lr = {peak};
}

void note_automatic(const Value& document, const Config& config, Problems& problems) {
  for (const AutomaticValue& found : automatic_values(document, config)) {
    const std::string value =
        found.value.is_null() ? "" : fmt::format("{}, ", to_compact_json(found.value));
    const std::string_view trainers = trainers_own(found.path);
    problems.note(
        found.path, found.origin,
        fmt::format("\"auto\" is taken as {}{}{}", value, found.reason,
                    trainers.empty()
                        ? ""
                        : fmt::format("; the Trainer of Hugging Face puts {} here", trainers)));
  }
}

}  // namespace ds
