#include "config/sections/compression.h"

namespace ds {

std::span<const EnumName> names_of(QuantizationType) {
  static constexpr EnumName kNames[] = {
      {"symmetric", static_cast<int>(QuantizationType::kSymmetric)},
      {"asymmetric", static_cast<int>(QuantizationType::kAsymmetric)},
  };
  return kNames;
}

std::span<const EnumName> names_of(QuantizeRounding) {
  static constexpr EnumName kNames[] = {
      {"nearest", static_cast<int>(QuantizeRounding::kNearest)},
      {"stochastic", static_cast<int>(QuantizeRounding::kStochastic)},
  };
  return kNames;
}

std::span<const EnumName> names_of(RangeCalibration) {
  static constexpr EnumName kNames[] = {
      {"dynamic", static_cast<int>(RangeCalibration::kDynamic)},
      {"static", static_cast<int>(RangeCalibration::kStatic)},
  };
  return kNames;
}

std::span<const EnumName> names_of(PruningMethod) {
  static constexpr EnumName kNames[] = {
      {"l1", static_cast<int>(PruningMethod::kL1)},
      {"topk", static_cast<int>(PruningMethod::kTopk)},
      {"snip_momentum", static_cast<int>(PruningMethod::kSnipMomentum)},
  };
  return kNames;
}

std::span<const EnumName> names_of(MagnitudeMethod) {
  static constexpr EnumName kNames[] = {
      {"l1", static_cast<int>(MagnitudeMethod::kL1)},
      {"topk", static_cast<int>(MagnitudeMethod::kTopk)},
  };
  return kNames;
}

std::span<const EnumName> names_of(HeadPruningMethod) {
  static constexpr EnumName kNames[] = {
      {"topk", static_cast<int>(HeadPruningMethod::kTopk)},
  };
  return kNames;
}

namespace {

template <class Technique>
void technique_fields(Visitor& v, Technique& c) {
  v.section("shared_parameters", c.shared_parameters,
            {.meaning = "Parameters common to all groups."});
  v.map("different_groups", "<group>", c.different_groups,
        {.meaning = "Named groups with their own parameters and module scopes; the key is free."});
}

template <class Group>
void group_fields(Visitor& v, Group& c) {
  v.section("params", c.params, {.meaning = "Parameters of the group."});
  v.field("modules", c.modules,
          {.meaning = "Regular expressions that select modules by name; the default selects all.",
           .one_or_list = true});
}

}  // namespace

void fields(Visitor& v, LayerReductionConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Switch."});
  v.field("keep_number_layer", c.keep_number_layer,
          {.meaning = "Layers kept.", .min = 1, .omit_unset = true});
  v.field("module_name_prefix", c.module_name_prefix,
          {.meaning = "Common name prefix of the layers.", .omit_unset = true});
  v.field("teacher_layer", c.teacher_layer,
          {.meaning = "Teacher layers copied, in order.", .min = 0, .omit_unset = true});
  v.field(
      "other_module_name", c.other_module_name,
      {.meaning =
           "Further modules copied by full name; complements or replaces prefix and teacher_layer.",
       .omit_unset = true});
}

void fields(Visitor& v, MixedQuantizeConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Switch."});
  v.field("quantize_change_ratio", c.quantize_change_ratio,
          {.meaning = "Change of the blend per step.", .min = 0, .max = 1});
}

void fields(Visitor& v, WeightQuantizationSharedConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Switch."});
  v.field("quantizer_kernel", c.quantizer_kernel,
          {.meaning = "Use the native kernel for 3 bits and more."});
  v.field("schedule_offset", c.schedule_offset,
          {.meaning = "First step with quantisation.", .min = 0});
  v.field("quantize_groups", c.quantize_groups,
          {.meaning = "Groups per weight matrix, each with its own scale.", .min = 1});
  v.field("quantize_verbose", c.quantize_verbose, {.meaning = "Log."});
  v.field("quantization_type", c.quantization_type, {.meaning = "Quantiser."});
  v.field("rounding", c.rounding, {.meaning = "Rounding."});
  v.field("quantize_weight_in_forward", c.quantize_weight_in_forward,
          {.meaning = "Quantise in the forward pass (true) or in the optimizer step (false)."});
  v.section("fp16_mixed_quantize", c.fp16_mixed_quantize,
            {.meaning = "Blend of fp16 and quantised weights."});
}

void fields(Visitor& v, WeightQuantizationGroupParams& c) {
  v.field("start_bits", c.start_bits, {.meaning = "Bits at the start.", .min = 1});
  v.field("target_bits", c.target_bits, {.meaning = "Bits at the end.", .min = 1});
  v.field("quantization_period", c.quantization_period,
          {.meaning = "Steps between bit reductions; 0: none are waited for.", .min = 0});
}

void fields(Visitor& v, WeightQuantizationGroupConfig& c) { group_fields(v, c); }

void fields(Visitor& v, WeightQuantizationConfig& c) { technique_fields(v, c); }

void fields(Visitor& v, ActivationQuantizationSharedConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Switch."});
  v.field("quantization_type", c.quantization_type, {.meaning = "Quantiser."});
  v.field("range_calibration", c.range_calibration,
          {.meaning = "Range: per token/image (dynamic) or a running minimum/maximum (static)."});
  v.field("schedule_offset", c.schedule_offset,
          {.meaning = "First step with quantisation.", .min = 0});
}

void fields(Visitor& v, ActivationQuantizationGroupParams& c) {
  v.field("bits", c.bits, {.meaning = "Bits.", .min = 4});
}

void fields(Visitor& v, ActivationQuantizationGroupConfig& c) { group_fields(v, c); }

void fields(Visitor& v, ActivationQuantizationConfig& c) { technique_fields(v, c); }

void fields(Visitor& v, SparsePruningSharedConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Switch."});
  v.field("schedule_offset", c.schedule_offset, {.meaning = "First step with pruning.", .min = 0});
  v.field(
      "method", c.method,
      {.meaning = "l1: static, by magnitude; topk: learned scores; snip_momentum: structured."});
  v.when(c.method == PruningMethod::kSnipMomentum, "method is snip_momentum", [&] {
    v.field("schedule_offset_end", c.schedule_offset_end,
            {.meaning = "Last step of pruning.", .min = 0, .unset_meaning = "schedule_offset"});
    v.field("schedule_offset_stride", c.schedule_offset_stride,
            {.meaning = "Steps between prunings.", .min = 1});
    v.field("block_pattern", c.block_pattern, {.meaning = "Pattern NxM or N:M."});
    v.field(
        "dense_ratio", c.dense_ratio,
        {.meaning = "Target share of weights kept over the whole model.", .above = 0, .below = 1});
    v.field("excluded_modules", c.excluded_modules, {.meaning = "Modules left alone."});
  });
}

void fields(Visitor& v, PruningGroupParams& c) {
  v.field("dense_ratio", c.dense_ratio,
          {.meaning = "Share of weights kept.", .above = 0, .max = 1});
}

void fields(Visitor& v, SparsePruningGroupConfig& c) { group_fields(v, c); }

void fields(Visitor& v, SparsePruningConfig& c) { technique_fields(v, c); }

void fields(Visitor& v, MagnitudePruningSharedConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Switch."});
  v.field("schedule_offset", c.schedule_offset, {.meaning = "First step with pruning.", .min = 0});
  v.field("method", c.method, {.meaning = "l1: static, by magnitude; topk: learned scores."});
}

void fields(Visitor& v, StructuredPruningGroupConfig& c) {
  group_fields(v, c);
  v.field("related_modules", c.related_modules,
          {.meaning = "Modules whose matching dimension shrinks with the pruned one; one inner "
                      "list per entry of modules."});
}

void fields(Visitor& v, MagnitudePruningConfig& c) { technique_fields(v, c); }

void fields(Visitor& v, HeadPruningSharedConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Switch."});
  v.field("schedule_offset", c.schedule_offset, {.meaning = "First step with pruning.", .min = 0});
  v.field("method", c.method, {.meaning = "l1: static, by magnitude; topk: learned scores."});
  v.field("num_heads", c.num_heads,
          {.meaning = "Attention heads of the model.", .above = 0, .omit_unset = true});
}

void fields(Visitor& v, HeadPruningConfig& c) { technique_fields(v, c); }

void fields(Visitor& v, CompressionConfig& c) {
  v.section("layer_reduction", c.layer_reduction,
            {.meaning = "Initialise a shallower student from chosen teacher layers.",
             .effect = Effect::kNotYet,
             .off = "enabled is false"});
  v.section("weight_quantization", c.weight_quantization,
            {.meaning = "Weight quantisation.",
             .effect = Effect::kNotYet,
             .off = "shared_parameters.enabled is false"});
  v.section("activation_quantization", c.activation_quantization,
            {.meaning = "Activation quantisation.",
             .effect = Effect::kNotYet,
             .off = "shared_parameters.enabled is false"});
  v.section("sparse_pruning", c.sparse_pruning,
            {.meaning = "Unstructured or block-structured pruning.",
             .effect = Effect::kNotYet,
             .off = "shared_parameters.enabled is false"});
  v.section("row_pruning", c.row_pruning,
            {.meaning = "Pruning of output rows of the first of two linear layers.",
             .effect = Effect::kNotYet,
             .off = "shared_parameters.enabled is false"});
  v.section("head_pruning", c.head_pruning,
            {.meaning = "Pruning of attention heads on the attention output matrix.",
             .effect = Effect::kNotYet,
             .off = "shared_parameters.enabled is false"});
  v.section("channel_pruning", c.channel_pruning,
            {.meaning = "Pruning of output channels of the first of two Conv2d layers.",
             .effect = Effect::kNotYet,
             .off = "shared_parameters.enabled is false"});
}

}  // namespace ds
