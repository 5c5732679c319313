// Kernels with a fault each, which only a sanitizer finds: emulated_faults NAME commits one. The
// lines that the sanitizer has to name end in a comment with the fault's name (emulated_faults.py).
#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "core/device/tensor.h"
#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/pack.cuh"
#include "tests/support/device_stream.h"

namespace ds::cuda {
namespace {

constexpr LaunchShape kBlock = {.threads = 64};
constexpr LaunchShape kTwoBlocks = {.blocks = 2, .threads = 64};

__global__ void past_global_kernel(int64_t numel, float* y) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i <= numel) y[i] = 1;  // past_global
}
void past_global(DeviceStream& s) {
  const Tensor y = s.floats(100);
  run(past_global_kernel, kTwoBlocks, s.stream, int64_t{100}, at(y));
}

__global__ void past_shared_kernel(float* y) {
  DS_SHARED(float, shared, 64);
  shared[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = shared[threadIdx.x + 1];  // past_shared
}
void past_shared(DeviceStream& s) {
  const Tensor y = s.floats(64);
  run(past_shared_kernel, kBlock, s.stream, at(y));
}

__global__ void past_shared_of_launch_kernel(float* y) {
  DS_SHARED_OF_LAUNCH(float, shared);
  shared[threadIdx.x + 1] = 1;  // past_shared_of_launch
  y[threadIdx.x] = 1;
}
void past_shared_of_launch(DeviceStream& s) {
  const Tensor y = s.floats(64);
  LaunchShape shape = kBlock;
  shape.shared_bytes = 64 * sizeof(float);
  run(past_shared_of_launch_kernel, shape, s.stream, at(y));
}

__global__ void add_kernel(const float* x, float* y) {
  y[threadIdx.x] += x[threadIdx.x];  // given_back
}
void given_back(DeviceStream& s) {
  const Tensor y = s.floats(64);
  const float* const x = at(s.floats(1000));
  s.stream.synchronize();
  const Tensor later = s.floats(64);  // in its place, which is larger
  run(add_kernel, kBlock, s.stream, x + 500, at(y));
}

__global__ void misaligned_kernel(const float* x, float* y) {
  const auto pack = *reinterpret_cast<const Pack<float, 4>*>(x + 1);  // misaligned
  y[threadIdx.x] = pack.values[0];
}
void misaligned(DeviceStream& s) {
  const Tensor x = s.floats(64), y = s.floats(64);
  run(misaligned_kernel, kBlock, s.stream, at(x), at(y));
}

void host_read(DeviceStream& s) {
  const Tensor y = s.floats(64);
  s.stream.synchronize();
  std::printf("%f\n", static_cast<double>(*at(y)));  // host_read
}

__global__ void missing_barrier_kernel(float* y) {
  DS_SHARED(float, shared, 64);
  shared[threadIdx.x] = 1;                    // missing_barrier
  y[threadIdx.x] = shared[63 - threadIdx.x];  // missing_barrier
}
void missing_barrier(DeviceStream& s) {
  const Tensor y = s.floats(64);
  run(missing_barrier_kernel, kBlock, s.stream, at(y));
}

// In one warp, in which all lanes were at the shuffle when it is over.
__global__ void shuffle_for_barrier_kernel(float* y) {
  DS_SHARED(float, shared, 32);
  shared[threadIdx.x] = 1;  // shuffle_for_barrier
  y[threadIdx.x] = warp_reduce(1.0F, Plus{});
  y[threadIdx.x] += shared[31 - threadIdx.x];  // shuffle_for_barrier
}
void shuffle_for_barrier(DeviceStream& s) {
  const Tensor y = s.floats(32);
  run(shuffle_for_barrier_kernel, {.threads = 32}, s.stream, at(y));
}

// Who waits for copies waits for those of its own thread.
__global__ void copy_for_barrier_kernel(const float* x, float* y) {
  DS_SHARED(float, shared, 256);
  copy_async(shared + 4 * threadIdx.x, x + 4 * threadIdx.x, true);  // copy_for_barrier
  end_copy_group();
  wait_for_copies<0>();
  y[threadIdx.x] = shared[255 - 4 * threadIdx.x];  // copy_for_barrier
}
void copy_for_barrier(DeviceStream& s) {
  const Tensor x = s.floats(256), y = s.floats(64);
  run(copy_for_barrier_kernel, kBlock, s.stream, at(x), at(y));
}

__global__ void two_blocks_kernel(float* y) {
  y[threadIdx.x] = 1;  // two_blocks
}
void two_blocks(DeviceStream& s) {
  const Tensor y = s.floats(64);
  run(two_blocks_kernel, kTwoBlocks, s.stream, at(y));
}

__global__ void plain_for_atomic_kernel(float* y) {
  if (threadIdx.x == 0) *y += 1;  // plain_for_atomic
  if (threadIdx.x == 1) atomicAdd(y, 1.0F);
}
void plain_for_atomic(DeviceStream& s) {
  const Tensor y = s.floats(1);
  run(plain_for_atomic_kernel, kBlock, s.stream, at(y));
}

// All of it done as it should be; one block after the other uses what others have used.
__global__ void none_kernel(const float* x, float* y, uint32_t* most) {
  DS_SHARED(float, copied, 256);
  DS_SHARED(float, of_warp, 64);
  copy_async(copied + 4 * threadIdx.x, x + 4 * threadIdx.x, true);
  end_copy_group();
  wait_for_copies<0>();
  __syncthreads();
  of_warp[threadIdx.x] = copied[255 - 4 * threadIdx.x];
  __syncwarp();
  const float sum = block_sum(of_warp[threadIdx.x ^ 31U]);
  y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  atomicAdd(most, 1U);
  atomicMax(most + 1, threadIdx.x);
  atomicOr(most + 2, blockIdx.x);
}
void none(DeviceStream& s) {
  const Tensor x = s.floats(256), y = s.floats(int64_t{64} * 64), most = s.floats(3);
  for (int i = 0; i < 3; ++i) {
    run(none_kernel, {.blocks = 64, .threads = 64}, s.stream, at(x), at(y),
        static_cast<uint32_t*>(most.address()));
  }
}

const std::map<std::string, void (*)(DeviceStream&)> kFaults = {
    {"none", none},
    {"past_global", past_global},
    {"past_shared", past_shared},
    {"past_shared_of_launch", past_shared_of_launch},
    {"given_back", given_back},
    {"misaligned", misaligned},
    {"host_read", host_read},
    {"missing_barrier", missing_barrier},
    {"shuffle_for_barrier", shuffle_for_barrier},
    {"copy_for_barrier", copy_for_barrier},
    {"two_blocks", two_blocks},
    {"plain_for_atomic", plain_for_atomic},
};

}  // namespace
}  // namespace ds::cuda

int main(int argc, char** argv) {
  const auto fault = ds::cuda::kFaults.find(argc == 2 ? argv[1] : "");
  if (fault == ds::cuda::kFaults.end()) {
    std::fprintf(stderr, "usage: emulated_faults NAME\n");
    return 64;
  }
  ds::cuda::DeviceStream stream;
  fault->second(stream);
  return 0;
}
