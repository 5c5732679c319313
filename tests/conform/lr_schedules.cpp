// Area lr_schedules: the schedule by its parameters, stepped as a training loop steps it.
#include "optim/lr_schedule_params.h"
#include "tests/conform/areas.h"
#include "tests/conform/json_io.h"

namespace ds::conform {
namespace {

ScheduleValue value_of(const Json& value) {
  if (value.IsNull()) return std::monostate{};
  if (value.IsBool()) return value.GetBool();
  if (value.IsInt64()) return value.GetInt64();
  if (value.IsString()) return std::string(value.GetString());
  if (value.IsArray()) return list<double>(value);
  return as_double(value);
}

ScheduleParams params_of(const Json* object) {
  ScheduleParams params;
  if (!object) return params;
  for (const auto& member : object->GetObject()) {
    params.emplace(member.name.GetString(), value_of(member.value));
  }
  return params;
}

std::string schedule(const Json& input) {
  const std::vector<double> base = list<double>(need(input, "base_lr"));
  const auto support = find(input, "betas") ? MomentumSupport::kBetas : MomentumSupport::kNone;
  const auto options =
      lr_schedule_options(get<std::string>(input, "type"), params_of(find(input, "params")));
  const auto schedule = make_lr_schedule(options, base, support);

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

std::string lr_from_config(const Json& input) {
  const Json& config = need(input, "config");
  const PerGroup lr =
      headline_lr(get<std::string>(config, "type"), params_of(&need(config, "params")));
  if (const auto* all = std::get_if<double>(&lr)) return Answer().add("lr", *all).text();
  return Answer().add("lr", std::get<std::vector<double>>(lr)).text();
}

}  // namespace

std::string lr_schedules(const rapidjson::Value& input) {
  const std::string op = get<std::string>(input, "op");
  return op == "lr_from_config" ? lr_from_config(input) : schedule(input);
}

}  // namespace ds::conform
