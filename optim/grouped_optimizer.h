// What optimizers have in common whose rate and weight decay differ by parameter group.
#pragma once

#include "optim/optimizer.h"
#include "optim/shard_ranges.h"

namespace ds {

// Whether it is one of muP's, in which each shape has a rate of its own.
bool is_mup(OptimizerType type);

class GroupedOptimizer : public Optimizer {
 public:
  std::vector<ParamPlace> place(std::span<const ParamFacts> params) override;

 protected:
  // `weight_decay` and `lr` are those of the parameters that `type` names.
  GroupedOptimizer(const OptimizerConfig& config, double lr, double weight_decay);

  using Noise = std::optional<kernels::WeightNoise>;

  const GroupOptions& options_of(int group) const;
  // Calls `use(options, part, noise)` for the elements of a shard that are updated alike.
  template <class Use>
  static void for_each_range(const Shard& shard, const UpdateGroup& group, const Use& use) {
    const std::vector<ShardRange> ranges = ranges_of(shard, group);
    for (const ShardRange& range : ranges) {
      ranges.size() == 1 ? use(range.group, shard, range.noise)
                         : use(range.group, part_of(shard, range.begin, range.numel), range.noise);
    }
  }

 private:
  const OptimizerType type_;
  const ParamGroups groups_;
  const std::vector<BaseShapeConfig> base_shapes_;
  std::vector<GroupOptions> options_;  // of groups_, and those that muP makes of them
};

// What checkpoints call state, in the format that the configuration asks for. `root`: it is never
// negative.
enum class StateSign : uint8_t { kAny, kNotNegative };
SlotSpec slot_spec(std::string name, MomentType type, StateSign sign = StateSign::kAny,
                   float initial = 0);
// The state of a shard as kernels take it. InternalError where its slots are not `specs`.
std::vector<kernels::StateTensor> states_of(const Shard& shard, std::span<const SlotSpec> specs,
                                            std::string_view family);

}  // namespace ds
