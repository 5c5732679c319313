// See bench_device.h.
#include "tests/bench/bench_device.h"

#include <chrono>
#include <vector>

#include "core/cuda/memory.h"
#include "kernels/elementwise.h"
#include "kernels/gemm/matmul.h"
#include "tests/bench/median.h"
#include "tests/support/device_name.h"

namespace ds::bench {

namespace {

std::unique_ptr<MemoryResource> memory_of(Device device, size_t bytes) {
  if (device == Device::cpu()) return std::make_unique<HostMemory>();
  return make_device_memory(device, bytes);
}

double seconds_of_calls(Stream& stream, const std::function<void()>& work, int calls) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) work();
  stream.synchronize();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

BenchDevice::BenchDevice(const std::string& device_name, size_t bytes, int threads)
    : name(device_name),
      is_emulated(testing::device_named(device_name).is_emulated),
      memory(memory_of(testing::device_named(device_name).device, bytes)),
      pool(threads),
      stream({.device = testing::device_named(device_name).device,
              .memory = memory.get(),
              .pool = &pool,
              .trace = &cost}) {}

double seconds_of(Stream& stream, const std::function<void()>& work, const Duration& duration) {
  constexpr int kMostCalls = 1 << 12;
  seconds_of_calls(stream, work, 1);
  int calls = 1;
  while (calls < kMostCalls && seconds_of_calls(stream, work, calls) < duration.least_seconds) {
    calls *= 2;
  }
  std::vector<double> seconds;
  for (int round = 0; round < duration.rounds; ++round) {
    seconds.push_back(seconds_of_calls(stream, work, calls) / calls);
  }
  return median(seconds);
}

size_t bytes_of(const CeilingSizes& sizes) {
  const auto numel = static_cast<size_t>(sizes.product * sizes.product);
  return 2 * sizes.copy_bytes + 3 * numel * size_of(DType::kBF16) + (size_t{64} << 20);
}

Ceilings measure_ceilings(Stream& stream, const CeilingSizes& sizes, const Duration& duration) {
  Ceilings ceilings;
  {
    const auto bytes = static_cast<int64_t>(sizes.copy_bytes);
    const Tensor from = Tensor::zeros({bytes}, DType::kI8, stream);
    const Tensor to = Tensor::zeros({bytes}, DType::kI8, stream);
    const double seconds = seconds_of(
        stream, [&] { stream.copy(from.address(), to.address(), from.bytes()); }, duration);
    ceilings.bytes_per_s = 2.0 * static_cast<double>(bytes) / seconds;
  }
  const int64_t n = sizes.product;
  Tensor a = Tensor::empty({n, n}, DType::kBF16, stream);
  Tensor b = Tensor::empty({n, n}, DType::kBF16, stream);
  const Tensor c = Tensor::empty({n, n}, DType::kBF16, stream);
  kernels::fill(stream, a, 0.5F);  // a GPU computes faster on zeros than on what models hold
  kernels::fill(stream, b, -0.375F);
  const auto product = [&] {
    kernels::matmul(stream, {.a = kernels::matrix(a, n, n),
                             .b = kernels::matrix(b, n, n),
                             .c = kernels::matrix(c, n, n)});
  };
  const auto size = static_cast<double>(n);
  ceilings.flops_per_s = 2 * size * size * size / seconds_of(stream, product, duration);
  return ceilings;
}

}  // namespace ds::bench
