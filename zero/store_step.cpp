#include "zero/store_step.h"

#include <algorithm>
#include <array>

#include "core/status/error.h"

namespace ds {

void StoreStep::prepare() {
  if (!parts_.options.offloads_state() || host_ == nullptr) return;
  host_scalars_.emplace(1, *host_);
  if (parts_.options.state.update_ahead) expected_scalars_.emplace(1, *host_);
}

void StoreStep::require(Phase wanted, std::string_view what) const {
  constexpr std::array kWhat{"no step has begun", "a step has begun", "gradients were reduced",
                             "weights were updated"};
  DS_CHECK(phase_ == wanted, "parameter store: {} is due when {}, and {}", what,
           kWhat[static_cast<size_t>(wanted)], kWhat[static_cast<size_t>(phase_)]);
}

void StoreStep::begin(GradientsOf gradients, int64_t number) {
  phase_ = Phase::kBegun;
  done_ = 0;
  for (const auto& group : parts_.training()) group->begin_step(gradients, number);
}

void StoreStep::expect(const ExpectedUpdate& update) {
  require(Phase::kBegun, "what is expected of an update");
  DS_CHECK(updates_ahead() && parts_.options.state.optimizer != nullptr,
           "parameter store: an update is expected, and none is made ahead");
  // Work ahead for a step that was not ended may still be under way, with the expected scalars.
  for (const auto& group : parts_.training()) {
    group->state().end_ahead(SpeculativeUpdate::Verdict::kUndo);
  }
  expected_scalars_->upload(update.inputs, 0);
  expected_scalars_->write({.grad_scale = update.grad_scale});
  for (const auto& group : parts_.training()) {
    group->begin_ahead(*parts_.options.state.optimizer, parts_.places, *expected_scalars_);
  }
}

void StoreStep::begin_micro_step() {
  require(Phase::kBegun, "a micro-step");
  const auto shards_weights = [](const auto& group) { return group->shards_weights(); };
  if (open_ > 0 && (parts_.options.wire.reduce == Reduce::kEachMicroStep ||
                    std::ranges::any_of(parts_.groups, shards_weights))) {
    throw Unsupported(
        "zero: a second micro-batch begins before the first is done, as in a pipeline; that needs "
        "stage 0 or 1, with gradients reduced at the end of the step");
  }
  if (open_++ > 0) return;
  gathers_.begin_micro_steps();
  for (const auto& group : parts_.groups) group->begin_micro_step();
}

void StoreStep::end_micro_step() {
  streams_.settle();
  for (const auto& group : parts_.training()) group->grads().end_micro_step();
  ++done_;
  if (--open_ > 0) return;
  gathers_.end_micro_steps();
  for (const auto& group : parts_.groups) group->end_micro_step();
  gathers_.slots().end();
}

void StoreStep::repeat_micro_step() {
  require(Phase::kBegun, "a micro-step that is repeated");
  DS_CHECK(open_ == 0, "parameter store: a micro-step is repeated inside of another");
  for (const auto& group : parts_.training()) group->grads().repeat_micro_step();
  ++done_;
}

void StoreStep::reduce_gradients() {
  require(Phase::kBegun, "the reduction of gradients");
  for (const auto& group : parts_.training()) group->grads().end_step();
  phase_ = Phase::kReduced;
}

void StoreStep::add_sum_of_squares(const Tensor& total) {
  require(Phase::kReduced, "the norm of gradients");
  for (const auto& group : parts_.training()) group->add_sum_of_squares(total);
}

void StoreStep::update(const Optimizer& optimizer, const StepScalars& scalars,
                       const UpdateNumber& number) {
  require(Phase::kReduced, "the update");
  phase_ = Phase::kUpdated;
  for (const auto& group : parts_.training()) group->end_step(scalars);
  if (host_scalars_) {
    settle_ahead(scalars);
    host_->wait(streams_.compute.mark());  // has waited for them, and so has its clock
    // On the host nothing is moved for a step that changes nothing.
    if (host_scalars_->host_outcome().skip != 0) return;
  }
  for (const auto& group : parts_.training()) {
    group->update(optimizer, parts_.places, scalars, host_scalars_ ? &*host_scalars_ : nullptr,
                  number);
  }
}

// Copies the scalars to the host, and says whether what was made ahead is the update that they ask
// for.
void StoreStep::settle_ahead(const StepScalars& scalars) {
  if (!updates_ahead()) return scalars.copy_to(*host_scalars_);
  // The thread that updates goes on while this one waits for the norm.
  for (const auto& group : parts_.training()) group->state().hand_over_ahead();
  scalars.copy_to(*host_scalars_);
  const auto verdict =
      is_as_expected() ? SpeculativeUpdate::Verdict::kKeep : SpeculativeUpdate::Verdict::kUndo;
  for (const auto& group : parts_.training()) group->state().end_ahead(verdict);
}

bool StoreStep::is_as_expected() const {
  const StepOutcome is = host_scalars_->host_outcome(), was = expected_scalars_->host_outcome();
  const StepInputs now = host_scalars_->host_inputs(), then = expected_scalars_->host_inputs();
  return is.skip == 0 && is.grad_scale == was.grad_scale && now.lr == then.lr &&
         now.beta1 == then.beta1 && now.beta2 == then.beta2 &&
         now.correction1 == then.correction1 && now.correction2 == then.correction2 &&
         now.step == then.step;
}

void StoreStep::publish() {
  require(Phase::kUpdated, "what publishes weights");
  for (const auto& group : parts_.training()) group->publish();
  phase_ = Phase::kNone;
}

void StoreStep::forget_events() {
  for (const auto& group : parts_.groups) group->forget_events();
  gathers_.slots().forget_events();
}

bool StoreStep::is_recordable() const {
  const OffloadedWeights* const offloaded = parts_.offloaded.get();
  return !parts_.options.offloads_state() && (offloaded == nullptr || !offloaded->uses_swap());
}

}  // namespace ds
