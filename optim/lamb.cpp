// LAMB over shards. Norms are of whole parameters: ranks add up the squares of what each answers
// for, in one collective a step, and only then move weights.
#include "comm/contract/communicator.h"
#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/optimizer/lamb_update.h"
#include "optim/adam_inputs.h"
#include "optim/grouped_optimizer.h"

namespace ds {
namespace {

class Lamb final : public GroupedOptimizer {
 public:
  explicit Lamb(const OptimizerConfig& config)
      : GroupedOptimizer(config, config.lamb.lr, config.lamb.weight_decay), params_(config.lamb) {
    if (config.moment_dtype != MomentType::kFp32) {
      throw Unsupported("optimizer.moment_dtype: Lamb keeps its moments in fp32");
    }
  }

  std::string_view family() const override { return "lamb"; }
  std::vector<SlotSpec> slots_of(int /*kind*/) const override {
    return {{.name = "exp_avg"}, {.name = "exp_avg_sq"}};
  }
  int64_t sums_per_param() const override { return kernels::kLambSums; }
  MomentumSupport momentum_support() const override { return MomentumSupport::kBetas; }

  StepInputs inputs(const Hyper& hyper, int64_t step) const override {
    return adam_inputs(hyper, params_.betas, params_.bias_correction, step);
  }

  void step(std::span<Shard> parts, const StepScalars& scalars, const UpdateGroup& group,
            Stream& stream) const override {
    const Tensor sums = Tensor::zeros({params_of(parts, group) * kernels::kLambSums}, DType::kF64,
                                      stream, MemoryTag::kScratch);
    add_sums(parts, scalars, group, sums, stream);
    Tensor gathered = sums;
    if (group.ranks.size() > 1) {
      gathered = Tensor::empty({sums.numel() * group.ranks.size()}, DType::kF64, stream,
                               MemoryTag::kScratch);
      group.ranks.all_gather(sums, gathered, stream);
    }
    move_weights(parts, scalars, group, gathered, stream);
  }

  void add_sums(std::span<Shard> parts, const StepScalars& scalars, const UpdateGroup& group,
                const Tensor& sums, Stream& stream) const override {
    for (const Shard& shard : parts) {
      DS_CHECK(shard.slots.size() == 2, "lamb: {} slots given, expected 2", shard.slots.size());
      for (const ShardField& field : shard.fields) {
        move_moments(shard, field, group, scalars, sums, stream);
      }
    }
  }

  void move_weights(std::span<Shard> parts, const StepScalars& scalars, const UpdateGroup& group,
                    const Tensor& gathered, Stream& stream) const override {
    const int64_t count = gathered.numel() / group.ranks.size() / kernels::kLambSums;
    for (const Shard& shard : parts) {
      for (const ShardField& field : shard.fields) {
        kernels::lamb_apply(stream, args_of(shard, field.offset, field.numel),
                            rule_of(group, field), scalars,
                            {.gathered = gathered, .params = count, .param = field.param});
      }
    }
  }

 private:
  static int64_t params_of(std::span<const Shard> parts, const UpdateGroup& group) {
    auto count = std::max(int64_t{1}, narrow<int64_t>(group.params.size()));
    for (const Shard& shard : parts) {
      for (const ShardField& field : shard.fields) {
        count = std::max(count, int64_t{field.param} + 1);
      }
    }
    return count;
  }

  static kernels::LambArgs args_of(const Shard& shard, int64_t begin, int64_t numel) {
    const Shard part = part_of(shard, begin, numel);
    return {.master = part.master,
            .grad = part.grad,
            .exp_avg = part.slots[0],
            .exp_avg_sq = part.slots[1],
            .copy = part.copy};
  }

  kernels::LambRule rule_of(const UpdateGroup& group, const ShardField& field) const {
    const GroupOptions& options =
        options_of(group.params.empty() ? 0 : nth(group.params, field.param).group);
    return {.eps = static_cast<float>(params_.eps),
            .eps_place = params_.eps_inside_sqrt ? kernels::EpsPlace::kInsideRoot
                                                 : kernels::EpsPlace::kAfterRoot,
            .weight_decay = static_cast<float>(options.weight_decay),
            .min_coeff = params_.min_coeff,
            .max_coeff = params_.max_coeff,
            .lr_scale = options.lr_scale};
  }

  // If every rank has all of the shard, each counts its own slice: the sums are those of ranks that
  // have nothing else.
  void move_moments(const Shard& shard, const ShardField& field, const UpdateGroup& group,
                    const StepScalars& scalars, const Tensor& sums, Stream& stream) const {
    const kernels::LambRule rule = rule_of(group, field);
    const Tensor of_param = sums.narrow(field.param * kernels::kLambSums, kernels::kLambSums);
    const auto move = [&](int64_t begin, int64_t end, const Tensor& counted) {
      if (begin >= end) return;
      kernels::lamb_moments(stream, args_of(shard, begin, end - begin), rule, scalars, counted);
    };
    const int64_t begin = field.offset, end = begin + field.numel;
    if (!shard.own) return move(begin, end, of_param);
    const int64_t own_begin = std::clamp(shard.own->begin, begin, end);
    const int64_t own_end = std::clamp(shard.own->begin + shard.own->numel, own_begin, end);
    move(begin, own_begin, {});
    move(own_begin, own_end, of_param);
    move(own_end, end, {});
  }

  const LambParams params_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lamb(const OptimizerConfig& config) {
  return std::make_unique<Lamb>(config);
}

}  // namespace ds
