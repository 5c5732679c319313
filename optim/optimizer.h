// Optimizers: update rules over shards. An optimizer holds hyper-parameters only, never tensors;
// state tensors (slots) live in the Shard, wherever that lives.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/sections/optimizer.h"
#include "core/device/tensor.h"
#include "kernels/optimizer/rule_update.h"
#include "kernels/optimizer/update.h"
#include "optim/lr_schedule.h"
#include "optim/param_groups.h"

namespace ds {

class Communicator;

// Elements [param_begin, param_begin + numel) of parameter `param` lie at `offset` in the shard.
struct ShardField {
  int param = 0;
  int64_t param_begin = 0;
  int64_t numel = 0;
  int64_t offset = 0;
  bool operator==(const ShardField&) const = default;
};

struct ShardSlice {
  int64_t begin = 0, numel = 0;
};

// What one rank updates of one bucket: contiguous, element i of every tensor belongs together.
struct Shard {
  Tensor master;                   // fp32 weights, or the only ones, of fewer bits
  Tensor grad;                     // fp32, bf16 or fp16: the reduced gradient
  Tensor copy;                     // low-precision weights written after the update, or undefined
  std::vector<Tensor> slots;       // one per Optimizer::slots_of(), of its dtype
  std::vector<ShardField> fields;  // ascending by offset
  // Beside slots of 8 bits, one per slot: their exponents, one for kWeightsPerScale weights. Empty
  // where no slot has any.
  std::vector<Tensor> scales = {};
  // The elements that this rank alone answers for: where all ranks of the group have the same whole
  // shard, one slice of it. None said: all.
  std::optional<ShardSlice> own = std::nullopt;
};

// What changes from step to step.
struct Hyper {
  double lr = 0;
  // What a schedule that drives the momentum says instead of both betas; nothing: the optimizer's
  // own.
  std::optional<std::array<double, 2>> betas = std::nullopt;
};

// State of one number per weight.
struct SlotSpec {
  std::string name;
  DType dtype = DType::kF32;  // or bf16; u8: MXFP8, with scales (kernels/optimizer/moments.h)
  bool root = false;          // of u8: its root is what is kept
  float initial = 0;          // of an optimizer that has made no step
  bool operator==(const SlotSpec&) const = default;
};
inline constexpr int64_t kWeightsPerScale = kernels::kMomentBlock;
kernels::MomentFormat format_of(const SlotSpec& slot);

// Whose gradients an update takes: the sums over ranks, or each rank's own, of which the optimizer
// itself exchanges what it needs.
enum class GradientsOf : uint8_t { kAllRanks, kOwnRank };

// State that is no number per weight.
enum class AuxiliaryScope : uint8_t {
  kOwn,    // each rank's, and no other's: lost where the ranks are others
  kShared  // the same on all ranks
};
struct AuxiliarySpec {
  std::string name;
  int param = -1;  // ShardField::param that it is of; -1: of all in the group
  int64_t numel = 0;
  AuxiliaryScope scope = AuxiliaryScope::kOwn;
  float initial = 0;  // of an optimizer that has made no step
  // If a parameter's own numbers, one per weight, are lost, they begin as this slot; -1: as
  // `initial`.
  int like_slot = -1;
  // Numbers per unit of a gradient as it is reduced: a loss scale that is larger by a factor makes
  // them smaller by it.
  bool per_gradient = false;
};

// This numbers an update, if the optimizer is_staged().
struct UpdateNumber {
  int64_t update = 1;
  std::function<double(int64_t update)> rate = nullptr;  // that another one had
};

// What the parts of one call have in common.
struct UpdateGroup {
  // Implicit: what an optimizer is told of parameters can be left out where all have the same
  // options.
  UpdateGroup(Communicator& all, std::span<const ParamPlace> places = {})  // NOLINT
      : ranks(all), params(places) {}
  Communicator& ranks;                  // that the parts of a bucket lie on
  std::span<const ParamPlace> params;   // by ShardField::param, the same on all ranks
  std::span<const Tensor> auxiliary{};  // fp32, one per Optimizer::auxiliary_of()
  UpdateNumber number{};
  // Weights in bf16 that have no fp32 master are rounded at random by it; nothing: to nearest.
  std::optional<uint64_t> rounding_seed = std::nullopt;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // The family whose state the slots are, as checkpoints record it: "adam", "lion", ...
  virtual std::string_view family() const = 0;

  // Says once, before the first step, of which kind and group each parameter is; the answers have
  // the order of the questions. ConfigError where what a configuration says of groups fits none.
  virtual std::vector<ParamPlace> place(std::span<const ParamFacts> params);
  // Parameters of different kinds have different state, and share no bucket.
  virtual int kinds() const { return 1; }
  virtual std::vector<SlotSpec> slots_of(int kind) const = 0;
  // Says whether updates of a kind need whole parameters: these are not cut by slices then.
  virtual bool needs_whole_parameters(int /*kind*/) const { return false; }
  // Numbers per parameter that ranks add up before weights can be moved. 0: there are none, and
  // step() may be given one part after the other; whole parameters, where it needs them.
  virtual int64_t sums_per_param() const { return 0; }
  // Whether what updates do, and send to whom, depends on their numbers: the host has to know them
  // before a step begins, and no step can stand for another.
  virtual bool is_staged() const { return false; }
  virtual GradientsOf gradients_at(int64_t /*update*/) const { return GradientsOf::kAllRanks; }
  // Updates that differ in what they need and send, of a run that ends with `last`; the first of
  // them stands for the run.
  virtual std::vector<int64_t> kinds_of_updates(int64_t /*last*/) const { return {1}; }
  // State beside the slots of parts that lie on `ranks` ranks, whole on each.
  virtual std::vector<AuxiliarySpec> auxiliary_of(std::span<const Shard> /*parts*/,
                                                  int /*ranks*/) const {
    return {};
  }
  // Names that auxiliary may have, whatever the number of ranks.
  virtual std::vector<std::string> extra_names() const { return {}; }
  // Whether the last slot has the weights on which ranks agree, where between two exchanges each
  // trains with its own: what checkpoints call the weights.
  virtual bool has_agreed_weights() const { return false; }
  // If it has, this turns masters that are the agreed weights into this rank's own, after state has
  // been restored.
  virtual void own_weights(std::span<Shard> /*parts*/, const UpdateGroup& /*group*/,
                           Stream& /*stream*/) const {}
  std::vector<SlotSpec> slots() const { return slots_of(0); }
  std::vector<std::string> slot_names() const;

  // Whether it heeds Hyper::betas.
  virtual MomentumSupport momentum_support() const = 0;
  // What has to be in StepScalars before step(). `step` counts from 1.
  virtual StepInputs inputs(const Hyper& hyper, int64_t step) const = 0;
  // Updates all that this rank answers for, of parameters of one kind, by scalars that are in
  // memory by the time it runs: nothing of weights, slots and copies changes where they say skip.
  virtual void step(std::span<Shard> parts, const StepScalars& scalars, const UpdateGroup& group,
                    Stream& stream) const = 0;
  // With sums_per_param(), what step() does in two passes, each of which may be given one part
  // after the other. The first moves the slots, and adds to `sums`, fp64 [parameters *
  // sums_per_param()]; the second moves the weights, with those of all ranks in rank order.
  virtual void add_sums(std::span<Shard> parts, const StepScalars& scalars,
                        const UpdateGroup& group, const Tensor& sums, Stream& stream) const;
  virtual void move_weights(std::span<Shard> parts, const StepScalars& scalars,
                            const UpdateGroup& group, const Tensor& gathered, Stream& stream) const;
};

std::unique_ptr<Optimizer> make_adam(const AdamParams& params,
                                     kernels::WeightDecay decay = kernels::WeightDecay::kDecoupled);

}  // namespace ds
