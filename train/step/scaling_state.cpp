#include "train/step/scaling_state.h"

#include "config/reader/json_reader.h"
#include "config/reader/value.h"
#include "core/status/error.h"

namespace ds {
namespace {

constexpr const char* kWhat = "the loss scaler of a checkpoint";

double number_in(const Value& in, const char* key) {
  const Value* const found = in.find(key);
  if (found == nullptr ||
      (found->kind() != Value::Kind::kInteger && found->kind() != Value::Kind::kNumber)) {
    throw ValidationError(fmt::format("{} has no number \"{}\"", kWhat, key));
  }
  return found->as_number();
}

int64_t integer_in(const Value& in, const char* key) {
  const Value* const found = in.find(key);
  if (found == nullptr || found->kind() != Value::Kind::kInteger) {
    throw ValidationError(fmt::format("{} has no integer \"{}\"", kWhat, key));
  }
  return found->as_integer();
}

Value parse_object(const std::string& text) {
  try {
    return read_config_document(text, kWhat);
  } catch (const ConfigError& error) {
    throw ValidationError(error.what());
  }
}

}  // namespace

std::string to_text(const ScalingState& state) {
  Value out = Value::object();
  out.set("skipped", Value::integer(state.skipped));
  out.set("scale", Value::number(state.scaler.scale));
  out.set("iteration", Value::integer(state.scaler.iteration));
  out.set("last_overflow", Value::integer(state.scaler.last_overflow));
  out.set("hysteresis", Value::integer(state.scaler.hysteresis));
  out.set("stuck", Value::integer(state.scaler.stuck));
  return to_compact_json(out);
}

ScalingState parse_scaling_state(const std::string& text) {
  const Value in = parse_object(text);
  const bool counts = in.find("stuck") != nullptr;  // older ones do not
  const ScalingState state{.skipped = integer_in(in, "skipped"),
                           .scaler = {.scale = number_in(in, "scale"),
                                      .iteration = integer_in(in, "iteration"),
                                      .last_overflow = integer_in(in, "last_overflow"),
                                      .hysteresis = integer_in(in, "hysteresis"),
                                      .stuck = counts ? integer_in(in, "stuck") : 0}};
  if (state.skipped < 0 || state.scaler.stuck < 0 || !(state.scaler.scale > 0)) {
    throw ValidationError(fmt::format("{} has skipped {} steps and scales by {}", kWhat,
                                      state.skipped, state.scaler.scale));
  }
  return state;
}

}  // namespace ds
