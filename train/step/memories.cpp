#include "train/step/memories.h"

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

void StepMemories::follow(const std::map<StepShape, StepArenaPlan>& train,
                          const StepArenaPlan& evaluate, Stream& stream) {
  size_t bytes = evaluate.bytes_total();
  for (const auto& [shape, plan] : train) bytes = std::max(bytes, plan.bytes_total());
  block_ = Tensor::empty({narrow<int64_t>(bytes)}, DType::kU8, stream, MemoryTag::kActivations);
  for (const auto& [shape, plan] : train) {
    train_arenas_.try_emplace(shape, plan, block_.address(), stream.device());
  }
  evaluate_ = &evaluate_arena_.emplace(evaluate, block_.address(), stream.device());
}

void StepMemories::record(StepRecorder& train, StepRecorder& evaluate) {
  recorder_ = &train;
  evaluate_ = &evaluate;
}

StepMemory* StepMemories::train(const StepShape& shape) {
  if (train_arenas_.empty()) return recorder_;
  const auto found = train_arenas_.find(shape);
  DS_CHECK(found != train_arenas_.end(), "step: no plan of steps of {} tokens", shape.length);
  return &found->second;
}

}  // namespace ds
