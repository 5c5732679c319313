#include "train/step/arenas.h"

#include <algorithm>

#include "core/index.h"

namespace ds {
namespace {

Tensor block_for(const ArenaPlan& train, const ArenaPlan& evaluate, Stream& stream) {
  const size_t bytes = std::max(train.bytes_total, evaluate.bytes_total);
  return Tensor::empty({narrow<int64_t>(bytes)}, DType::kU8, stream, MemoryTag::kActivations);
}

}  // namespace

StepArenas::StepArenas(ArenaPlan train, ArenaPlan evaluate, Stream& stream)
    : block_(block_for(train, evaluate, stream)),
      train_(std::move(train), block_.address(), stream.device()),
      evaluate_(std::move(evaluate), block_.address(), stream.device()) {}

}  // namespace ds
