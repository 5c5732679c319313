// Optimizers: update rules over shards. An optimizer holds hyper-parameters only, never tensors;
// state tensors (slots) live in the Shard, wherever that lives.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/sections/optimizer.h"
#include "core/tensor.h"
#include "kernels/update.h"
#include "optim/lr_schedule.h"

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

// What one rank updates of one bucket: contiguous, element i of every tensor belongs together.
struct Shard {
  Tensor master;                   // fp32 weights
  Tensor grad;                     // fp32, bf16 or fp16: the reduced gradient
  Tensor copy;                     // low-precision weights written after the update, or undefined
  std::vector<Tensor> slots;       // one per Optimizer::slots(), of its dtype
  std::vector<ShardField> fields;  // ascending by offset
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
  DType dtype = DType::kF32;
  bool operator==(const SlotSpec&) const = default;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // The family whose state the slots are, as checkpoints record it: "adam", "lion", ...
  virtual std::string_view family() const = 0;
  virtual std::vector<SlotSpec> slots() const = 0;
  std::vector<std::string> slot_names() const;
  // Whether it heeds Hyper::betas.
  virtual MomentumSupport momentum_support() const = 0;
  // What has to be in StepScalars before step(). `step` counts from 1.
  virtual StepInputs inputs(const Hyper& hyper, int64_t step) const = 0;
  // Updates all that this rank answers for, by scalars that are in memory by the time it runs:
  // nothing of weights, slots and copies changes where they say skip. `group` are the ranks that
  // the parts of a bucket lie on, for rules that need the norm of a whole parameter.
  virtual void step(std::span<Shard> parts, const StepScalars& scalars, Communicator& group,
                    Stream& stream) const = 0;
};

std::unique_ptr<Optimizer> make_adam(const AdamParams& params,
                                     kernels::WeightDecay decay = kernels::WeightDecay::kDecoupled);

}  // namespace ds
