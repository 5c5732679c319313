// Scheduler parameters by name.
#include "optim/lr_schedule_params.h"

#include <set>

#include "core/error.h"

namespace ds {

namespace {

// Takes the parameters out by name, so that what nobody asked for is known at the end.
class Reader {
 public:
  Reader(std::string_view type, const ScheduleParams& params) : type_(type), params_(params) {}

  void read(std::string_view name, double& into) {
    if (const ScheduleValue* value = take(name)) into = number(name, *value);
  }
  void read(std::string_view name, bool& into) {
    const ScheduleValue* value = take(name);
    if (!value) return;
    const bool* flag = std::get_if<bool>(value);
    if (!flag) refuse(name, "true or false");
    into = *flag;
  }
  void read(std::string_view name, int64_t& into) {
    const ScheduleValue* value = take(name);
    if (!value) return;
    const int64_t* whole = std::get_if<int64_t>(value);
    if (!whole) refuse(name, "a whole number");
    into = *whole;
  }
  void read(std::string_view name, PerGroup& into) {
    if (const ScheduleValue* value = take(name)) into = per_group(name, *value);
  }
  void read(std::string_view name, WarmupShape& into) {
    const ScheduleValue* value = take(name);
    if (!value) return;
    const std::string* text = std::get_if<std::string>(value);
    into = text && *text == "linear" ? WarmupShape::kLinear : WarmupShape::kLog;
  }
  // Null and absent both leave an optional empty, except that null also clears a default.
  template <class T>
  void read(std::string_view name, std::optional<T>& into) {
    const ScheduleValue* value = take(name);
    if (!value) return;
    if (std::holds_alternative<std::monostate>(*value)) {
      into.reset();
      return;
    }
    T inner{};
    read(name, inner);
    into = inner;
  }
  template <class T>
  void require(std::string_view name, T& into) {
    if (!params_.contains(std::string(name))) {
      throw ConfigError(fmt::format("scheduler: {} needs the parameter {}", type_, name));
    }
    read(name, into);
  }

  void finish() const {
    for (const auto& [name, value] : params_) {
      if (!seen_.contains(name)) {
        throw ConfigError(fmt::format("scheduler: {} has no parameter {}", type_, name));
      }
    }
  }

 private:
  const ScheduleValue* take(std::string_view name) {
    seen_.emplace(name);
    const auto entry = params_.find(std::string(name));
    return entry == params_.end() ? nullptr : &entry->second;
  }
  double number(std::string_view name, const ScheduleValue& value) const {
    if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
    if (const auto* real = std::get_if<double>(&value)) return *real;
    refuse(name, "a number");
  }
  PerGroup per_group(std::string_view name, const ScheduleValue& value) const {
    if (const auto* list = std::get_if<std::vector<double>>(&value)) return *list;
    return number(name, value);
  }
  [[noreturn]] void refuse(std::string_view name, std::string_view expected) const {
    throw ConfigError(fmt::format("scheduler: {} of {} must be {}", name, type_, expected));
  }

  std::string_view type_;
  const ScheduleParams& params_;
  std::set<std::string, std::less<>> seen_;
};

LrRangeTestOptions range_test(Reader& in) {
  LrRangeTestOptions o;
  in.read("lr_range_test_min_lr", o.min_lr);
  in.read("lr_range_test_step_size", o.step_size);
  in.read("lr_range_test_step_rate", o.step_rate);
  in.read("lr_range_test_staircase", o.staircase);
  in.read("last_batch_iteration", o.last_batch_iteration);
  return o;
}

OneCycleOptions one_cycle(Reader& in) {
  OneCycleOptions o;
  in.require("cycle_min_lr", o.min_lr);
  in.require("cycle_max_lr", o.max_lr);
  in.read("cycle_first_step_size", o.first_step_size);
  in.read("cycle_second_step_size", o.second_step_size);
  in.read("cycle_first_stair_count", o.first_stair_count);
  in.read("cycle_second_stair_count", o.second_stair_count);
  in.read("decay_step_size", o.decay_step_size);
  in.read("decay_lr_rate", o.decay_lr_rate);
  in.read("decay_mom_rate", o.decay_mom_rate);
  in.read("cycle_momentum", o.cycle_momentum);
  in.read("cycle_min_mom", o.min_mom);
  in.read("cycle_max_mom", o.max_mom);
  in.read("last_batch_iteration", o.last_batch_iteration);
  return o;
}

template <class Options>
void warmup(Reader& in, Options& o) {
  in.read("warmup_min_lr", o.min_lr);
  in.read("warmup_max_lr", o.max_lr);
  in.read("warmup_num_steps", o.num_steps);
  in.read("warmup_type", o.shape);
  in.read("last_batch_iteration", o.last_batch_iteration);
}

WarmupOptions warmup_lr(Reader& in) {
  WarmupOptions o;
  warmup(in, o);
  return o;
}

WarmupDecayOptions warmup_decay(Reader& in) {
  WarmupDecayOptions o;
  in.require("total_num_steps", o.total_num_steps);
  warmup(in, o);
  return o;
}

WarmupCosineOptions warmup_cosine(Reader& in) {
  WarmupCosineOptions o;
  in.require("total_num_steps", o.total_num_steps);
  in.read("warmup_min_ratio", o.min_ratio);
  in.read("warmup_num_steps", o.num_steps);
  in.read("cos_min_ratio", o.cos_min_ratio);
  in.read("warmup_type", o.shape);
  in.read("last_batch_iteration", o.last_batch_iteration);
  return o;
}

LrScheduleOptions read_options(std::string_view type, Reader& in) {
  if (type == "LRRangeTest") return range_test(in);
  if (type == "OneCycle") return one_cycle(in);
  if (type == "WarmupLR") return warmup_lr(in);
  if (type == "WarmupDecayLR") return warmup_decay(in);
  if (type == "WarmupCosineLR") return warmup_cosine(in);
  throw ConfigError(
      fmt::format("scheduler: type {} is unknown, expected LRRangeTest, OneCycle, WarmupLR, "
                  "WarmupDecayLR or WarmupCosineLR",
                  type));
}

std::string_view headline_name(std::string_view type) {
  if (type == "LRRangeTest") return "lr_range_test_min_lr";
  if (type == "OneCycle") return "cycle_max_lr";
  for (const std::string_view warmup : {"WarmupLR", "WarmupDecayLR", "WarmupCosineLR"}) {
    if (type == warmup) return "warmup_max_lr";
  }
  throw ConfigError(fmt::format("scheduler: type {} is unknown", type));
}

}  // namespace

LrScheduleOptions lr_schedule_options(std::string_view type, const ScheduleParams& params) {
  Reader in(type, params);
  LrScheduleOptions options = read_options(type, in);
  in.finish();
  return options;
}

PerGroup headline_lr(std::string_view type, const ScheduleParams& params) {
  PerGroup lr = 0.0;
  Reader(type, params).require(headline_name(type), lr);
  return lr;
}

}  // namespace ds
