// See bench_device.h.
#include "tests/bench/device/bench_device.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "core/cuda/memory.h"
#include "core/values/rng.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/matmul/matmul.h"
#include "tests/bench/median.h"
#include "tests/support/device_name.h"

namespace ds::bench {

namespace {

std::unique_ptr<MemoryResource> memory_of(Device device, size_t bytes) {
  if (device == Device::cpu()) return std::make_unique<HostMemory>();
  return make_device_memory(device, bytes);
}

const std::vector<BF16>& table_of_normals() {
  static const std::vector<BF16> table = [] {
    std::vector<BF16> normals(65536);
    const Rng rng(1, "bench");
    for (size_t i = 0; i < normals.size(); ++i) normals[i] = BF16(rng.normal(i));
    return normals;
  }();
  return table;
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

Tensor random_numbers(Stream& stream, const Shape& shape, DType dtype) {
  const Tensor half = Tensor::empty(shape, DType::kBF16, stream);
  const std::vector<BF16>& table = table_of_normals();
  auto* const to = static_cast<std::byte*>(half.address());
  size_t done = std::min(half.bytes(), table.size() * sizeof(BF16));
  stream.copy(table.data(), to, done);
  while (done < half.bytes()) {  // what is there is repeated behind itself
    const size_t more = std::min(done, half.bytes() - done);
    stream.copy(to, to + done, more);
    done += more;
  }
  if (dtype == DType::kBF16) return half;
  Tensor wide = Tensor::empty(shape, dtype, stream);
  kernels::cast(stream, half, wide);
  return wide;
}

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
    const int64_t numel = static_cast<int64_t>(sizes.copy_bytes / size_of(DType::kBF16));
    const Tensor from = random_numbers(stream, {numel});
    const Tensor to = Tensor::zeros({numel}, DType::kBF16, stream);
    const double seconds = seconds_of(
        stream, [&] { stream.copy(from.address(), to.address(), from.bytes()); }, duration);
    ceilings.bytes_per_s = 2.0 * static_cast<double>(from.bytes()) / seconds;
  }
  const int64_t n = sizes.product;
  const Tensor a = random_numbers(stream, {n, n}), b = random_numbers(stream, {n, n});
  const Tensor c = Tensor::empty({n, n}, DType::kBF16, stream);
  const auto product = [&] {
    kernels::matmul(stream, {.a = kernels::matrix(a, n, n),
                             .b = kernels::matrix(b, n, n),
                             .c = kernels::matrix(c, n, n)});
  };
  const auto size = static_cast<double>(n);
  ceilings.flops_per_s = 2 * size * size * size / seconds_of(stream, product, duration);
  return ceilings;
}

int device_program(const DeviceProgram& program, int argc, char** argv,
                   void (*run)(const DeviceArgs&)) noexcept try {
  CLI::App app(program.about);
  DeviceArgs args;
  app.add_option("--device", args.device, "cpu, emulated or cuda:N");
  app.add_flag("--tiny", args.tiny);
  CLI11_PARSE(app, argc, argv);
  run(args);
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "%s: %s\n", program.name, error.what());
  return static_cast<int>(error.exit_code());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", program.name, error.what());
  return 1;
}

}  // namespace ds::bench
