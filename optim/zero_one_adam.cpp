// 0/1 Adam over shards (Lu et al., arXiv 2202.06009). While the variance moves, now and then,
// gradients travel in one bit between. Then ranks train alone for some updates, with weights and
// momenta of their own, and what they exchange is by how much they moved, made a momentum again by
// the variance. Weights are always the agreed ones and what was added since: so all ranks have the
// same bits where they agree, and a rank that resumes has those that it had.
#include "comm/contract/communicator.h"
#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"
#include "optim/adam_inputs.h"
#include "optim/grouped_optimizer.h"
#include "optim/onebit.h"
#include "optim/onebit_stages.h"

namespace ds {
namespace {

using kernels::ZeroOnePart;

constexpr const char* kMoved = "moved";        // u of ZeroOneRule
constexpr const char* kMomentum = "momentum";  // of this rank, between two agreements
constexpr size_t kMomentumSlot = 0, kVarianceSlot = 1, kAgreedSlot = 2;

class ZeroOneAdam final : public GroupedOptimizer {
 public:
  explicit ZeroOneAdam(const OptimizerConfig& config)
      : GroupedOptimizer(config, config.zero_one_adam.lr, config.zero_one_adam.weight_decay),
        params_(config.zero_one_adam) {
    detail::require_fp32_state(config);
  }

  std::string_view family() const override { return "zero_one_adam"; }
  std::vector<SlotSpec> slots_of(int /*kind*/) const override {
    return {{.name = "exp_avg"}, {.name = "exp_avg_sq"}, {.name = "agreed"}};
  }
  bool has_agreed_weights() const override { return true; }
  MomentumSupport momentum_support() const override { return MomentumSupport::kBetas; }
  bool is_staged() const override { return true; }
  GradientsOf gradients_at(int64_t update) const override {
    const ZeroOneStage stage = zero_one_update(update, params_).stage;
    return stage == ZeroOneStage::kSetUp || stage == ZeroOneStage::kVariance
               ? GradientsOf::kAllRanks
               : GradientsOf::kOwnRank;
  }
  std::vector<int64_t> kinds_of_updates(int64_t last) const override;
  std::vector<AuxiliarySpec> auxiliary_of(std::span<const Shard> parts, int ranks) const override;
  std::vector<std::string> extra_names() const override {
    return {detail::kWorkerError, detail::kServerError, kMoved, kMomentum};
  }

  StepInputs inputs(const Hyper& hyper, int64_t step) const override {
    return adam_inputs(hyper, params_.betas, false, step);
  }

  void step(std::span<Shard> parts, const StepScalars& scalars, const UpdateGroup& group,
            Stream& stream) const override;

  void own_weights(std::span<Shard> parts, const UpdateGroup& group,
                   Stream& stream) const override {
    for (const Param& param : params_of(parts, group)) {
      Tensor weight = param.part.master;
      kernels::add(stream, param.part.slots[kAgreedSlot], param.moved, weight);
    }
  }

 private:
  // This is a parameter's part of the shard, and what is this rank's own.
  struct Param {
    Shard part;
    int options = 0;
    Tensor worker, server;  // undefined on one rank
    Tensor moved, momentum;
  };
  // All of an update that does not change from parameter to parameter.
  struct Update {
    std::span<const Param> params;
    const StepScalars& scalars;
    Communicator& ranks;
    Stream& stream;
  };

  static std::vector<Param> params_of(std::span<const Shard> parts, const UpdateGroup& group);
  static void exchange(const Update& update);
  void move(ZeroOnePart what, const Update& update, double rates = 1) const;
  static void agree(kernels::Agreement agreement, const Update& update);
  static void keep_agreed(const Update& update);
  void step_together(const Update& update) const;
  void step_alone(const ZeroOneUpdate& stage, const UpdateNumber& number,
                  const Update& update) const;

  const ZeroOneAdamParams params_;
};

std::vector<int64_t> ZeroOneAdam::kinds_of_updates(int64_t last) const {
  constexpr int64_t kTogether = 2;
  std::vector<int64_t> kinds{kTogether};
  for (int64_t update = kTogether; update <= last && update < first_local_update(params_);
       ++update) {
    if (moves_variance(update, params_.var_update_scaler)) continue;
    kinds.insert(kinds.begin(), update);
    break;
  }
  for (int64_t update = first_local_update(params_); update <= last; ++update) {
    if (!agrees_at(update, params_)) continue;
    kinds.insert(kinds.begin(), update);
    break;
  }
  return kinds;
}

std::vector<AuxiliarySpec> ZeroOneAdam::auxiliary_of(std::span<const Shard> parts,
                                                     int ranks) const {
  std::vector<AuxiliarySpec> specs = detail::errors_by_param(parts, ranks);
  for (const Shard& part : parts) {
    for (const ShardField& field : part.fields) {
      specs.push_back({.name = kMoved, .param = field.param, .numel = field.numel});
      specs.push_back({.name = kMomentum,
                       .param = field.param,
                       .numel = field.numel,
                       .like_slot = narrow<int>(kMomentumSlot)});
    }
  }
  return specs;
}

std::vector<ZeroOneAdam::Param> ZeroOneAdam::params_of(std::span<const Shard> parts,
                                                       const UpdateGroup& group) {
  std::vector<Param> params;
  for (const Shard& shard : parts) {
    for (const ShardField& field : shard.fields) {
      Param& param = params.emplace_back();
      param.part = part_of(shard, field.offset, field.numel);
      param.options = group.params.empty() ? 0 : nth(group.params, field.param).group;
    }
  }
  const size_t errors = group.ranks.size() == 1 ? 0 : 2;
  DS_CHECK(group.auxiliary.size() == (errors + 2) * params.size(),
           "0/1 adam: {} tensors beside the slots of {} parameters", group.auxiliary.size(),
           params.size());
  for (size_t i = 0; i < params.size(); ++i) {
    const size_t own = errors * params.size() + 2 * i;
    params[i].moved = group.auxiliary[own];
    params[i].momentum = group.auxiliary[own + 1];
    if (errors == 0) continue;
    params[i].worker = group.auxiliary[2 * i];
    params[i].server = group.auxiliary[2 * i + 1];
  }
  return params;
}

void ZeroOneAdam::exchange(const Update& update) {
  if (update.ranks.size() == 1) return;
  std::vector<OneBitTensor> tensors;
  for (const Param& param : update.params) {
    tensors.push_back(
        {.parts = {{.values = param.moved}}, .worker = param.worker, .server = param.server});
  }
  OneBitComm(update.ranks).average(tensors, update.stream);
}

void ZeroOneAdam::move(ZeroOnePart what, const Update& update, double rates) const {
  for (const Param& param : update.params) {
    const GroupOptions& of = options_of(param.options);
    const Tensor& momentum =
        what == ZeroOnePart::kLocal ? param.momentum : param.part.slots[kMomentumSlot];
    kernels::rule_update(update.stream,
                         {.master = param.part.master,
                          .grad = param.part.grad,
                          .states = {{momentum}, {param.part.slots[kVarianceSlot]}, {param.moved}},
                          .copy = param.part.copy},
                         kernels::ZeroOneRule{.eps = static_cast<float>(params_.eps),
                                              .weight_decay = static_cast<float>(of.weight_decay),
                                              .part = what,
                                              .rates = rates * of.lr_scale,
                                              .lr_scale = of.lr_scale},
                         update.scalars);
  }
}

void ZeroOneAdam::agree(kernels::Agreement agreement, const Update& update) {
  for (const Param& param : update.params) {
    kernels::rule_update(update.stream,
                         {.master = param.part.master,
                          .grad = param.part.grad,
                          .states = {{param.part.slots[kAgreedSlot]}, {param.moved}},
                          .copy = param.part.copy},
                         kernels::AgreedRule{.agreement = agreement}, update.scalars);
  }
}

// Keeps weights that all ranks have moved alike.
void ZeroOneAdam::keep_agreed(const Update& update) {
  for (const Param& param : update.params) {
    const Tensor& from = param.part.master;
    update.stream.copy(from.address(), param.part.slots[kAgreedSlot].address(), from.bytes());
  }
}

void ZeroOneAdam::step_together(const Update& update) const {
  for (const Param& param : update.params) {
    const GroupOptions& of = options_of(param.options);
    kernels::rule_update(
        update.stream,
        {.master = param.part.master,
         .grad = param.part.grad,
         .states = {{param.part.slots[kMomentumSlot]}, {param.part.slots[kVarianceSlot]}},
         .copy = param.part.copy},
        kernels::OneBitRule{.eps = static_cast<float>(params_.eps),
                            .weight_decay = static_cast<float>(of.weight_decay),
                            .lr_scale = of.lr_scale},
        update.scalars);
  }
  keep_agreed(update);
}

void ZeroOneAdam::step_alone(const ZeroOneUpdate& stage, const UpdateNumber& number,
                             const Update& update) const {
  for (const Param& param : update.params) {
    // Errors of gradients are none of momenta.
    for (Tensor error : {param.worker, param.server}) {
      if (stage.is_first_local && error.defined()) kernels::fill(update.stream, error, 0.0F);
    }
    if (stage.since != number.update) continue;
    const Tensor& from = param.part.slots[kMomentumSlot];
    update.stream.copy(from.address(), param.momentum.address(), from.bytes());
  }
  move(ZeroOnePart::kLocal, update);
  if (!stage.agrees) return agree(kernels::Agreement::kKept, update);
  double rates = 0;
  for (int64_t of = stage.since; of <= number.update; ++of) {
    rates += number.rate ? number.rate(of) : params_.lr;
  }
  move(ZeroOnePart::kToMomenta, update);
  exchange(update);
  move(ZeroOnePart::kFromMomenta, update, rates);
  agree(kernels::Agreement::kRenewed, update);
}

void ZeroOneAdam::step(std::span<Shard> parts, const StepScalars& scalars, const UpdateGroup& group,
                       Stream& stream) const {
  const ZeroOneUpdate stage = zero_one_update(group.number.update, params_);
  if (stage.stage == ZeroOneStage::kSetUp) return;
  const std::vector<Param> params = params_of(parts, group);
  const Update update{params, scalars, group.ranks, stream};
  if (stage.stage == ZeroOneStage::kVariance) return step_together(update);
  if (detail::is_skipped(scalars)) return;
  if (stage.stage == ZeroOneStage::kLocal) return step_alone(stage, group.number, update);
  move(ZeroOnePart::kGradient, update);
  exchange(update);
  move(ZeroOnePart::kStep, update);
  keep_agreed(update);
}

}  // namespace

std::unique_ptr<Optimizer> make_zero_one_adam(const OptimizerConfig& config) {
  return std::make_unique<ZeroOneAdam>(config);
}

}  // namespace ds
