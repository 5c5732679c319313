#include "train/step/recorder.h"

#include "core/status/error.h"

namespace ds {

void StepRecorder::begin(const PipelineInstruction& instruction) {
  DS_CHECK(work_ == nullptr, "step recorder: {} begins inside {}", to_string(instruction.op),
           to_string(work_->op));
  const auto [found, is_new] = life_of_.try_emplace(instruction.buffer, lives_.size());
  if (is_new) lives_.push_back({.chunk = instruction.chunk, .works = {}});
  std::vector<StepRecord::Work>& works = lives_[found->second].works;
  works.push_back({.op = instruction.op,
                   .begin = recording_.events(),
                   .end = INT64_MAX,
                   .allocations = {recording_.count(), 0}});
  work_ = &works.back();
}

void StepRecorder::end() {
  work_->end = recording_.events();
  work_->allocations.end = recording_.count();
  work_ = nullptr;
}

void StepRecorder::release(int buffer) {
  const auto found = life_of_.find(buffer);
  DS_CHECK(found != life_of_.end(), "step recorder: buffer {} holds no micro-batch", buffer);
  lives_[found->second].released = recording_.events();
  life_of_.erase(found);
}

StepRecord StepRecorder::record() const { return {.lives = lives_, .spans = recording_.spans()}; }

}  // namespace ds
