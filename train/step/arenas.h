// The arenas of training and evaluation, which share one block because they never run at once.
#pragma once

#include "core/memory/replay_arena.h"
#include "core/tensor.h"

namespace ds {

class StepArenas {
 public:
  // From the stream's memory, on its device.
  StepArenas(ArenaPlan train, ArenaPlan evaluate, Stream& stream);

  ReplayArena& train() { return train_; }
  ReplayArena& evaluate() { return evaluate_; }

 private:
  const Tensor block_;
  ReplayArena train_, evaluate_;
};

}  // namespace ds
