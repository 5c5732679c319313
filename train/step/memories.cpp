#include "train/step/memories.h"

#include <algorithm>

#include "core/index.h"

namespace ds {

void StepMemories::follow(const StepArenaPlan& train, const StepArenaPlan& evaluate,
                          Stream& stream) {
  const size_t bytes = std::max(train.bytes_total(), evaluate.bytes_total());
  block_ = Tensor::empty({narrow<int64_t>(bytes)}, DType::kU8, stream, MemoryTag::kActivations);
  train_ = &train_arena_.emplace(train, block_.address(), stream.device());
  evaluate_ = &evaluate_arena_.emplace(evaluate, block_.address(), stream.device());
}

void StepMemories::record(StepRecorder& train, StepRecorder& evaluate) {
  train_ = &train;
  evaluate_ = &evaluate;
}

}  // namespace ds
