#include "config/sections/precision.h"

namespace ds {

std::span<const EnumName> names_of(FloatType) {
  static constexpr EnumName kNames[] = {
      {"fp32", static_cast<int>(FloatType::kFp32)},
      {"fp16", static_cast<int>(FloatType::kFp16)},
      {"bf16", static_cast<int>(FloatType::kBf16)},
  };
  return kNames;
}

std::span<const EnumName> names_of(AmpLevel) {
  static constexpr EnumName kNames[] = {
      {"O0", static_cast<int>(AmpLevel::kO0)},
      {"O1", static_cast<int>(AmpLevel::kO1)},
      {"O2", static_cast<int>(AmpLevel::kO2)},
      {"O3", static_cast<int>(AmpLevel::kO3)},
  };
  return kNames;
}

std::span<const EnumName> names_of(AutocastType) {
  static constexpr EnumName kNames[] = {
      {"bfloat16", static_cast<int>(AutocastType::kBf16)},
      {"bf16", static_cast<int>(AutocastType::kBf16)},
      {"float16", static_cast<int>(AutocastType::kFp16)},
      {"fp16", static_cast<int>(AutocastType::kFp16)},
      {"half", static_cast<int>(AutocastType::kFp16)},
      {"float32", static_cast<int>(AutocastType::kFp32)},
      {"fp32", static_cast<int>(AutocastType::kFp32)},
      {"float", static_cast<int>(AutocastType::kFp32)},
  };
  return kNames;
}

double least_loss_scale(const Fp16Config& c) {
  return c.min_loss_scale > 0 ? c.min_loss_scale : kSmallestLossScale;
}

std::optional<double> AmpConfig::loss_scale() const {
  const Value* const given = others.find("loss_scale");
  const bool number = given != nullptr && (given->kind() == Value::Kind::kInteger ||
                                           given->kind() == Value::Kind::kNumber);
  return number ? std::optional(given->as_number()) : std::nullopt;
}

bool AmpConfig::wants_dynamic_scale() const {
  const Value* const given = others.find("loss_scale");
  if (given != nullptr && !given->is_null()) return given->is_string();
  return opt_level == AmpLevel::kO1 || opt_level == AmpLevel::kO2;
}

double AmpConfig::bound_of_scale(std::string_view key, double otherwise) const {
  const Value* const given = others.find(key);
  const bool number = given != nullptr && (given->kind() == Value::Kind::kInteger ||
                                           given->kind() == Value::Kind::kNumber);
  return number ? given->as_number() : otherwise;
}

std::optional<TorchModule> torch_module(std::string_view name) {
  static constexpr std::pair<std::string_view, TorchModule> kNames[] = {
      {"Linear", TorchModule::kLinear},       {"Conv1D", TorchModule::kLinear},
      {"Embedding", TorchModule::kEmbedding}, {"LayerNorm", TorchModule::kLayerNorm},
      {"RMSNorm", TorchModule::kLayerNorm},   {"Conv1d", TorchModule::kConvolution},
      {"Conv2d", TorchModule::kConvolution},  {"Conv3d", TorchModule::kConvolution},
  };
  const std::string_view last = name.substr(name.rfind('.') + 1);
  for (const auto& [known, module] : kNames) {
    if (known == last) return module;
  }
  return std::nullopt;
}

void fields(Visitor& v, Fp16Config& c) {
  v.field("enabled", c.enabled, {.meaning = "Turns fp16 training on.", .effect = Effect::kUsed});
  v.field("auto_cast", c.auto_cast,
          {.meaning = "Cast floating-point inputs of forward() to fp16.",
           .effect = Effect::kAlwaysSo,
           .here = "inputs are token ids, and there is nothing to cast"});
  v.field("loss_scale", c.loss_scale,
          {.meaning = "0 selects dynamic loss scaling, any positive number is a fixed scale.",
           .effect = Effect::kUsed,
           .min = 0,
           .refuse_boolean = true});
  v.field("initial_scale_power", c.initial_scale_power,
          {.meaning = "The dynamic scale starts at 2 to this power.",
           .effect = Effect::kUsed,
           .min = -126,
           .max = 126,
           .own_range = true});
  v.field("loss_scale_window", c.loss_scale_window,
          {.meaning = "Overflow-free steps after which the dynamic scale doubles.",
           .effect = Effect::kUsed,
           .refuse_boolean = true});
  v.field("hysteresis", c.hysteresis,
          {.meaning = "Number of overflows tolerated before the dynamic scale is halved.",
           .effect = Effect::kUsed,
           .min = 1,
           .own_range = true});
  v.field("consecutive_hysteresis", c.consecutive_hysteresis,
          {.meaning = "Refill the hysteresis counter at every overflow-free step rather than only "
                      "when the scale grows.",
           .effect = Effect::kUsed});
  v.field("min_loss_scale", c.min_loss_scale,
          {.meaning = "Floor of the dynamic scale, which may be below 1; 0 is none. Where it is "
                      "above the first "
                      "scale, the first overflow raises the scale to it.",
           .effect = Effect::kUsed,
           .refuse_boolean = true});
  v.field("fp16_master_weights_and_grads", c.fp16_master_weights_and_grads,
          {.meaning = "Keep master weights and gradients in fp16: updates are computed in fp32 and "
                      "change the weights themselves. At ZeRO stages 1 to 3, wherever their state "
                      "lies.",
           .effect = Effect::kUsed});
}

void fields(Visitor& v, Bf16Config& c) {
  v.field("enabled", c.enabled, {.meaning = "Turns bf16 training on.", .effect = Effect::kUsed});
  v.field("immediate_grad_update", c.immediate_grad_update,
          {.meaning = "Accumulate each gradient into the fp32 buffer as soon as it is produced.",
           .effect = Effect::kAlwaysSo,
           .here = "gradients are added as soon as their bucket is reduced, in fp32 unless "
                   "another key names a type",
           .only = {"true"}});
  v.field("check_grad_overflow", c.check_grad_overflow,
          {.meaning = "Skip the update when a gradient is inf or nan.",
           .effect = Effect::kAlwaysSo,
           .here = "gradients are always checked, and training ends where one is inf or nan",
           .only = {kNoValue}});
  v.field("bf16_master_weights_and_grads", c.bf16_master_weights_and_grads,
          {.meaning = "Keep ZeRO master weights and gradients in bf16: updates are computed in "
                      "fp32 and change the weights themselves. At ZeRO stages 1 to 3, wherever "
                      "their state lies; optimizer.weight_rounding says how they are rounded.",
           .effect = Effect::kUsed});
  v.field("bf16_optimizer_states", c.bf16_optimizer_states,
          {.meaning = "Keep optimizer moments in bf16 as well, as optimizer.moment_dtype says it.",
           .effect = Effect::kUsed});
}

void fields(Visitor& v, AmpConfig& c) {
  v.field("enabled", c.enabled,
          {.meaning = "Turns amp on.",
           .effect = Effect::kUsed,
           .required = true,
           .deepspeed_refuses = true});
  v.field("opt_level", c.opt_level,
          {.meaning = "Apex optimisation level: O0 is fp32; O1 has fp32 weights, and products of "
                      "fp16 operands; O2 is fp16 with fp32 master weights; O3 is fp16 alone.",
           .effect = Effect::kUsed});
  v.rest("<param>", c.others,
         "Any other parameter of the mixed-precision library, passed on unchecked.");
}

void fields(Visitor& v, TorchAutocastConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Turns autocast on.", .effect = Effect::kUsed});
  v.field("dtype", c.dtype,
          {.meaning = "Lower precision used inside autocast: of the operands of products and of "
                      "attention, beside fp32 weights.",
           .effect = Effect::kUsed,
           .deepspeed_refuses = true});
  v.field("lower_precision_safe_modules", c.lower_precision_safe_modules,
          {.meaning = "Module types whose parameters and gradients may be communicated in the "
                      "lower precision; here gradients are.",
           .effect = Effect::kUsed,
           .deepspeed_refuses = true,
           .unset_meaning = "torch.nn.Linear"});
}

void fields(Visitor& v, DataTypesConfig& c) {
  v.field(
      "grad_accum_dtype", c.grad_accum_dtype,
      {.meaning = "Data type in which gradients are accumulated; null follows the model data type.",
       .effect = Effect::kUsed});
  v.field("param_dtype", c.param_dtype,
          {.meaning = "Data type the parameters are cast to.", .effect = Effect::kUsed});
  v.field("buffer_dtype", c.buffer_dtype,
          {.meaning = "Data type that module buffers are cast to; null keeps what was loaded.",
           .effect = Effect::kNotYet});
}

}  // namespace ds
