// A CPU stream (or a meta one) with everything it needs, for tests.
#pragma once

#include <vector>

#include "core/device/stream.h"
#include "core/device/tensor.h"
#include "core/values/rng.h"

namespace ds::testing {

struct CpuStream {
  explicit CpuStream(int threads = 1) : pool(threads) {}
  HostMemory memory;
  ThreadPool pool;
  Stream stream{{.device = Device::cpu(), .memory = &memory, .pool = &pool}};
};

// Values with mean 0 and the given deviation, a function of seed and index alone, on whatever
// device the stream has.
inline Tensor random_tensor(Stream& stream, const Shape& shape, uint64_t seed,
                            float deviation = 1.0F) {
  std::vector<float> values(to_size(shape.numel()));
  const Rng rng(seed, "test");
  for (size_t i = 0; i < values.size(); ++i) values[i] = deviation * rng.normal(i);
  Tensor tensor = Tensor::empty(shape, DType::kF32, stream);
  stream.copy(values.data(), tensor.address(), tensor.bytes());
  return tensor;
}

inline Tensor random_tokens(Stream& stream, const Shape& shape, uint64_t seed, int64_t vocabulary) {
  std::vector<int32_t> tokens(to_size(shape.numel()));
  const Rng rng(seed, "tokens");
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(rng.bits(i) % static_cast<uint64_t>(vocabulary));
  }
  Tensor tensor = Tensor::empty(shape, DType::kI32, stream);
  stream.copy(tokens.data(), tensor.address(), tensor.bytes());
  return tensor;
}

}  // namespace ds::testing
