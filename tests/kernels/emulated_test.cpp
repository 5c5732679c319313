// What the emulated device has to find: each fault that costs days on a GPU, in a kernel or with a
// stream of its own.
#include "core/cuda/emulated.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cmath>
#include <set>

#include "core/device/staging_ring.h"
#include "core/device/tensor.h"
#include "core/fibre/sanitizers.h"
#include "core/memory/poison.h"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/pack.cuh"
#include "tests/support/catch.h"
#include "tests/support/device_stream.h"

namespace ds::cuda {
namespace {

// This program's kernels run in all orders, since they are small.
const bool launches_in_all_orders = [] {
  emulated::execute_in(emulated::Orders::kAll);
  return true;
}();

std::vector<float> values_of(Stream& stream, const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.numel()));
  stream.copy(tensor.address(), values.data(), tensor.bytes());
  return values;
}

// What happens to a process that does this.
int fate_of(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    close(STDERR_FILENO);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

// ---- kernels

__global__ void turn_round(bool waits, float* y) {
  DS_SHARED(float, shared, 64);
  const unsigned i = threadIdx.x;
  shared[i] = static_cast<float>(i);
  if (waits) __syncthreads();
  y[i] = shared[63 - i];
}

TEST_CASE("a missing barrier shows in another order of threads", "[cuda]") {
  DeviceStream s;
  const Tensor y = s.floats(64);
  run(turn_round, {.threads = 64}, s.stream, true, at(y));
  CHECK(values_of(s.stream, y)[5] == 58);
  if (sanitizers::kSeesRaces) return;  // which has an order of its own, and emulated_faults.cpp
  CHECK_THROWS_WITH(run(turn_round, {.threads = 64}, s.stream, false, at(y)),
                    Catch::Contains("kernel: what it writes depends on the order of its threads"));
}

__global__ void last_one(float* y) { *y = static_cast<float>(threadIdx.x); }

TEST_CASE("a launch in one order has another one each time", "[cuda]") {
  if (sanitizers::kSeesRaces) return;  // in one order always
  DeviceStream s;
  const Tensor y = s.floats(1);
  std::set<float> seen;
  emulated::execute_in(emulated::Orders::kOne);
  for (int i = 0; i < 4; ++i) {
    run(last_one, {.threads = 64}, s.stream, at(y));
    seen.insert(values_of(s.stream, y).front());
  }
  emulated::execute_in(emulated::Orders::kAll);
  CHECK(seen.size() == 4);
}

__global__ void barrier_in_branch(unsigned first, float* y) {
  if (threadIdx.x >= first) __syncthreads();
  y[threadIdx.x] = 1;
}

TEST_CASE("a barrier is reached by all threads of a block, or it is an error", "[cuda]") {
  DeviceStream s;
  const Tensor y = s.floats(64);
  CHECK_NOTHROW(run(barrier_in_branch, {.threads = 64}, s.stream, 0U, at(y)));
  for (const unsigned first : {1U, 16U, 63U}) {
    CHECK_THROWS_WITH(run(barrier_in_branch, {.threads = 64}, s.stream, first, at(y)),
                      Catch::Contains("do not reach"));
  }
}

__global__ void sum_of_lanes(unsigned mask, unsigned lanes, float* y) {
  if (threadIdx.x >= lanes) return;
  float sum = 1;
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(mask, sum, distance);
  }
  y[threadIdx.x] = sum;
}

TEST_CASE("a shuffle needs the lanes of its mask, and itself among them", "[cuda]") {
  DeviceStream s;
  const Tensor y = s.floats(32);
  run(sum_of_lanes, {.threads = 32}, s.stream, kAllLanes, 32U, at(y));
  CHECK(values_of(s.stream, y) == std::vector<float>(32, 32.0F));
  CHECK_THROWS_AS(run(sum_of_lanes, {.threads = 32}, s.stream, kAllLanes, 24U, at(y)),
                  InternalError);
  CHECK_THROWS_WITH(run(sum_of_lanes, {.threads = 32}, s.stream, 0xffffU, 32U, at(y)),
                    Catch::Contains("mask"));
}

__global__ void two_warp_instructions(unsigned in_barrier, float* y) {
  float value = 1;
  if (threadIdx.x < in_barrier) {
    __syncwarp();
  } else {
    value = __shfl_xor_sync(kAllLanes, value, 1);
  }
  y[threadIdx.x] = value;
}

TEST_CASE("a shuffle of some lanes is not the barrier of the others", "[cuda]") {
  DeviceStream s;
  const Tensor y = s.floats(32);
  CHECK_NOTHROW(run(two_warp_instructions, {.threads = 32}, s.stream, 0U, at(y)));
  CHECK_NOTHROW(run(two_warp_instructions, {.threads = 32}, s.stream, 32U, at(y)));
  CHECK_THROWS_WITH(run(two_warp_instructions, {.threads = 32}, s.stream, 7U, at(y)),
                    Catch::Contains("two different instructions"));
}

__global__ void count_all(uint32_t* counts) {
  atomicAdd(counts, 1U);
  atomicMax(counts + 1, 3 * blockIdx.x + threadIdx.x);
  atomicOr(counts + 2, 1U << blockIdx.x);
}

TEST_CASE("atomic operations of all blocks are counted", "[cuda]") {
  DeviceStream s;
  const Tensor counts = s.floats(3);
  run(count_all, {.blocks = 20, .threads = 64}, s.stream, static_cast<uint32_t*>(counts.address()));
  std::array<uint32_t, 3> found{};
  s.stream.copy(counts.address(), found.data(), counts.bytes());
  CHECK(found == std::array<uint32_t, 3>{20 * 64, 3 * 19 + 63, (1U << 20) - 1});
}

// Holds what only its end gives back, while it waits.
__global__ void hold_and_wait(std::atomic<int>* held, unsigned last, float* y) {
  struct Hold {
    explicit Hold(std::atomic<int>* count) : all(count) { ++*all; }
    Hold(const Hold&) = delete;  // counts
    Hold& operator=(const Hold&) = delete;
    ~Hold() { --*all; }
    std::atomic<int>* all;
  };
  const Hold hold(held);
  if (threadIdx.x < last) __syncthreads();
  y[threadIdx.x] = 1;
}

TEST_CASE("threads that wait when another one fails are unwound", "[cuda]") {
  DeviceStream s;
  const Tensor y = s.floats(64);
  std::atomic<int> held = 0;
  CHECK_THROWS_WITH(run(hold_and_wait, {.threads = 64}, s.stream, &held, 63U, at(y)),
                    Catch::Contains("do not reach"));
  CHECK(held == 0);
  CHECK_NOTHROW(run(hold_and_wait, {.threads = 64}, s.stream, &held, 64U, at(y)));
  CHECK(held == 0);
}

__global__ void sum_by_atomics(const float* x, float* y) { atomicAdd(y, x[threadIdx.x]); }
__global__ void sum_in_order(const float* x, float* y) {
  const float sum = block_sum(x[threadIdx.x]);
  if (threadIdx.x == 0) *y = sum;
}

TEST_CASE("a sum that depends on who comes first is an error, one in order is not", "[cuda]") {
  DeviceStream s;
  std::vector<float> values(256);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 1.0F / static_cast<float>(i + 1);
  const Tensor x = s.floats(256), y = s.floats(1);
  s.stream.copy(values.data(), x.address(), x.bytes());
  if (!sanitizers::kSeesRaces) {  // to which they are in order
    CHECK_THROWS_WITH(run(sum_by_atomics, {.threads = 256}, s.stream, at(x), at(y)),
                      Catch::Contains("order of its threads"));
  }
  run(sum_in_order, {.threads = 256}, s.stream, at(x), at(y));
  CHECK(values_of(s.stream, y)[0] == Approx(6.124344).epsilon(1e-6));
}

__global__ void write_up_to(int64_t numel, float* y) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i <= numel) y[i] = 1;
}
__global__ void write_shared(int count, float* y) {
  DS_SHARED(float, shared, 32);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += 32) shared[i] = 1;
  y[threadIdx.x] = shared[threadIdx.x];
}
__global__ void read_shared(float* y) {
  DS_SHARED(float, shared, 32);
  y[threadIdx.x] = shared[threadIdx.x];
}

TEST_CASE("what lies behind the end of a block or of shared memory is not written", "[cuda]") {
  if (kCanPoison) return;  // AddressSanitizer ends the program there
  DeviceStream s;
  const Tensor y = s.floats(100);
  CHECK_NOTHROW(run(write_up_to, {.blocks = 2, .threads = 64}, s.stream, int64_t{99}, at(y)));
  CHECK_THROWS_WITH(run(write_up_to, {.blocks = 2, .threads = 64}, s.stream, int64_t{100}, at(y)),
                    Catch::Contains("behind the end of a block of 400 bytes"));
}

TEST_CASE("shared memory has an end, and nothing in it at first", "[cuda]") {
  DeviceStream s;
  const Tensor y = s.floats(32);
  if (!kCanPoison) {
    CHECK_THROWS_WITH(run(write_shared, {.threads = 32}, s.stream, 33, at(y)),
                      Catch::Contains("behind 128 bytes of shared memory"));
  }
  CHECK_NOTHROW(run(write_shared, {.threads = 32}, s.stream, 32, at(y)));
  run(read_shared, {.threads = 32}, s.stream, at(y));
  CHECK(std::isnan(values_of(s.stream, y)[7]));
}

__global__ void copy_packs(const float* x, float* y) {
  store(load<4>(x + 4 * threadIdx.x), y + 4 * threadIdx.x);
}

TEST_CASE("a pack that is not aligned is an error", "[cuda]") {
  DeviceStream s;
  const Tensor x = s.floats(132), y = s.floats(132);
  CHECK_NOTHROW(run(copy_packs, {.threads = 32}, s.stream, at(x), at(y)));
  CHECK_THROWS_WITH(run(copy_packs, {.threads = 32}, s.stream, at(x) + 1, at(y)),
                    Catch::Contains("a pack of 16 bytes is not aligned"));
}

// ---- streams and memory

__global__ void add_one(float* y) { y[threadIdx.x] += 1; }

TEST_CASE("without a wait the other stream has not begun", "[cuda]") {
  DeviceStream first, second;
  const Tensor y = first.floats(32), copy = second.floats(32);
  launch("add_one", add_one, {.threads = 32}, first.stream, at(y));
  second.stream.copy(y.address(), copy.address(), copy.bytes());
  CHECK(values_of(second.stream, copy)[0] == 0);
  second.stream.wait(first.stream.mark());
  second.stream.copy(y.address(), copy.address(), copy.bytes());
  CHECK(values_of(second.stream, copy)[0] == 1);
}

TEST_CASE("an event is ready when what came before it is done, and not before", "[cuda]") {
  DeviceStream s;
  const Tensor y = s.floats(32);
  const Event before = s.stream.mark();
  launch("add_one", add_one, {.threads = 32}, s.stream, at(y));
  const Event after = s.stream.mark();
  CHECK_FALSE(before.ready());
  before.wait_on_host();
  CHECK(before.ready());
  CHECK_FALSE(after.ready());
  after.wait_on_host();
  CHECK(after.ready());
  CHECK(Event().ready());
}

TEST_CASE("pageable memory is read at once, pinned memory when the queue comes to it", "[cuda]") {
  DeviceStream s;
  const Tensor y = s.floats(1);
  float pageable = 1;
  s.stream.copy(&pageable, y.address(), sizeof(float));
  pageable = 2;
  CHECK(values_of(s.stream, y)[0] == 1);
  const auto pinned_memory = make_pinned_memory(4096);
  auto* const pinned =
      static_cast<float*>(pinned_memory->allocate(sizeof(float), MemoryTag::kScratch));
  *pinned = 3;
  s.stream.copy(pinned, y.address(), sizeof(float));
  *pinned = 4;  // too soon
  CHECK(values_of(s.stream, y)[0] == 4);
  pinned_memory->deallocate(pinned, sizeof(float), MemoryTag::kScratch);
}

TEST_CASE("a ring of pinned memory waits for nothing before all its places are taken", "[cuda]") {
  DeviceStream s;
  const Tensor y = s.floats(3);
  s.stream.synchronize();
  const auto pinned = make_pinned_memory(4096);
  StagingRing ring(sizeof(float), 3, pinned.get());
  const auto give = [&](float value, int place) {
    ring.copy(&value, at(y) + place, sizeof value, s.stream);
    return s.stream.mark();
  };
  const Event first = give(1, 0), second = give(2, 1);
  give(3, 2);
  CHECK_FALSE(first.ready());
  give(4, 0);
  CHECK(first.ready());
  CHECK_FALSE(second.ready());
  CHECK(values_of(s.stream, y) == std::vector<float>{4, 2, 3});
}

TEST_CASE("the host that touches the device's memory faults", "[cuda]") {
  DeviceStream s;
  const Tensor y = s.floats(1);
  CHECK_THROWS_WITH(y.data<float>(), Catch::Contains("the host cannot read memory of cuda:0"));
  s.stream.synchronize();
  const int status = fate_of([&] { *static_cast<volatile float*>(y.address()) = 1; });
  CHECK_FALSE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  CHECK(fate_of([] {}) == 0);
}

TEST_CASE("a block has at most 1024 threads, and a device's memory an end", "[cuda]") {
  DeviceStream s;
  const Tensor y = s.floats(1);
  CHECK_THROWS_WITH(run(add_one, {.threads = 2048}, s.stream, at(y)),
                    Catch::Contains("a block of 2048 threads"));
  CHECK_THROWS_AS(Tensor::empty({int64_t{1} << 30}, DType::kF32, s.stream), OutOfMemory);
}

}  // namespace
}  // namespace ds::cuda
