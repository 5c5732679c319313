// The numbers that change from step to step, in memory of the device: what the host decides of a
// step before it begins, what each rank sums up, and what follows from the sums of all ranks.
// Kernels read them there when they run, so that nothing waits for the host between the gradients
// and the update, and a recorded step can be run again with other numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "core/device/staging_ring.h"
#include "core/device/tensor.h"
#include "kernels/step/loss_scale.h"

namespace ds {

// Written by the host, once per step. They are those of an update, so that a step that is skipped
// uses none of them up.
struct alignas(64) StepInputs {
  double lr = 0;
  double beta1 = 0, beta2 = 0;              // of optimizers that have them
  double correction1 = 1, correction2 = 1;  // of Adam's bias: 1 - beta^step
  int64_t step = 1;                         // number of the update, counts from 1
};

inline constexpr int64_t kMostLossParts = 4;

// These sums are one rank's while a step runs, and all ranks' when it is finished.
struct StepSums {
  double loss = 0;
  double squares = 0;                 // of the gradients
  double flags = 0;                   // over ranks the largest counts
  double weights = 0;                 // of losses, if the rule says that they count
  double parts[kMostLossParts] = {};  // that the loss is the sum of, or figures beside it
};
inline constexpr int64_t kStepSums = 4 + kMostLossParts;  // numbers in StepSums

// Why updates do nothing: bits of StepOutcome::skip.
enum class Skip : uint32_t {
  // The loss is not finite, or without a loss scale the norm is not, or kernels have found
  // something, in this step or in one before it since the host called clear_skip(). The host may
  // have begun further steps by the time it hears of the first one, and they must not train on as
  // if nothing had been.
  kBad = 1,
  kExhausted = 2,  // the same for gradients that overflow where no smaller loss scale may follow
  kOverflow = 4,   // they have in this step, as the loss scale expects now and then
};

// Written by finish_step().
struct alignas(64) StepOutcome {
  StepSums sums{};
  double norm = 0;        // of the gradients, as if nothing had been scaled
  double loss_scale = 1;  // of this step
  float grad_scale = 1;   // multiplies every gradient: unscale and clip in one factor
  uint32_t skip = 0;      // updates do nothing where it is not 0
  // DeviceFlag bits (core/device/device_flags.h) that kernels of this rank's stream have set since
  // the host called clear_skip(); where there are any, skip is set.
  uint32_t found = 0;
  int64_t updates = 0;      // made so far: steps that were not skipped
  LossScaleState scaler{};  // for the step after it

  constexpr bool is_skipped(Skip why) const { return (skip & static_cast<uint32_t>(why)) != 0; }
};

// What the numbers of all ranks are made an outcome by.
struct FinishRule {
  double max_norm = 0;  // gradients are clipped to it; 0: they are not
  LossScaleRule loss_scale{};
  double gradient_factor = 1;  // that gradients have beside the loss scale
  bool is_update = true;       // false: the sums of an evaluation, which changes nothing that stays
  // Every rank has the gradients of its own samples, its share of the mean over all: the norm is
  // the root of the mean square of the ranks' own, and updates see gradients of those samples
  // alone.
  bool own_gradients = false;
  // Losses and gradients are shares of a mean over this weight. If it is more than 0, they become
  // those of the mean over the weight that the batch has, the sum of all ranks, as the field
  // num_items_in_batch of transformers' trainer says it; a batch without weight has a loss of 0.
  double planned_weight = 0;
};

// A handle: copies share the memory.
class StepScalars {
 public:
  // For a group of that many ranks, from stream.memory(). What is copied there starts in `pinned`
  // memory, which must outlive it; null: the heap.
  StepScalars(int ranks, Stream& stream, MemoryResource* pinned = nullptr);

  // Begins a step: its inputs, and sums of 0 but for `flags`. Waits for no work of this step or of
  // the one before it. Where the step before is under way and may yet be skipped, this step's
  // update is another one then: its inputs are `after_skip`, of the number that says so.
  // finish_step() puts those in the place of the others.
  void upload(const StepInputs& inputs, int64_t flags, const StepInputs& after_skip = {.step = 0});
  StepOutcome read_back() const;  // waits for its copy; the defaults on meta
  // The outcome of the work so far, into host memory that has to live until the event is reached;
  // what is done to these scalars later does not change it. On meta `to` stays as it is.
  Event copy_outcome(StepOutcome& to) const;
  // What updates read, into scalars of the host, where state lies that the CPU updates. Waits for
  // the copy.
  void copy_to(const StepScalars& host) const;
  void clear_skip();  // and what was found
  void write(const StepOutcome& outcome);

  Tensor loss() const { return sums().narrow(0, 1); }
  Tensor squares() const { return sums().narrow(1, 1); }
  Tensor weights() const { return sums().narrow(3, 1); }
  Tensor loss_part(int64_t part) const { return sums().narrow(4 + part, 1); }
  Tensor sums() const;      // fp64 [kStepSums]: StepSums of this rank
  Tensor gathered() const;  // fp64 [ranks * kStepSums]: room for those of all ranks

  // Copies for who decides on the host, of scalars that are the host's; the defaults on meta.
  StepOutcome host_outcome() const;
  StepInputs host_inputs() const;

  // For kernels; they throw on meta. On a CUDA device the host may only take their addresses.
  StepInputs& inputs() const;
  const StepInputs& inputs_after_skip() const;
  StepOutcome& outcome() const;
  // Returns the loss scale of the step to come; null on meta.
  const double* loss_scale() const;

 private:
  Stream* stream_;
  Tensor block_;  // StepOutcome, twice StepInputs, the sums of this rank, those of all
  std::shared_ptr<StagingRing> staging_;
};

namespace kernels {

// The factor that brings a gradient of norm `norm` down to `max_norm`: min(1, max_norm / (norm +
// 1e-6)), as torch.nn.utils.clip_grad_norm_ has it. max_norm 0 switches clipping off.
constexpr float clip_factor(double norm, double max_norm) {
  if (max_norm <= 0) return 1.0F;
  return static_cast<float>(std::min(1.0, max_norm / (norm + 1e-6)));
}

// From the sums of all ranks, fp64 [ranks * kStepSums]: their sums in rank order, the norm, the
// factor that clips it, whether the update has to be skipped and why, and the loss scale of the
// step after it; which inputs are those of the update. What the stream's DeviceFlags hold moves to
// the outcome.
void finish_step(Stream& stream, const Tensor& gathered, const FinishRule& rule,
                 const StepScalars& scalars);

}  // namespace kernels
}  // namespace ds
