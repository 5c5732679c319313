// Products by a warp, and copies that go on by themselves: against plain loops, and the faults that
// the emulated device has to find in their use.
#include <cmath>

#include "core/device/tensor.h"
#include "core/fibre/sanitizers.h"
#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/mma.cuh"
#include "tests/support/catch.h"
#include "tests/support/device_stream.h"

namespace ds::cuda {
namespace {

// Operands with few bits, of which no product or sum is rounded by any of the types.
__device__ float a_of(int row, int k) { return static_cast<float>((row * 5 + k * 3) % 7 - 3); }
__device__ float b_of(int k, int column) { return static_cast<float>((k * 2 + column) % 5 - 2); }

constexpr int kColumns = 2 * kTileColumns;
constexpr int kStride = 24;  // 16-byte rows for all types

// d[16, 16] = a * b, with b as rows or as columns; then that times b again, by way of sums.
template <class T, bool kRows, bool kFromSums>
__global__ void product(float* d) {
  constexpr int kDepth = Mma<T>::kDepth;
  DS_SHARED(T, a, kTileRows * kStride);
  DS_SHARED(T, b, kColumns * kStride);
  const int lane = lane_of_warp();
  for (int i = lane; i < kTileRows * kDepth; i += kWarp) {
    a[i / kDepth * kStride + i % kDepth] = T(a_of(i / kDepth, i % kDepth));
  }
  for (int i = lane; i < kDepth * kColumns; i += kWarp) {
    const int k = i / kColumns;
    const int n = i % kColumns;
    b[kRows ? k * kStride + n : n * kStride + k] = T(b_of(k, n));
  }
  __syncthreads();
  const auto right = kRows ? Mma<T>::load_b_rows(b, kStride) : Mma<T>::load_b(b, kStride);
  Sums sums[2] = {};
  if constexpr (kFromSums) {
    Sums left[2];
    for (int n = 0; n < 2; ++n) {
      for (int i = 0; i < 4; ++i) {
        left[n][static_cast<size_t>(i)] =
            a_of(lane / 4 + i / 2 * 8, n * kTileColumns + lane % 4 * 2 + i % 2);
      }
    }
    for (size_t n = 0; n < 2; ++n) Mma<T>::multiply(Mma<T>::from_sums(left), right[n], sums[n]);
  } else {
    for (size_t n = 0; n < 2; ++n) {
      Mma<T>::multiply(Mma<T>::load_a(a, kStride), right[n], sums[n]);
    }
  }
  for (int n = 0; n < 2; ++n) {
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8;
      d[row * kColumns + n * kTileColumns + lane % 4 * 2 + i % 2] = sums[n][static_cast<size_t>(i)];
    }
  }
}

template <class T, bool kRows, bool kFromSums>
void check_product() {
  DeviceStream s;
  const Tensor d = Tensor::zeros({kTileRows, kColumns}, DType::kF32, s.stream);
  run(product<T, kRows, kFromSums>, {.threads = kWarp}, s.stream, at(d));
  std::vector<float> values(static_cast<size_t>(d.numel()));
  s.stream.copy(d.address(), values.data(), d.bytes());
  for (int row = 0; row < kTileRows; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      float expected = 0;
      for (int k = 0; k < Mma<T>::kDepth; ++k) expected += a_of(row, k) * b_of(k, column);
      INFO("row " << row << ", column " << column);
      REQUIRE(values[static_cast<size_t>(row * kColumns + column)] == expected);
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("a warp multiplies what lies in rows, in columns, and in its sums", "[cuda]",
                   float, BF16, F16) {
  check_product<TestType, false, false>();
  check_product<TestType, true, false>();
  check_product<TestType, false, true>();
  check_product<TestType, true, true>();
}

namespace {

// One product of numbers with all 24 bits.
__global__ void precise(float x, float y, float* d) {
  DS_SHARED(float, a, kTileRows* kStride);
  DS_SHARED(float, b, kColumns* kStride);
  for (int i = lane_of_warp(); i < kTileRows * kStride; i += kWarp) a[i] = b[i] = 0;
  __syncwarp();
  if (lane_of_warp() == 0) a[0] = x, b[0] = y;
  __syncwarp();
  Sums sums{};
  FloatMma::multiply(FloatMma::load_a(a, kStride), FloatMma::load_b(b, kStride)[0], sums);
  if (lane_of_warp() == 0) *d = sums[0];
}

}  // namespace

TEST_CASE("a product of fp32 keeps 22 bits of its operands, not the 11 of tf32", "[cuda]") {
  DeviceStream s;
  const Tensor d = Tensor::zeros({1}, DType::kF32, s.stream);
  const float x = 1.2345678F;
  const float y = -3.1415927F;
  run(precise, {.threads = kWarp}, s.stream, x, y, at(d));
  float value = 0;
  s.stream.copy(d.address(), &value, sizeof(value));
  CHECK(std::abs(value / (x * y) - 1) < 0x1p-21F);
}

namespace {

__global__ void half_a_warp(float* d) {
  DS_SHARED(BF16, tile, kTileRows * kStride);
  if (lane_of_warp() < 16) d[0] = static_cast<float>(HalfMma<BF16>::load_a(tile, kStride)[0]);
}
__global__ void two_instructions(float* d) {
  DS_SHARED(BF16, tile, kTileRows * kStride);
  const auto words = lane_of_warp() < 16 ? load_matrices<false>(tile) : load_matrices<true>(tile);
  d[0] = static_cast<float>(words[0]);
}
__global__ void from_global(const float* from, float* d) {
  d[0] = static_cast<float>(load_matrices<false>(from)[0]);
}
__global__ void crooked_rows(float* d) {
  DS_SHARED(BF16, tile, kTileRows * kStride);
  d[0] = static_cast<float>(load_matrices<false>(tile + 1)[0]);
}

}  // namespace

TEST_CASE("a warp's instruction needs all lanes, and rows of shared memory that are aligned",
          "[cuda]") {
  DeviceStream s;
  const Tensor d = Tensor::zeros({4}, DType::kF32, s.stream);
  const LaunchShape warp{.threads = kWarp};
  CHECK_THROWS_WITH(run(half_a_warp, warp, s.stream, at(d)),
                    Catch::Contains("reached by 16 of 32 threads"));
  CHECK_THROWS_WITH(run(two_instructions, warp, s.stream, at(d)),
                    Catch::Contains("two different instructions"));
  CHECK_THROWS_WITH(run(from_global, warp, s.stream, at(d), at(d)),
                    Catch::Contains("not in shared memory"));
  CHECK_THROWS_WITH(run(crooked_rows, warp, s.stream, at(d)), Catch::Contains("not aligned"));
}

namespace {

enum class Waits { kForNone, kForItsOwn, kForNoneAndEnds };

// Every thread copies 16 bytes, and reads one number of its neighbour's.
__global__ void copied(Waits waits, bool barrier, int there, const float* x, float* y) {
  DS_SHARED(float, tile, 4 * kWarp);
  const int i = static_cast<int>(threadIdx.x);
  copy_async(tile + 4 * i, x + 4 * i, i < there);
  end_copy_group();
  if (waits == Waits::kForItsOwn) wait_for_copies<0>();
  if (barrier) __syncthreads();
  y[i] = tile[4 * ((i + 1) % kWarp)];
  if (waits == Waits::kForNone) wait_for_copies<0>();
}

}  // namespace

TEST_CASE("copies that go on by themselves are there when they were waited for, and no sooner",
          "[cuda]") {
  DeviceStream s;
  std::vector<float> numbers(4 * kWarp);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  const Tensor x = Tensor::empty({4 * kWarp}, DType::kF32, s.stream);
  const Tensor y = Tensor::zeros({kWarp}, DType::kF32, s.stream);
  s.stream.copy(numbers.data(), x.address(), x.bytes());
  const LaunchShape warp{.threads = kWarp};
  const auto result = [&](Waits waits, bool barrier, int there) {
    run(copied, warp, s.stream, waits, barrier, there, at(x), at(y));
    std::vector<float> values(kWarp);
    s.stream.copy(y.address(), values.data(), y.bytes());
    return values;
  };
  const std::vector<float> whole = result(Waits::kForItsOwn, true, kWarp);
  CHECK(whole[0] == 4);
  CHECK(whole[30] == 124);
  CHECK(whole[31] == 0);
  CHECK(result(Waits::kForItsOwn, true, 5)[3] == 16);
  CHECK(result(Waits::kForItsOwn, true, 5)[4] == 0);
  if (!sanitizers::kSeesRaces) {  // which has an order of its own, and emulated_faults.cpp
    CHECK_THROWS_WITH(result(Waits::kForNone, true, kWarp),
                      Catch::Contains("order of its threads"));
    CHECK_THROWS_WITH(result(Waits::kForItsOwn, false, kWarp),
                      Catch::Contains("order of its threads"));
  }
  CHECK_THROWS_WITH(result(Waits::kForNoneAndEnds, true, kWarp),
                    Catch::Contains("copies that it did not wait for"));
}

}  // namespace ds::cuda
