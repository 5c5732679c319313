// The compression_training section. Each technique has shared_parameters and named groups of
// modules (regular expressions on module names; "*" means every compressible layer).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/reader/fields.h"

namespace ds {

enum class QuantizationType : int { kSymmetric, kAsymmetric };
std::span<const EnumName> names_of(QuantizationType);
enum class QuantizeRounding : int { kNearest, kStochastic };
std::span<const EnumName> names_of(QuantizeRounding);
enum class RangeCalibration : int { kDynamic, kStatic };
std::span<const EnumName> names_of(RangeCalibration);
enum class PruningMethod : int { kL1, kTopk, kSnipMomentum };
std::span<const EnumName> names_of(PruningMethod);
enum class MagnitudeMethod : int { kL1, kTopk };
std::span<const EnumName> names_of(MagnitudeMethod);
enum class HeadPruningMethod : int { kTopk };
std::span<const EnumName> names_of(HeadPruningMethod);

struct LayerReductionConfig {
  bool enabled = false;
  std::optional<int64_t> keep_number_layer;
  std::optional<std::string> module_name_prefix;
  std::optional<std::vector<int64_t>> teacher_layer;
  std::optional<std::vector<std::string>> other_module_name;
};
void fields(Visitor& v, LayerReductionConfig& c);

struct MixedQuantizeConfig {
  bool enabled = false;
  double quantize_change_ratio = 0.001;
};
void fields(Visitor& v, MixedQuantizeConfig& c);

struct WeightQuantizationSharedConfig {
  bool enabled = false;
  bool quantizer_kernel = false;
  int64_t schedule_offset = 0;
  int64_t quantize_groups = 1;
  bool quantize_verbose = false;
  QuantizationType quantization_type = QuantizationType::kSymmetric;
  QuantizeRounding rounding = QuantizeRounding::kNearest;
  bool quantize_weight_in_forward = false;
  std::optional<MixedQuantizeConfig> fp16_mixed_quantize;
};
void fields(Visitor& v, WeightQuantizationSharedConfig& c);

struct WeightQuantizationGroupParams {
  int64_t start_bits = 8;
  int64_t target_bits = 8;
  int64_t quantization_period = 1;
};
void fields(Visitor& v, WeightQuantizationGroupParams& c);

struct WeightQuantizationGroupConfig {
  WeightQuantizationGroupParams params;
  std::vector<std::string> modules = {"*"};
};
void fields(Visitor& v, WeightQuantizationGroupConfig& c);

struct WeightQuantizationConfig {
  WeightQuantizationSharedConfig shared_parameters;
  std::map<std::string, WeightQuantizationGroupConfig> different_groups;
};
void fields(Visitor& v, WeightQuantizationConfig& c);

struct ActivationQuantizationSharedConfig {
  bool enabled = false;
  QuantizationType quantization_type = QuantizationType::kSymmetric;
  RangeCalibration range_calibration = RangeCalibration::kStatic;
  int64_t schedule_offset = 0;
};
void fields(Visitor& v, ActivationQuantizationSharedConfig& c);

struct ActivationQuantizationGroupParams {
  int64_t bits = 8;
};
void fields(Visitor& v, ActivationQuantizationGroupParams& c);

struct ActivationQuantizationGroupConfig {
  ActivationQuantizationGroupParams params;
  std::vector<std::string> modules = {"*"};
};
void fields(Visitor& v, ActivationQuantizationGroupConfig& c);

struct ActivationQuantizationConfig {
  ActivationQuantizationSharedConfig shared_parameters;
  std::map<std::string, ActivationQuantizationGroupConfig> different_groups;
};
void fields(Visitor& v, ActivationQuantizationConfig& c);

struct SparsePruningSharedConfig {
  bool enabled = false;
  int64_t schedule_offset = 0;
  PruningMethod method = PruningMethod::kL1;
  std::optional<int64_t> schedule_offset_end;
  int64_t schedule_offset_stride = 1;
  std::string block_pattern = "4x1";
  double dense_ratio = 0.1;
  std::vector<std::string> excluded_modules;
};
void fields(Visitor& v, SparsePruningSharedConfig& c);

struct PruningGroupParams {
  double dense_ratio = 0.5;
};
void fields(Visitor& v, PruningGroupParams& c);

struct SparsePruningGroupConfig {
  PruningGroupParams params;
  std::vector<std::string> modules = {"*"};
};
void fields(Visitor& v, SparsePruningGroupConfig& c);

struct SparsePruningConfig {
  SparsePruningSharedConfig shared_parameters;
  std::map<std::string, SparsePruningGroupConfig> different_groups;
};
void fields(Visitor& v, SparsePruningConfig& c);

struct MagnitudePruningSharedConfig {
  bool enabled = false;
  int64_t schedule_offset = 0;
  MagnitudeMethod method = MagnitudeMethod::kL1;
};
void fields(Visitor& v, MagnitudePruningSharedConfig& c);

struct StructuredPruningGroupConfig {
  PruningGroupParams params;
  std::vector<std::string> modules = {"*"};
  std::optional<std::vector<std::vector<std::string>>> related_modules;
};
void fields(Visitor& v, StructuredPruningGroupConfig& c);

struct MagnitudePruningConfig {
  MagnitudePruningSharedConfig shared_parameters;
  std::map<std::string, StructuredPruningGroupConfig> different_groups;
};
void fields(Visitor& v, MagnitudePruningConfig& c);

struct HeadPruningSharedConfig {
  bool enabled = false;
  int64_t schedule_offset = 0;
  HeadPruningMethod method = HeadPruningMethod::kTopk;
  std::optional<int64_t> num_heads;
};
void fields(Visitor& v, HeadPruningSharedConfig& c);

struct HeadPruningConfig {
  HeadPruningSharedConfig shared_parameters;
  std::map<std::string, StructuredPruningGroupConfig> different_groups;
};
void fields(Visitor& v, HeadPruningConfig& c);

struct CompressionConfig {
  std::optional<LayerReductionConfig> layer_reduction;
  std::optional<WeightQuantizationConfig> weight_quantization;
  std::optional<ActivationQuantizationConfig> activation_quantization;
  std::optional<SparsePruningConfig> sparse_pruning;
  std::optional<MagnitudePruningConfig> row_pruning;
  std::optional<HeadPruningConfig> head_pruning;
  std::optional<MagnitudePruningConfig> channel_pruning;
};
void fields(Visitor& v, CompressionConfig& c);

}  // namespace ds
