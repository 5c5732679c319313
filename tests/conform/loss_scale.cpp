// Area loss_scale: a trace of overflows through the loss scaler.
#include "core/status/error.h"
#include "optim/loss_scaler.h"
#include "tests/conform/areas.h"
#include "tests/conform/json_io.h"

namespace ds::conform {
namespace {

LossScaler dynamic(const Json& input) {
  return LossScaler::dynamic({.init_scale = get<double>(input, "init_scale"),
                              .window = get<int64_t>(input, "scale_window"),
                              .min_scale = get<double>(input, "min_scale"),
                              .hysteresis = get<int64_t>(input, "delayed_shift"),
                              .consecutive_hysteresis = get<bool>(input, "consecutive_hysteresis"),
                              .at_minimum = get<bool>(input, "raise_error_at_min_scale")
                                                ? AtMinimumScale::kThrow
                                                : AtMinimumScale::kStay});
}

LossScaler from_config(const Json& fp16) {
  Fp16ScaleOptions o;
  o.loss_scale = get_or(fp16, "loss_scale", o.loss_scale);
  o.initial_scale_power = get_or(fp16, "initial_scale_power", o.initial_scale_power);
  o.loss_scale_window = get_or(fp16, "loss_scale_window", o.loss_scale_window);
  o.hysteresis = get_or(fp16, "hysteresis", o.hysteresis);
  o.consecutive_hysteresis = get_or(fp16, "consecutive_hysteresis", o.consecutive_hysteresis);
  o.min_loss_scale = get_or(fp16, "min_loss_scale", o.min_loss_scale);
  return LossScaler::from_fp16(o);
}

LossScaler plain(PlainScaleProfile profile, const Json* args) {
  DynamicScaleOptions o = plain_scale_defaults(profile);
  if (args) {
    o.init_scale = get<double>(*args, "init_scale");
    o.window = get<int64_t>(*args, "scale_window");
    o.min_scale = get<double>(*args, "min_scale");
  }
  return LossScaler::dynamic(o);
}

LossScaler scaler_for(const Json& input) {
  const std::string op = get<std::string>(input, "op");
  if (op == "dynamic") return dynamic(input);
  if (op == "config") return from_config(need(input, "fp16"));
  if (op == "fused") return plain(PlainScaleProfile::kFused, find(input, "args"));
  return plain(PlainScaleProfile::kUnfused, find(input, "args"));
}

}  // namespace

std::string loss_scale(const rapidjson::Value& input) {
  LossScaler scaler = scaler_for(input);
  std::vector<double> scales;
  std::vector<int64_t> hysteresis;
  int64_t raised_at = -1;
  const std::string trace = get<std::string>(input, "overflows");
  for (size_t i = 0; i < trace.size() && raised_at < 0; ++i) {
    try {
      scaler.update(trace[i] == '1' ? GradientHealth::kOverflowed : GradientHealth::kFinite);
      scales.push_back(scaler.scale());
      hysteresis.push_back(scaler.state().hysteresis);
    } catch (const ValidationError&) {
      raised_at = static_cast<int64_t>(i);
    }
  }
  Answer answer;
  answer.add("scales", scales);
  scaler.is_dynamic() ? answer.add("hysteresis", hysteresis)
                      : answer.add("hysteresis", std::nullopt);
  raised_at < 0 ? answer.add("raised_at", std::nullopt) : answer.add("raised_at", raised_at);
  return answer.text();
}

}  // namespace ds::conform
