// Area lr_schedules: the scheduler section as the product reads it, stepped as a training loop
// steps it.
#include <fmt/format.h>

#include "config/load.h"
#include "core/status/error.h"
#include "optim/lr_schedule.h"
#include "tests/conform/areas.h"
#include "tests/conform/json_io.h"

namespace ds::conform {
namespace {

// DeepSpeed takes every shape that it does not know for log; the product refuses it.
std::string text_of(const Json* params) {
  if (!params) return "{}";
  rapidjson::Document copy;
  copy.CopyFrom(*params, copy.GetAllocator());
  const auto shape = copy.FindMember("warmup_type");
  if (shape != copy.MemberEnd() && as_text(shape->value) != "linear") shape->value = "log";
  return to_text(copy);
}

// Throws what is wrong with the section; the rest of the configuration is not there. A null that
// the product takes for the default is an error, as it is where DeepSpeed hands it on.
SchedulerConfig read_section(const std::string& type, const Json* params) {
  const ReadConfig read = read_config_text(
      fmt::format(R"({{"scheduler": {{"type": "{}", "params": {}}}}})", type, text_of(params)),
      "case");
  for (const Problem& problem : read.problems.all()) {
    const bool wrong = problem.severity == Severity::kError ||
                       problem.message.starts_with("null is taken as not given");
    if (wrong && is_within(problem.path, "scheduler")) throw ConfigError(problem.text());
  }
  return read.config.scheduler;
}

// The product takes a list of one for a value without brackets; a case has one entry per group.
void check_lists(const Json* params, size_t groups) {
  if (!params) return;
  for (const auto& member : params->GetObject()) {
    if (member.value.IsArray() && member.value.Size() != groups) {
      throw ConfigError(fmt::format("{}: {} values for {} groups", member.name.GetString(),
                                    member.value.Size(), groups));
    }
  }
}

std::string schedule(const Json& input) {
  const std::vector<double> base = list<double>(need(input, "base_lr"));
  const auto support = find(input, "betas") ? MomentumSupport::kBetas : MomentumSupport::kNone;
  const Json* params = find(input, "params");
  check_lists(params, base.size());
  const auto schedule =
      make_lr_schedule(read_section(get<std::string>(input, "type"), params), base, support);

  std::vector<double> initial;
  for (size_t g = 0; g < base.size(); ++g) initial.push_back(schedule->initial_lr(g));
  if (const auto start = get_optional<int64_t>(input, "start")) schedule->restore(*start - 1);
  std::vector<std::vector<double>> lr, momentum;
  for (int64_t i = get<int64_t>(input, "steps"); i > 0; --i) {
    schedule->step();
    std::vector<double>& rates = lr.emplace_back();
    std::vector<double> momenta;
    for (size_t g = 0; g < base.size(); ++g) {
      rates.push_back(schedule->current_lr(g));
      if (const auto mom = schedule->current_momentum(g)) momenta.push_back(*mom);
    }
    if (!momenta.empty()) momentum.push_back(momenta);
  }
  Answer answer;
  answer.add("initial_lr", initial).add("lr", lr);
  momentum.empty() ? answer.add("mom", std::nullopt) : answer.add("mom", momentum);
  return answer.text();
}

// The one rate by which people call a schedule: the lowest of LRRangeTest, the highest of the
// others. It has to be given.
const char* headline_of(const std::string& type) {
  if (type == "LRRangeTest") return "lr_range_test_min_lr";
  return type == "OneCycle" ? "cycle_max_lr" : "warmup_max_lr";
}

std::string lr_from_config(const Json& input) {
  const Json& config = need(input, "config");
  const std::string type = get<std::string>(config, "type");
  return Answer().add("lr", get<double>(need(config, "params"), headline_of(type))).text();
}

}  // namespace

std::string lr_schedules(const rapidjson::Value& input) {
  const std::string op = get<std::string>(input, "op");
  return op == "lr_from_config" ? lr_from_config(input) : schedule(input);
}

}  // namespace ds::conform
