#include "train/settings/deepspeed_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "config/reader/json_reader.h"
#include "config/reader/value_path.h"
#include "core/text/join_some.h"
#include "core/text/letters.h"
#include "core/text/number_in.h"

namespace ds {
namespace {

using deepspeed::Progress;
using deepspeed::SavedScaler;

// The state of these is nothing but slots and the number of updates, in DeepSpeed as here.
constexpr std::array<std::string_view, 5> kFamilies = {"adam", "lion", "sgd", "adagrad", "rmsprop"};

constexpr size_t kMostNamed = 4;  // parameters in a message

std::string setting(const Progress& progress, const std::string& key) {
  const auto found = progress.settings.find(key);
  return found == progress.settings.end() ? "" : found->second;
}

// The family of a type as ds_config names it, in letters of any size.
std::string family_of(const std::string& type) {
  const std::string name = lower_case(type);
  return name == "adamw" ? "adam" : name;
}

std::string slots_in_words(const std::vector<std::string>& slots) {
  return slots.empty() ? "nothing" : fmt::format("{}", fmt::join(slots, ", "));
}

// Empty: it is none.
std::string another_optimizer(const DeepSpeedFacts& from, const RunToGoOn& run) {
  const std::string type = setting(from.progress, "optimizer.type");
  if (std::ranges::find(kFamilies, run.optimizer) == kFamilies.end()) {
    return fmt::format("the optimizer here is {}, and its state is not read from DeepSpeed's files",
                       run.optimizer);
  }
  if (!type.empty() && family_of(type) != run.optimizer) {
    return fmt::format("it was saved with the optimizer {}, and this run has {}", type,
                       run.optimizer);
  }
  const std::set<std::string> theirs(from.slots.begin(), from.slots.end());
  if (theirs == std::set<std::string>(run.slots.begin(), run.slots.end())) return "";
  return fmt::format("its optimizer keeps {} of each parameter, and that of this run ({}) {}",
                     slots_in_words(from.slots), run.optimizer, slots_in_words(run.slots));
}

std::string refusal_of(const DeepSpeedFacts& from, const RunToGoOn& run) {
  if (std::string why = another_optimizer(from, run); !why.empty()) {
    return fmt::format("{}: {}; keep the optimizer, or, {}", from.path, why,
                       weights_alone(from.path));
  }
  if (!from.frozen.empty()) {
    return fmt::format("{}: {} were not trained there, and here all parameters are; {}", from.path,
                       join_some(from.frozen, kMostNamed), weights_alone(from.path));
  }
  const Progress& progress = from.progress;
  if (progress.updates.value_or(0) > progress.steps) {
    return fmt::format("{}: its optimizer has made {} updates in {} steps; {}", from.path,
                       *progress.updates, progress.steps, weights_alone(from.path));
  }
  return "";
}

void compare_samples(const Progress& progress, const RunToGoOn& run, Continuation& out) {
  const int64_t own = progress.steps * run.global_batch;
  if (progress.samples == 0 || progress.samples == own) return;
  // Tensor parallelism of DeepSpeed's own counts those of each of the ranks that share a sample.
  if (own * progress.tensor_ranks == progress.samples) return;
  out.changes.push_back(fmt::format(
      "its {} steps took {} samples, and with the batch size of this run, {}, they would have "
      "taken {}, behind which it goes on",
      progress.steps, progress.samples, run.global_batch, own));
}

void compare_schedules(const Progress& progress, int64_t updates, const RunToGoOn& run,
                       Continuation& out) {
  const std::string theirs = setting(progress, "scheduler.type");
  if (run.schedule.empty()) {
    if (progress.scheduler_steps) {
      out.notes.emplace_back(
          "its scheduler is not gone on with: the rate of this run is that of the optimizer");
    }
    return;
  }
  if (!progress.scheduler_steps) {
    out.notes.push_back(
        fmt::format("it has no position of a scheduler of DeepSpeed's: {} goes on behind update {}",
                    run.schedule, updates));
  } else if (*progress.scheduler_steps != updates) {
    out.changes.push_back(
        fmt::format("its scheduler has made {} steps and its optimizer {} updates; {} goes on "
                    "behind the latter",
                    *progress.scheduler_steps, updates, run.schedule));
  }
  if (!theirs.empty() && theirs != run.schedule) {
    out.notes.push_back(fmt::format("scheduler.type was {} and is {}", theirs, run.schedule));
  }
}

void take_scale(const Progress& progress, const RunToGoOn& run, Continuation& out) {
  const std::optional<SavedScaler>& saved = progress.scaler;
  const bool has_dynamic = saved && saved->is_dynamic;
  if (run.loss_scale.kind != LossScaling::kDynamic) {
    if (saved && run.loss_scale.kind == LossScaling::kNone) {
      out.notes.push_back(fmt::format(
          "its loss scale, {}, is not gone on with: this run scales no losses", saved->scale));
    } else if (has_dynamic) {
      out.notes.push_back(
          fmt::format("its loss scale moved and was {}; that of this run is fixed", saved->scale));
    }
    return;
  }
  if (!has_dynamic) {
    out.notes.emplace_back("it has no loss scale that moves: that of this run begins anew");
    return;
  }
  out.scaler = {.scale = saved->scale,
                .iteration = saved->iterations,
                .last_overflow = saved->last_overflow,
                .hysteresis = saved->hysteresis.value_or(run.loss_scale.options.hysteresis)};
}

bool same_words(const std::string& one, const std::string& other) {
  const std::optional<double> a = number_in<double>(one), b = number_in<double>(other);
  return a && b ? *a == *b : lower_case(one) == lower_case(other);
}

// A value of the configuration as the settings of a checkpoint have it; nothing for objects.
std::optional<std::string> words_of(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kBoolean:
      return value.as_boolean() ? "true" : "false";
    case Value::Kind::kInteger:
    case Value::Kind::kNumber:
      return fmt::format("{}", value.as_number());
    case Value::Kind::kString:
      return value.as_string();
    case Value::Kind::kList: {
      std::vector<std::string> items;
      for (const Value& item : value.items()) items.push_back(words_of(item).value_or("..."));
      return fmt::format("[{}]", fmt::join(items, ", "));
    }
    case Value::Kind::kNull:
    case Value::Kind::kObject:
      return std::nullopt;
  }
  return std::nullopt;
}

// Keys that both sides have. Their types are compared by what they mean.
void compare_settings(const Progress& progress, const std::string& config, Continuation& out) {
  if (config.empty()) return;
  const Value own = read_config_document(config, "the configuration");
  for (const auto& [key, theirs] : progress.settings) {
    const Value* const found = value_at(own, key);
    const std::optional<std::string> words = found == nullptr ? std::nullopt : words_of(*found);
    if (!words || key.ends_with(".type") || same_words(theirs, *words)) continue;
    out.notes.push_back(fmt::format("{} was {} and is {}", key, theirs, *words));
  }
}

}  // namespace

std::string weights_alone(const std::string& path) {
  return fmt::format(
      "to go on from its weights alone, make a model of them (dslaunch convert {} OUT --config "
      "MODEL) and begin with OUT as model.folder",
      path);
}

Continuation continuation_of(const DeepSpeedFacts& from, const RunToGoOn& run) {
  const Progress& progress = from.progress;
  Continuation out;
  out.refusal = refusal_of(from, run);
  if (!out.refusal.empty()) return out;
  const int64_t updates = progress.updates.value_or(progress.steps - progress.skipped);
  out.step = progress.steps;
  out.skipped = progress.steps - updates;
  compare_samples(progress, run, out);
  compare_schedules(progress, updates, run, out);
  take_scale(progress, run, out);
  if (setting(progress, "optimizer.type").empty()) {
    out.notes.push_back(fmt::format(
        "it does not name its optimizer, and what that keeps is what {} keeps", run.optimizer));
  }
  compare_settings(progress, run.config, out);
  return out;
}

}  // namespace ds
