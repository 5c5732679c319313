// A CPU stream (or a meta one) with everything it needs, for tests.
#pragma once

#include "core/rng.h"
#include "core/stream.h"
#include "core/tensor.h"

namespace ds::testing {

struct CpuStream {
  explicit CpuStream(int threads = 1) : pool(threads) {}
  HostMemory memory;
  ThreadPool pool;
  Stream stream{{.device = Device::cpu(), .memory = &memory, .pool = &pool}};
};

// Values with mean 0 and the given deviation, a function of seed and index alone.
inline Tensor random_tensor(Stream& stream, const Shape& shape, uint64_t seed,
                            float deviation = 1.0F) {
  Tensor tensor = Tensor::empty(shape, DType::kF32, stream);
  const Rng rng(seed, "test");
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.data<float>()[i] = deviation * rng.normal(static_cast<uint64_t>(i));
  }
  return tensor;
}

inline Tensor random_tokens(Stream& stream, const Shape& shape, uint64_t seed, int64_t vocabulary) {
  Tensor tensor = Tensor::empty(shape, DType::kI32, stream);
  const Rng rng(seed, "tokens");
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.data<int32_t>()[i] = static_cast<int32_t>(rng.bits(static_cast<uint64_t>(i)) %
                                                     static_cast<uint64_t>(vocabulary));
  }
  return tensor;
}

}  // namespace ds::testing
