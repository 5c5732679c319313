#include "train/settings/observers.h"

#include <algorithm>

namespace ds {

void StepObservers::after_load(const std::string& note) {
  for (const auto& member : members_) member->after_load(note);
}

void StepObservers::before_micro_step(int64_t steps_done, int micro_step) {
  for (const auto& member : members_) member->before_micro_step(steps_done, micro_step);
}

void StepObservers::on_samples(int64_t steps_done, int micro_step,
                               std::span<const int64_t> samples) {
  for (const auto& member : members_) member->on_samples(steps_done, micro_step, samples);
}

void StepObservers::before_instruction(int64_t steps_done, const PipelineInstruction& instruction) {
  for (const auto& member : members_) member->before_instruction(steps_done, instruction);
}

void StepObservers::after_instruction(int64_t steps_done, const PipelineInstruction& instruction) {
  for (const auto& member : members_) member->after_instruction(steps_done, instruction);
}

void StepObservers::after_step(const StepReport& report) {
  for (const auto& member : members_) member->after_step(report);
}

bool StepObservers::needs_edge(int64_t steps_done) const {
  return std::ranges::any_of(members_,
                             [&](const auto& member) { return member->needs_edge(steps_done); });
}

void StepObservers::at_edge(int64_t steps_done) {
  for (const auto& member : members_) member->at_edge(steps_done);
}

void StepObservers::before_exit(RunEnd end) {
  for (const auto& member : members_) member->before_exit(end);
}

void StepObservers::measure(Measured& measured) const {
  for (const auto& member : members_) member->measure(measured);
}

}  // namespace ds
