#include "config/available.h"

#include <algorithm>
#include <array>
#include <utility>

#include "config/effect.h"
#include "config/inert.h"
#include "config/origins.h"
#include "config/reader/value_path.h"
#include "core/status/error.h"

namespace ds {

void check_available(const Config& config, const Origins& origins, Problems& problems) {
  const Effects effects = effects_of(config);
  const std::vector<InertKeys> inert = inert_keys(config, effects);
  std::vector<Problem> missing;
  for (const MissingFeature& feature : effects.missing) {
    // What is not looked at in this combination of keys is not asked for.
    if (std::ranges::any_of(inert,
                            [&](const InertKeys& keys) { return keys.covers(feature.path); })) {
      continue;
    }
    const auto is_moot = [&](const Problem& problem) {
      return is_within(problem.path, feature.path) ||
             std::ranges::any_of(feature.moot, [&](const std::string& part) {
               return is_within(problem.path, part);
             });
    };
    problems.soften(is_moot, "without the feature");
    const auto given = origins.find(std::string_view(feature.path));
    missing.push_back({.severity = Severity::kError,
                       .basis = Basis::kOwn,
                       .path = feature.path,
                       .origin = given == origins.end() ? Origin{} : given->second,
                       .message = feature.message});
  }
  for (Problem& problem : missing) problems.add(std::move(problem));
}

namespace {

bool is_auto(const Value& document, std::string_view path) {
  const Value* const value = value_at(document, path);
  return value != nullptr && value->is_string() && value->as_string() == "auto";
}

// Also a part of it, or what it is a part of.
bool is_refused(const Problems& problems, std::string_view path) {
  return std::ranges::any_of(problems.all(), [&](const Problem& problem) {
    return problem.severity == Severity::kError && !problem.path.empty() &&
           (is_within(problem.path, path) || is_within(path, problem.path));
  });
}

}  // namespace

void check_complete(ReadConfig& read, Severity severity) {
  const Config& config = read.config;
  const auto need = [&](bool present, const char* path, std::string what) {
    if (present || is_refused(read.problems, path)) return;
    if (is_auto(read.document, path)) {
      what += "; \"auto\" is for a program that puts a number there, and none does here";
    }
    read.problems.add({.severity = severity,
                       .basis = Basis::kOwn,
                       .path = path,
                       .origin = origin_near(read.origins, path),
                       .message = std::move(what)});
  };
  need(config.model.folder || config.model.family, "model", "is needed to train");
  need(!config.data.train.empty(), "data.train", "is needed to train");
  need(config.train.steps || config.train.epochs, "train.steps",
       "is needed to train (or train.epochs)");
  const SchedulerConfig& scheduler = config.scheduler;
  const bool decays =
      scheduler.type == SchedulerType::kWarmupDecayLR && !scheduler.warmup_decay.total_num_steps;
  const bool waves =
      scheduler.type == SchedulerType::kWarmupCosineLR && !scheduler.warmup_cosine.total_num_steps;
  need((!decays && !waves) || config.train.steps, "scheduler.params.total_num_steps",
       "is needed to train (or train.steps, which it defaults to)");
  need(config.optimizer.type.has_value(), "optimizer", "is needed to train");
  need(
      config.train_batch_size || config.train_micro_batch_size_per_gpu || config.elasticity.enabled,
      "train_batch_size", "is needed to train (or train_micro_batch_size_per_gpu)");
}

bool describes_run(const ReadConfig& read) {
  return std::ranges::any_of(std::array{"model", "data", "train"}, [&](const char* section) {
    return read.document.find(section) != nullptr;
  });
}

void require_runnable(const Config& config) {
  Problems missing;
  check_available(config, {}, missing);
  if (missing.has_errors()) {
    std::string text;
    for (const Problem& problem : missing.all()) {
      text += (text.empty() ? "" : "\n") + problem.text();
    }
    throw Unsupported(text);
  }
  ReadConfig read{.config = config, .document = Value::object(), .origins = {}, .problems = {}};
  check_complete(read);
  read.problems.throw_if_any();
}

}  // namespace ds
