#include "core/torch/value_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/torch/pickle_source.h"

namespace ds {
namespace {

constexpr int64_t kStepsInAnyCase = 65536;
constexpr int64_t kStepsPerByte = 16;

// A container by its address; null for other values.
const void* container_of(const TorchValue& value) {
  if (value.as_sequence() != nullptr) return value.as_sequence();
  if (value.as_dict() != nullptr) return value.as_dict();
  return value.as_record();
}

size_t count_of_parts(const TorchValue& value) {
  if (const TorchList* list = value.as_sequence(); list != nullptr) return list->items.size();
  if (const TorchDict* dict = value.as_dict(); dict != nullptr) return 2 * dict->items.size() + 1;
  return value.as_record()->arguments.size() + 1;
}

const TorchValue& part_of(const TorchValue& value, size_t index) {
  if (const TorchList* list = value.as_sequence(); list != nullptr) return list->items[index];
  if (const TorchDict* dict = value.as_dict(); dict != nullptr) {
    if (index == 2 * dict->items.size()) return dict->attributes;
    const auto& [key, item] = dict->items[index / 2];
    return index % 2 == 0 ? key : item;
  }
  const TorchRecord& record = *value.as_record();
  return index < record.arguments.size() ? record.arguments[index] : record.state;
}

std::optional<std::string> defect_of_keys(const TorchDict& dict) {
  std::unordered_set<std::string_view> texts;
  std::unordered_set<int64_t> numbers;
  for (const auto& [key, value] : dict.items) {
    if (const auto text = key.as_text(); text.has_value() && !texts.insert(*text).second) {
      return fmt::format("a dict has the key {} twice", quoted_of_file(*text));
    }
    if (const auto number = key.as_int(); number.has_value() && !numbers.insert(*number).second) {
      return fmt::format("a dict has the key {} twice", *number);
    }
  }
  return std::nullopt;
}

// The containers one after the other, each after those it contains; without recursion, as the file
// decides how deep it goes.
class Walk {
 public:
  explicit Walk(int64_t steps_max) : steps_max_(steps_max) {}

  std::optional<std::string> go(const TorchValue& root) {
    if (auto defect = enter(root); defect.has_value()) return defect;
    while (!open_.empty()) {
      Open& open = open_.back();
      if (open.next == count_of_parts(*open.value)) {
        if (auto defect = leave(); defect.has_value()) return defect;
        continue;
      }
      const TorchValue& part = part_of(*open.value, open.next++);
      if (auto defect = enter(part); defect.has_value()) return defect;
    }
    return std::nullopt;
  }

 private:
  struct Totals {
    int64_t steps = kUnfinished;
    int depth = 0;
  };
  struct Open {
    const TorchValue* value;
    size_t next;
    Totals totals;
  };
  static constexpr int64_t kUnfinished = -1;

  std::optional<std::string> enter(const TorchValue& value) {
    const void* container = container_of(value);
    if (container == nullptr) return add({.steps = 1, .depth = 0});
    const auto [found, added] = totals_.try_emplace(container);
    if (!added && found->second.steps == kUnfinished) {
      return fmt::format("{} contains itself", kind_text(value.kind()));
    }
    if (!added) return add(found->second);
    if (value.as_dict() != nullptr) {
      if (auto defect = defect_of_keys(*value.as_dict()); defect.has_value()) return defect;
    }
    open_.push_back({.value = &value, .next = 0, .totals = {.steps = 1, .depth = 1}});
    return defect_of(open_.back().totals);
  }

  std::optional<std::string> leave() {
    const Open done = open_.back();
    open_.pop_back();
    totals_[container_of(*done.value)] = done.totals;
    return add(done.totals);
  }

  // A part's totals go to the container that is open.
  std::optional<std::string> add(const Totals& part) {
    if (open_.empty()) return std::nullopt;
    Totals& totals = open_.back().totals;
    totals.steps += part.steps;
    totals.depth = std::max(totals.depth, part.depth + 1);
    return defect_of(totals);
  }

  std::optional<std::string> defect_of(const Totals& totals) const {
    if (std::max(totals.depth, static_cast<int>(open_.size())) > kDeepestTorchValue) {
      return fmt::format("values are nested more than {} deep", kDeepestTorchValue);
    }
    if (totals.steps > steps_max_) {
      return fmt::format("values that are shared come to more than {} in all", steps_max_);
    }
    return std::nullopt;
  }

  int64_t steps_max_;
  std::unordered_map<const void*, Totals> totals_;
  std::vector<Open> open_;
};

}  // namespace

std::optional<std::string> defect_of_value(const TorchValue& root, int64_t pickle_bytes) {
  return Walk(kStepsInAnyCase + kStepsPerByte * pickle_bytes).go(root);
}

}  // namespace ds
