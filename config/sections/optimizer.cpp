#include "config/sections/optimizer.h"

#include "config/reader/fields.h"

namespace ds {

std::span<const EnumName> names_of(OptimizerType) {
  static constexpr EnumName kNames[] = {
      {"Adam", static_cast<int>(OptimizerType::kAdam)},
      {"AdamW", static_cast<int>(OptimizerType::kAdamW)},
      {"OneBitAdam", static_cast<int>(OptimizerType::kOneBitAdam)},
      {"ZeroOneAdam", static_cast<int>(OptimizerType::kZeroOneAdam)},
      {"Lamb", static_cast<int>(OptimizerType::kLamb)},
      {"OneBitLamb", static_cast<int>(OptimizerType::kOneBitLamb)},
      {"Lion", static_cast<int>(OptimizerType::kLion)},
      {"Adagrad", static_cast<int>(OptimizerType::kAdagrad)},
      {"SGD", static_cast<int>(OptimizerType::kSgd)},
      {"Muon", static_cast<int>(OptimizerType::kMuon)},
      {"MuAdam", static_cast<int>(OptimizerType::kMuAdam)},
      {"MuAdamW", static_cast<int>(OptimizerType::kMuAdamW)},
      {"MuSGD", static_cast<int>(OptimizerType::kMuSgd)},
      {"RMSprop", static_cast<int>(OptimizerType::kRmsprop)},
  };
  return kNames;
}

std::span<const EnumName> names_of(CommBackend) {
  static constexpr EnumName kNames[] = {
      {"nccl", static_cast<int>(CommBackend::kNccl)},
      {"mpi", static_cast<int>(CommBackend::kMpi)},
      {"hccl", static_cast<int>(CommBackend::kHccl)},
      {"compressed", static_cast<int>(CommBackend::kCompressed)},
  };
  return kNames;
}

std::span<const EnumName> names_of(NewtonSchulz) {
  static constexpr EnumName kNames[] = {
      {"standard", static_cast<int>(NewtonSchulz::kStandard)},
      {"gram", static_cast<int>(NewtonSchulz::kGram)},
  };
  return kNames;
}

std::span<const EnumName> names_of(NewtonSchulzType) {
  static constexpr EnumName kNames[] = {
      {"auto", static_cast<int>(NewtonSchulzType::kAuto)},
      {"fp32", static_cast<int>(NewtonSchulzType::kFp32)},
      {"bf16", static_cast<int>(NewtonSchulzType::kBf16)},
  };
  return kNames;
}

std::span<const EnumName> names_of(MomentType) {
  static constexpr EnumName kNames[] = {
      {"fp32", static_cast<int>(MomentType::kFp32)},
      {"bf16", static_cast<int>(MomentType::kBf16)},
      {"mxfp8", static_cast<int>(MomentType::kMxFp8)},
  };
  return kNames;
}

std::span<const EnumName> names_of(WeightRounding) {
  static constexpr EnumName kNames[] = {
      {"nearest", static_cast<int>(WeightRounding::kNearest)},
      {"stochastic", static_cast<int>(WeightRounding::kStochastic)},
  };
  return kNames;
}

namespace {

constexpr SectionSpec kParams{
    .meaning =
        "Keyword arguments handed to the optimizer constructor; names must match its "
        "signature."};

void compressed_fields(Visitor& v, CompressedParams& c) {
  v.field("lr", c.lr, {.meaning = "Learning rate.", .effect = Effect::kUsed, .min = 0});
  v.field("betas", c.betas,
          {.meaning = "Decay rates of the running averages.",
           .effect = Effect::kUsed,
           .min = 0,
           .below = 1});
  v.field("eps", c.eps,
          {.meaning = "Constant added to the denominator.", .effect = Effect::kUsed, .min = 0});
  v.field("weight_decay", c.weight_decay,
          {.meaning = "Weight decay added to the update before it is scaled by the learning rate.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("bias_correction", c.bias_correction,
          {.meaning = "Accepted for signature compatibility.",
           .effect = Effect::kAlwaysSo,
           .here = "no bias is corrected, as in DeepSpeed",
           .only = {"false"}});
  v.field("eps_inside_sqrt", c.eps_inside_sqrt,
          {.meaning = "Accepted for signature compatibility.",
           .effect = Effect::kAlwaysSo,
           .here = "eps is added after the root, as in DeepSpeed"});
  v.field("amsgrad", c.amsgrad, {.meaning = "AMSGrad variant, which DeepSpeed refuses, too."});
  v.field("cuda_aware", c.cuda_aware,
          {.meaning = "States that the MPI library can read device memory directly.",
           .effect = Effect::kAlwaysSo,
           .here = "what MPI sends of a GPU passes through pinned memory of the host"});
  v.field("comm_backend_name", c.comm_backend_name,
          {.meaning = "Backend of the compressed allreduce.",
           .effect = Effect::kAlwaysSo,
           .here = "the compressed exchange goes the way of the run's other tensors: NCCL, shared "
                   "memory, TCP or MPI"});
}

}  // namespace

void fields(Visitor& v, AdamParams& c) {
  v.field("lr", c.lr, {.meaning = "Learning rate.", .effect = Effect::kUsed, .min = 0});
  v.field("betas", c.betas,
          {.meaning = "Decay rates of the running averages of the gradient and of its square.",
           .effect = Effect::kUsed,
           .min = 0,
           .below = 1});
  v.field("eps", c.eps,
          {.meaning = "Constant added to the denominator.", .effect = Effect::kUsed, .min = 0});
  v.field("weight_decay", c.weight_decay,
          {.meaning =
               "Weight decay coefficient; decoupled from the gradient when AdamW mode is active.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("torch_adam", c.torch_adam,
          {.meaning = "Use the framework's plain Adam/AdamW rather than the fused kernel (or the "
                      "vectorised CPU one); with decoupled decay weight_decay is 0.01 then where "
                      "it is not given.",
           .effect = Effect::kUsed});
  v.field(
      "adam_w_mode", c.adam_w_mode,
      {.meaning =
           "true: decoupled weight decay (AdamW); false: classic L2 term added to the gradient.",
       .effect = Effect::kUsed});
  v.field(
      "bias_correction", c.bias_correction,
      {.meaning = "Divide the moments by 1-beta^t before the update.", .effect = Effect::kUsed});
  v.field("amsgrad", c.amsgrad,
          {.meaning = "AMSGrad variant: the largest average of squares so far stands in the "
                      "denominator.",
           .effect = Effect::kUsed});
  v.field("set_grad_none", c.set_grad_none,
          {.meaning = "zero_grad() drops gradient storage instead of filling it with zeros.",
           .effect = Effect::kAlwaysSo,
           .here = "gradients are never kept between steps"});
  v.field("fp32_optimizer_states", c.fp32_optimizer_states,
          {.meaning = "CPU variant: keep both moments in fp32 whatever the parameter precision.",
           .effect = Effect::kAlwaysSo,
           .here = "optimizer.moment_dtype says how states are kept"});
}

void fields(Visitor& v, OneBitAdamParams& c) {
  compressed_fields(v, c);
  v.field(
      "freeze_step", c.freeze_step,
      {.meaning =
           "Length, in optimizer steps, of the uncompressed warm-up stage; afterwards the variance "
           "is frozen and the momentum is exchanged with 1-bit error-compensated compression.",
       .effect = Effect::kUsed,
       .min = 0});
}

void fields(Visitor& v, ZeroOneAdamParams& c) {
  compressed_fields(v, c);
  v.field(
      "var_freeze_step", c.var_freeze_step,
      {.meaning =
           "Last step at which the variance is still updated; afterwards local steps are enabled.",
       .effect = Effect::kUsed,
       .min = 1});
  v.field(
      "var_update_scaler", c.var_update_scaler,
      {.meaning =
           "Number of variance updates after which the interval between variance updates doubles.",
       .effect = Effect::kUsed,
       .min = 1});
  v.field("local_step_scaler", c.local_step_scaler,
          {.meaning = "Number of steps after which the interval between synchronised (non-local) "
                      "steps doubles.",
           .effect = Effect::kUsed,
           .min = 1});
  v.field(
      "local_step_clipper", c.local_step_clipper,
      {.meaning = "Upper bound of the local-step interval.", .effect = Effect::kUsed, .min = 1});
}

void fields(Visitor& v, LambParams& c) {
  v.field("lr", c.lr, {.meaning = "Learning rate.", .effect = Effect::kUsed, .min = 0});
  v.field("bias_correction", c.bias_correction,
          {.meaning = "Divide the moments by 1-beta^t.", .effect = Effect::kUsed});
  v.field("betas", c.betas,
          {.meaning = "Decay rates of the running averages.",
           .effect = Effect::kUsed,
           .min = 0,
           .below = 1});
  v.field("eps", c.eps,
          {.meaning = "Constant added to the denominator.", .effect = Effect::kUsed, .min = 0});
  v.field(
      "eps_inside_sqrt", c.eps_inside_sqrt,
      {.meaning = "Add eps under the square root rather than after it.", .effect = Effect::kUsed});
  v.field("weight_decay", c.weight_decay,
          {.meaning = "Weight decay added to the update before the trust ratio is formed.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("max_coeff", c.max_coeff,
          {.meaning = "Upper clamp of the per-tensor trust ratio ||w||/||u||.",
           .effect = Effect::kUsed});
  v.field("min_coeff", c.min_coeff,
          {.meaning = "Lower clamp of the per-tensor trust ratio.", .effect = Effect::kUsed});
  v.field("amsgrad", c.amsgrad, {.meaning = "AMSGrad variant, which DeepSpeed refuses, too."});
}

void fields(Visitor& v, OneBitLambParams& c) {
  compressed_fields(v, c);
  v.field("freeze_step", c.freeze_step,
          {.meaning = "Length of the uncompressed LAMB warm-up stage in steps.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("max_coeff", c.max_coeff,
          {.meaning = "Upper clamp of the per-tensor LAMB trust ratio during warm-up.",
           .effect = Effect::kUsed});
  v.field("min_coeff", c.min_coeff,
          {.meaning = "Lower clamp of the per-tensor LAMB trust ratio during warm-up.",
           .effect = Effect::kUsed});
  v.field("coeff_beta", c.coeff_beta,
          {.meaning = "Decay rate of the running average of the trust ratio that is frozen at the "
                      "end of warm-up.",
           .effect = Effect::kUsed});
  v.field("factor_max", c.factor_max,
          {.meaning = "Upper clamp of the factor that rescales the frozen trust ratio in the "
                      "compression stage.",
           .effect = Effect::kUsed});
  v.field("factor_min", c.factor_min,
          {.meaning = "Lower clamp of that factor.", .effect = Effect::kUsed});
  v.field("factor_threshold", c.factor_threshold,
          {.meaning = "Largest relative change of that factor between two consecutive steps.",
           .effect = Effect::kUsed});
}

void fields(Visitor& v, LionParams& c) {
  v.field("lr", c.lr, {.meaning = "Learning rate.", .effect = Effect::kUsed, .min = 0});
  v.field("betas", c.betas,
          {.meaning = "Interpolation rate of the update and decay rate of the momentum.",
           .effect = Effect::kUsed,
           .min = 0,
           .below = 1});
  v.field("weight_decay", c.weight_decay,
          {.meaning = "Decoupled weight decay.", .effect = Effect::kUsed, .min = 0});
  v.field("set_grad_none", c.set_grad_none,
          {.meaning = "GPU variant only: drop gradients on zero_grad().",
           .effect = Effect::kAlwaysSo,
           .here = "gradients are never kept between steps"});
  v.field("fp32_optimizer_states", c.fp32_optimizer_states,
          {.meaning = "CPU variant only: keep the momentum in fp32.",
           .effect = Effect::kAlwaysSo,
           .here = "optimizer.moment_dtype says how states are kept"});
}

void fields(Visitor& v, AdagradParams& c) {
  v.field("lr", c.lr, {.meaning = "Learning rate.", .effect = Effect::kUsed, .min = 0});
  v.field("eps", c.eps,
          {.meaning = "Constant added to the denominator.", .effect = Effect::kUsed, .min = 0});
  v.field("weight_decay", c.weight_decay,
          {.meaning = "L2 term.", .effect = Effect::kUsed, .min = 0});
  v.field("lr_decay", c.lr_decay,
          {.meaning = "Learning-rate decay per step (torch variant only, whose weight decay also "
                      "enters the numerator).",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("initial_accumulator_value", c.initial_accumulator_value,
          {.meaning = "Start value of the squared-gradient sum (torch variant only, whose weight "
                      "decay also enters the numerator).",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("amsgrad", c.amsgrad,
          {.meaning = "Accepted and unused (CPU variant only).",
           .effect = Effect::kAlwaysSo,
           .here = "Adagrad has no such variant"});
  v.field("fp32_optimizer_states", c.fp32_optimizer_states,
          {.meaning = "CPU variant only: keep the state in fp32.",
           .effect = Effect::kAlwaysSo,
           .here = "optimizer.moment_dtype says how states are kept"});
}

void fields(Visitor& v, SgdParams& c) {
  v.field("lr", c.lr,
          {.meaning = "Learning rate (mandatory in old torch releases).",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("momentum", c.momentum,
          {.meaning = "Momentum factor.", .effect = Effect::kUsed, .min = 0});
  v.field("dampening", c.dampening,
          {.meaning = "Dampening of the momentum.", .effect = Effect::kUsed});
  v.field("weight_decay", c.weight_decay,
          {.meaning = "L2 term added to the gradient.", .effect = Effect::kUsed, .min = 0});
  v.field(
      "nesterov", c.nesterov,
      {.meaning = "Nesterov momentum; needs momentum>0 and dampening 0.", .effect = Effect::kUsed});
  v.field("maximize", c.maximize,
          {.meaning = "Ascend instead of descend.", .effect = Effect::kUsed});
}

void fields(Visitor& v, RmspropParams& c) {
  v.field("lr", c.lr, {.meaning = "Learning rate.", .effect = Effect::kUsed, .min = 0});
  v.field("alpha", c.alpha,
          {.meaning = "Decay rate of the running average of the squared gradient.",
           .effect = Effect::kUsed,
           .min = 0,
           .max = 1});
  v.field("eps", c.eps,
          {.meaning = "Constant added to the denominator.", .effect = Effect::kUsed, .min = 0});
  v.field("weight_decay", c.weight_decay,
          {.meaning = "L2 term added to the gradient.", .effect = Effect::kUsed, .min = 0});
  v.field("momentum", c.momentum,
          {.meaning = "Momentum factor.", .effect = Effect::kUsed, .min = 0});
  v.field("centered", c.centered,
          {.meaning = "Divide by an estimate of the gradient's variance in place of its square.",
           .effect = Effect::kUsed});
  v.field("maximize", c.maximize,
          {.meaning = "Ascend instead of descend.", .effect = Effect::kUsed});
}

void fields(Visitor& v, ParamGroupConfig& c) {
  v.field("match", c.match,
          {.meaning = "Patterns of whole parameter names, as Hugging Face has them; * is any text, "
                      "? one character, [ab] one of these. None: every name.",
           .effect = Effect::kUsed,
           .one_or_list = true});
  v.field("max_dims", c.max_dims,
          {.meaning = "Only parameters with at most that many axes; 1 are norms and biases.",
           .effect = Effect::kUsed,
           .min = 0,
           .omit_unset = true,
           .unset_meaning = "any number"});
  v.field("lr", c.lr,
          {.meaning = "Learning rate of the group; where a schedule sets rates, the group's stands "
                      "to it as this does to optimizer.params.lr.",
           .effect = Effect::kUsed,
           .min = 0,
           .omit_unset = true,
           .unset_meaning = "that of optimizer.params"});
  v.field("weight_decay", c.weight_decay,
          {.meaning = "Weight decay of the group.",
           .effect = Effect::kUsed,
           .min = 0,
           .omit_unset = true,
           .unset_meaning = "that of optimizer.params"});
  v.field("use_muon", c.use_muon,
          {.meaning = "Whether Muon updates matrices of the group, rather than its AdamW.",
           .effect = Effect::kUsed,
           .omit_unset = true,
           .unset_meaning = "matrices but embeddings and the head"});
  v.field("non_freeze", c.non_freeze,
          {.meaning = "OneBitAdam compresses nothing of the group, after freeze_step either: "
                      "gradients are averaged whole, and the variance goes on. For parameters "
                      "some of whose rows hardly ever have a gradient, as embeddings: one bit "
                      "gives them the momentum of the others, which their frozen variance does "
                      "not bound.",
           .effect = Effect::kUsed,
           .omit_unset = true,
           .unset_meaning = "compressed"});
}

void fields(Visitor& v, BaseShapeConfig& c) {
  v.field("match", c.match,
          {.meaning = "Patterns of whole parameter names, as in param_groups.",
           .effect = Effect::kUsed,
           .one_or_list = true});
  v.field("shape", c.shape,
          {.meaning = "Their shape in the base model; axes of another length here are those that "
                      "grow with the width.",
           .effect = Effect::kUsed,
           .min = 1,
           .required = true});
}

void fields(Visitor& v, MuonParams& c) {
  v.field("lr", c.lr,
          {.meaning = "Learning rate of both groups unless overridden by muon_lr / adam_lr.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("muon_lr", c.muon_lr,
          {.meaning = "Learning rate of the matrix (Muon) group only; overrides lr, and where a "
                      "schedule sets rates stands to them as to lr.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("adam_lr", c.adam_lr,
          {.meaning = "Learning rate of the auxiliary Adam group only; overrides lr, as muon_lr.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field(
      "momentum", c.momentum,
      {.meaning = "Momentum of the Muon group.", .effect = Effect::kUsed, .min = 0, .below = 1});
  v.field("weight_decay", c.weight_decay,
          {.meaning = "Decoupled weight decay of both groups.", .effect = Effect::kUsed, .min = 0});
  v.field("ns_method", c.ns_method,
          {.meaning = "Newton-Schulz variant used to orthogonalise the update; gram costs less "
                      "where one side of a matrix is longer by half, and is standard elsewhere.",
           .effect = Effect::kUsed});
  v.field("ns_dtype", c.ns_dtype,
          {.meaning = "Numbers that its products are made of: bf16, several times as fast where "
                      "the machine has instructions for it, is what torch.optim.Muon and "
                      "DeepSpeed's standard variant take always; auto takes it where the model "
                      "computes in bf16, else fp32.",
           .effect = Effect::kUsed});
  v.field("betas", c.betas,
          {.meaning = "Betas of the auxiliary Adam group.",
           .effect = Effect::kUsed,
           .min = 0,
           .below = 1});
  v.field("eps", c.eps,
          {.meaning = "Epsilon of the auxiliary Adam group.", .effect = Effect::kUsed, .min = 0});
}

void fields(Visitor& v, OptimizerConfig& c) {
  v.field(
      "type", c.type,
      {.meaning = "Optimizer name. Names known to DeepSpeed are matched without regard to case; "
                  "any other name is looked up, case-sensitively, among the torch optimizers.",
       .effect = Effect::kUsed,
       .letter_case = LetterCase::kIgnored});
  v.when(c.type == OptimizerType::kAdam || c.type == OptimizerType::kAdamW ||
             c.type == OptimizerType::kMuAdam || c.type == OptimizerType::kMuAdamW,
         "type is Adam or AdamW or MuAdam or MuAdamW",
         [&] { v.section("params", c.adam, kParams); });
  v.when(c.type == OptimizerType::kOneBitAdam, "type is OneBitAdam",
         [&] { v.section("params", c.onebit_adam, kParams); });
  v.when(c.type == OptimizerType::kZeroOneAdam, "type is ZeroOneAdam",
         [&] { v.section("params", c.zero_one_adam, kParams); });
  v.when(c.type == OptimizerType::kLamb, "type is Lamb",
         [&] { v.section("params", c.lamb, kParams); });
  v.when(c.type == OptimizerType::kOneBitLamb, "type is OneBitLamb",
         [&] { v.section("params", c.onebit_lamb, kParams); });
  v.when(c.type == OptimizerType::kLion, "type is Lion",
         [&] { v.section("params", c.lion, kParams); });
  v.when(c.type == OptimizerType::kAdagrad, "type is Adagrad",
         [&] { v.section("params", c.adagrad, kParams); });
  v.when(c.type == OptimizerType::kSgd || c.type == OptimizerType::kMuSgd, "type is SGD or MuSGD",
         [&] { v.section("params", c.sgd, kParams); });
  v.when(c.type == OptimizerType::kMuon, "type is Muon",
         [&] { v.section("params", c.muon, kParams); });
  v.when(c.type == OptimizerType::kRmsprop, "type is RMSprop",
         [&] { v.section("params", c.rmsprop, kParams); });
  v.list("param_groups", c.param_groups,
         {.meaning = "Parameters with options of their own, by name, for what a DeepSpeed program "
                     "hands over as groups; of several that fit the first counts. One that fits no "
                     "parameter is an error."});
  v.field("moment_dtype", c.moment_dtype,
          {.meaning = "How running averages are kept. bf16, and 8 bits in OCP's MXFP8, are rounded "
                      "at random in proportion; checkpoints hold fp32 in any case.",
           .effect = Effect::kUsed});
  v.field("weight_rounding", c.weight_rounding,
          {.meaning = "How updated weights in bf16 are rounded that have no fp32 master: to the "
                      "nearest number, by which changes of less than 1/512 are lost, or up or "
                      "down at random, in proportion to the distance.",
           .effect = Effect::kUsed});
  v.when(c.type == OptimizerType::kMuAdam || c.type == OptimizerType::kMuAdamW ||
             c.type == OptimizerType::kMuSgd,
         "type is MuAdam or MuAdamW or MuSGD", [&] {
           v.list("base_shapes", c.base_shapes,
                  {.meaning = "The shapes of the base model of muP, for every parameter, by name. "
                              "Of muP this is the optimizer's part, as the package mup has it: "
                              "rates and decays by width; how weights start and what the head is "
                              "divided by stay the model's."});
         });
  v.field("legacy_fusion", c.legacy_fusion,
          {.meaning = "Selects the legacy fused-step path of the fp16 optimizer.",
           .effect = Effect::kAlwaysSo,
           .here = "there is one way to make a step"});
}

bool decays_decoupled(const OptimizerConfig& c) {
  const OptimizerType type = c.type.value_or(OptimizerType::kAdamW);
  if (type == OptimizerType::kMuAdam) return false;  // mup calls torch.optim.Adam
  return type == OptimizerType::kAdamW || type == OptimizerType::kMuAdamW || c.adam.adam_w_mode;
}

}  // namespace ds
