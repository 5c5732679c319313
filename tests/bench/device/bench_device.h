// What the benchmarks of devices share: a stream of a device by name, how long work on it takes,
// and what the device can do at most, which their figures are held against.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/device/stream.h"
#include "core/device/tensor.h"
#include "core/device/trace.h"
#include "core/memory/resource.h"
#include "core/tasks/thread_pool.h"

namespace ds::bench {

// Adds up what operations report of themselves.
class CostSum final : public Trace {
 public:
  void on_op(std::string_view /*name*/, const OpCost& cost) override {
    total_.flops += cost.flops;
    total_.bytes += cost.bytes;
  }
  OpCost take() { return std::exchange(total_, {}); }

 private:
  OpCost total_;
};

// The options of such a program, and what main() is: errors end it with a line and their exit code.
struct DeviceArgs {
  std::string device = "cuda:0";
  bool tiny = false;
};
struct DeviceProgram {
  const char* name;
  const char* about;
};
int device_program(const DeviceProgram& program, int argc, char** argv,
                   void (*run)(const DeviceArgs&)) noexcept;

struct BenchDevice {
  BenchDevice(const std::string& device_name, size_t bytes, int threads = 2);

  std::string name;
  bool is_emulated = false;
  std::unique_ptr<MemoryResource> memory;
  ThreadPool pool;
  CostSum cost;
  Stream stream;
};

// Numbers as a model holds them, normal: a GPU computes faster on zeros and on constants. Made of
// one table of 65536 numbers over and over, so that large tensors take no time.
Tensor random_numbers(Stream& stream, const Shape& shape, DType dtype = DType::kBF16);

struct Duration {
  double least_seconds = 0.05;  // of one measurement
  int rounds = 5;               // the median counts
};
// One call and no repetition: what is run to see that it runs.
inline constexpr Duration kOnce{.least_seconds = 0, .rounds = 1};

// Seconds of one call, while the stream is given one after the other; the first is not timed.
double seconds_of(Stream& stream, const std::function<void()>& work, const Duration& duration);

struct Ceilings {
  double bytes_per_s = 0;  // reads and writes of a copy within the device's memory
  double flops_per_s = 0;  // of a large product of bf16
};
struct CeilingSizes {
  size_t copy_bytes = size_t{1} << 30;
  int64_t product = 8192;  // rows, columns and depth
};
inline constexpr CeilingSizes kTinyCeilings{.copy_bytes = size_t{1} << 16, .product = 32};
size_t bytes_of(const CeilingSizes& sizes);  // that measure_ceilings() allocates, at most

Ceilings measure_ceilings(Stream& stream, const CeilingSizes& sizes, const Duration& duration);

}  // namespace ds::bench
