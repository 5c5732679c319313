// StepMemories says where training and evaluation allocate: by a plan in one block, which they
// share because they never run at once; upstream, recorded for a plan; or from the stream's memory.
#pragma once

#include <map>
#include <optional>

#include "core/device/tensor.h"
#include "train/settings/step_settings.h"
#include "train/step/arena.h"
#include "train/step/recorder.h"

namespace ds {

class StepMemories {
 public:
  // Allocates the block from the stream's memory, on its device. All shapes of steps have it in
  // turn, so that it is as long as the longest of them wants.
  void follow(const std::map<StepShape, StepArenaPlan>& train, const StepArenaPlan& evaluate,
              Stream& stream);
  // Both must outlive what is done from now on; `train` records steps of any shape.
  void record(StepRecorder& train, StepRecorder& evaluate);

  // Null: the stream's memory. InternalError for a shape that nothing was planned of.
  StepMemory* train(const StepShape& shape);
  StepMemory* evaluate() { return evaluate_; }

 private:
  Tensor block_;
  std::map<StepShape, StepArena> train_arenas_;
  std::optional<StepArena> evaluate_arena_;
  StepMemory* recorder_ = nullptr;  // of steps
  StepMemory* evaluate_ = nullptr;
};

}  // namespace ds
