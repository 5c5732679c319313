// StoreStep: what a sharded store does in a step of training, in the one order that there is:
//
//   begin, and expect if updates are made ahead
//   micro-steps: begin_micro_step, forward, backward, end_micro_step, or what repeats that
//   reduce_gradients, add_sum_of_squares where the norm is wanted
//   update
//   publish
//
// Another order is an InternalError that says what came too early. A step may be left at any place:
// the next one begins anew.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "zero/gather_record.h"
#include "zero/store_parts.h"

namespace ds {

// What an update will be made with, unless the norm asks for another one.
struct ExpectedUpdate {
  StepInputs inputs{};
  float grad_scale = 1;
};

class StoreStep {
 public:
  // host: where offloaded state lies; may be null. All of these must outlive it.
  StoreStep(const StoreParts& parts, GatherRecord& gathers, StoreStreams streams, Stream* host)
      : parts_(parts), gathers_(gathers), streams_(streams), host_(host) {}

  // Before the first step, and before groups are made.
  void prepare();

  // gradients: of whom the update is to have them, where Reduce::kIfAsked leaves that open.
  // number: of the step, from 1, by which errors of quantized gradients begin anew now and then.
  void begin(GradientsOf gradients = GradientsOf::kAllRanks, int64_t number = 1);
  // If state is updated ahead, this says by what. If the step turns out to have another update,
  // that is made, and nothing is left of the expected one.
  void expect(const ExpectedUpdate& update);
  bool updates_ahead() const { return expected_scalars_.has_value(); }

  // With Reduce::kStepEnd and whole weights several micro-steps may be under way at once.
  void begin_micro_step();
  void end_micro_step();
  // Instead of begin_micro_step() to end_micro_step(): the streams have been given all of a
  // micro-step like one before it.
  void repeat_micro_step();
  bool is_first_micro_step() const { return done_ == 0; }
  void reduce_gradients();
  // Adds the squares of the slices that this rank answers for to an fp64 number on the stream's
  // device: over all ranks every element counts once.
  void add_sum_of_squares(const Tensor& total);
  // Part by part, each where it lies. With offloaded state it waits for the scalars. `number`: of
  // the update, where the optimizer is staged.
  void update(const Optimizer& optimizer, const StepScalars& scalars,
              const UpdateNumber& number = {});
  void publish();  // every rank sees the updated weights; those that are frozen stay

  // Nothing waits any more for what the streams have been given so far: they have waited for each
  // other, or will before they go on.
  void forget_events();
  // Whether micro-steps and updates can be recorded into graphs: the host has a part in what passes
  // through a swap file, and in updates of offloaded state.
  bool is_recordable() const;

 private:
  enum class Phase : uint8_t { kNone, kBegun, kReduced, kUpdated };
  void require(Phase wanted, std::string_view what) const;
  bool is_as_expected() const;
  void settle_ahead(const StepScalars& scalars);

  const StoreParts& parts_;
  GatherRecord& gathers_;
  const StoreStreams streams_;
  Stream* const host_;
  std::optional<StepScalars> host_scalars_;      // of updates beside the device
  std::optional<StepScalars> expected_scalars_;  // of those made ahead
  Phase phase_ = Phase::kNone;
  int open_ = 0;  // micro-steps under way
  int done_ = 0;  // micro-steps of the step
};

}  // namespace ds
