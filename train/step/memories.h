// StepMemories says where training and evaluation allocate: by a plan in one block, which they
// share because they never run at once; upstream, recorded for a plan; or from the stream's memory.
#pragma once

#include <optional>

#include "core/tensor.h"
#include "train/step/arena.h"
#include "train/step/recorder.h"

namespace ds {

class StepMemories {
 public:
  // Allocates the block from the stream's memory, on its device.
  void follow(const StepArenaPlan& train, const StepArenaPlan& evaluate, Stream& stream);
  // Both must outlive what is done from now on.
  void record(StepRecorder& train, StepRecorder& evaluate);

  // Null: the stream's memory.
  StepMemory* train() { return train_; }
  StepMemory* evaluate() { return evaluate_; }

 private:
  Tensor block_;
  std::optional<StepArena> train_arena_, evaluate_arena_;
  StepMemory* train_ = nullptr;
  StepMemory* evaluate_ = nullptr;
};

}  // namespace ds
