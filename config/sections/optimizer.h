// The optimizer section: a name and, per name, the parameters of its constructor. Only the struct
// that belongs to `type` is read and written; the others keep their defaults. optim/ updates by
// these structs as they are; no reader is included here.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ds {

class Visitor;
struct EnumName;

enum class OptimizerType : int {
  kAdam,
  kAdamW,
  kOneBitAdam,
  kZeroOneAdam,
  kLamb,
  kOneBitLamb,
  kLion,
  kAdagrad,
  kSgd,
  kMuon,
  kMuAdam,
  kMuAdamW,
  kMuSgd,
  kRmsprop
};
std::span<const EnumName> names_of(OptimizerType);
enum class CommBackend : int { kNccl, kMpi, kHccl, kCompressed };
std::span<const EnumName> names_of(CommBackend);
enum class NewtonSchulz : int { kStandard, kGram };
std::span<const EnumName> names_of(NewtonSchulz);

// Newton-Schulz computes its products with numbers of this type.
enum class NewtonSchulzType : int { kAuto, kFp32, kBf16 };
std::span<const EnumName> names_of(NewtonSchulzType);
enum class MomentType : int { kFp32, kBf16, kMxFp8 };
std::span<const EnumName> names_of(MomentType);
enum class WeightRounding : int { kNearest, kStochastic };
std::span<const EnumName> names_of(WeightRounding);

// Adam and AdamW (also MuAdam, MuAdamW).
struct AdamParams {
  double lr = 0.001;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-08;
  double weight_decay = 0.0;
  bool torch_adam = false;
  bool adam_w_mode = true;
  bool bias_correction = true;
  bool amsgrad = false;
  bool set_grad_none = true;
  bool fp32_optimizer_states = true;
};
void fields(Visitor& v, AdamParams& c);

// What the optimizers share that exchange their momentum in one bit.
struct CompressedParams {
  double lr = 0.001;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-08;
  double weight_decay = 0.0;
  bool bias_correction = true;
  bool eps_inside_sqrt = false;
  bool amsgrad = false;
  bool cuda_aware = false;
  CommBackend comm_backend_name = CommBackend::kNccl;
};

struct OneBitAdamParams : CompressedParams {
  int64_t freeze_step = 100000;
};
void fields(Visitor& v, OneBitAdamParams& c);

struct ZeroOneAdamParams : CompressedParams {
  int64_t var_freeze_step = 100000;
  int64_t var_update_scaler = 16;
  int64_t local_step_scaler = 32678;
  int64_t local_step_clipper = 16;
};
void fields(Visitor& v, ZeroOneAdamParams& c);

struct LambParams {
  double lr = 0.001;
  bool bias_correction = true;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-08;
  bool eps_inside_sqrt = false;
  double weight_decay = 0.0;
  double max_coeff = 10.0;
  double min_coeff = 0.01;
  bool amsgrad = false;
};
void fields(Visitor& v, LambParams& c);

struct OneBitLambParams : CompressedParams {
  int64_t freeze_step = 100000;
  double max_coeff = 10.0;
  double min_coeff = 0.01;
  double coeff_beta = 0.9;
  double factor_max = 4.0;
  double factor_min = 0.5;
  double factor_threshold = 0.1;
};
void fields(Visitor& v, OneBitLambParams& c);

struct LionParams {
  double lr = 0.001;
  std::array<double, 2> betas = {0.9, 0.999};
  double weight_decay = 0.0;
  bool set_grad_none = true;
  bool fp32_optimizer_states = true;
};
void fields(Visitor& v, LionParams& c);

struct AdagradParams {
  double lr = 0.01;
  double eps = 1e-10;
  double weight_decay = 0.0;
  double lr_decay = 0.0;
  double initial_accumulator_value = 0.0;
  bool amsgrad = false;
  bool fp32_optimizer_states = true;
};
void fields(Visitor& v, AdagradParams& c);

// SGD (also MuSGD).
struct SgdParams {
  double lr = 0.001;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  bool nesterov = false;
  bool maximize = false;
};
void fields(Visitor& v, SgdParams& c);

struct RmspropParams {
  double lr = 0.01;
  double alpha = 0.99;
  double eps = 1e-08;
  double weight_decay = 0.0;
  double momentum = 0.0;
  bool centered = false;
  bool maximize = false;
};
void fields(Visitor& v, RmspropParams& c);

struct MuonParams {
  double lr = 0.02;
  std::optional<double> muon_lr = {};
  std::optional<double> adam_lr = {};
  double momentum = 0.95;
  double weight_decay = 0.0;
  NewtonSchulz ns_method = NewtonSchulz::kGram;
  NewtonSchulzType ns_dtype = NewtonSchulzType::kAuto;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-10;
};
void fields(Visitor& v, MuonParams& c);

// Parameters with options of their own: those whose name fits one of the patterns and that have no
// more axes than max_dims says.
struct ParamGroupConfig {
  std::vector<std::string> match = {};  // with *, ? and [...], of the whole name; none: every name
  std::optional<int64_t> max_dims = {};
  std::optional<double> lr = {};
  std::optional<double> weight_decay = {};
  std::optional<bool> use_muon = {};
  std::optional<bool> non_freeze = {};
};
void fields(Visitor& v, ParamGroupConfig& c);

// The shape that parameters have in the base model of muP.
struct BaseShapeConfig {
  std::vector<std::string> match = {};
  std::vector<int64_t> shape = {};
};
void fields(Visitor& v, BaseShapeConfig& c);

struct OptimizerConfig {
  std::optional<OptimizerType> type = {};
  AdamParams adam = {};
  OneBitAdamParams onebit_adam = {};
  ZeroOneAdamParams zero_one_adam = {};
  LambParams lamb = {};
  OneBitLambParams onebit_lamb = {};
  LionParams lion = {};
  AdagradParams adagrad = {};
  SgdParams sgd = {};
  MuonParams muon = {};
  bool legacy_fusion = false;
  RmspropParams rmsprop = {};
  MomentType moment_dtype = MomentType::kFp32;
  WeightRounding weight_rounding = WeightRounding::kNearest;
  std::vector<ParamGroupConfig> param_groups = {};  // of several that fit, the first counts
  std::vector<BaseShapeConfig> base_shapes = {};
};
void fields(Visitor& v, OptimizerConfig& c);

// Tells whether Adam, AdamW and those of muP apply weight decay apart from the gradient; else it is
// an L2 term added to the gradient.
bool decays_decoupled(const OptimizerConfig& c);

}  // namespace ds
