// What tolerances of fp32 attention have to leave room for: its products are three of TF32 each,
// whose sums a tensor core truncates. The emulated device can make sums so, too.
#include <cmath>

#include "kernels/attention/attention.h"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/on_host_mma.h"
#include "tests/support/catch.h"
#include "tests/support/device_stream.h"
#include "tests/support/gradcheck.h"
#include "tests/support/reference.h"
#include "tests/support/test_stream.h"

namespace ds::kernels {
namespace {

using namespace reference;
using cuda::on_host::TruncatedSums;

constexpr double kLseTolerance = 1e-5;  // as attention_test.cpp has it

struct Computed {
  Tensor qkv, y, log_sum_exp, dqkv;
};

Computed compute(const AttentionShape& shape, Stream& stream) {
  const int64_t rows = shape.batch * shape.length, width = shape.heads * shape.head_dim;
  Computed c{
      .qkv = random_tensor({rows, shape.packed()}, DType::kF32, 1, stream),
      .y = Tensor::empty({rows, width}, DType::kF32, stream),
      .log_sum_exp = Tensor::empty({shape.batch, shape.heads, shape.length}, DType::kF32, stream),
      .dqkv = Tensor::empty({rows, shape.packed()}, DType::kF32, stream)};
  const Tensor dy = random_tensor({rows, width}, DType::kF32, 2, stream);
  attention_forward(stream, {shape}, c.qkv, c.y, c.log_sum_exp, {});
  attention_backward(stream, {shape}, c.qkv, c.y, c.log_sum_exp, dy, c.dqkv, {});
  return c;
}

constexpr int kStride = 24;  // 16-byte rows

// 15 products of 2^-25, and one of `large`.
__global__ void many_small(float large, float* d) {
  DS_SHARED(BF16, a, cuda::kTileRows * kStride);
  DS_SHARED(BF16, b, 2 * cuda::kTileColumns * kStride);
  for (int i = cuda::lane_of_warp(); i < cuda::kTileRows * kStride; i += cuda::kWarp) {
    a[i] = BF16(i % kStride == 15 ? large : 0x1p-12F);
    b[i] = BF16(i % kStride == 15 ? 1.0F : 0x1p-13F);
  }
  __syncwarp();
  using Mma = cuda::Mma<BF16>;
  cuda::Sums sums{};
  Mma::multiply(Mma::load_a(a, kStride), Mma::load_b(b, kStride)[0], sums);
  if (cuda::lane_of_warp() == 0) *d = sums[0];
}

float sum_of_many_small(float large) {
  cuda::DeviceStream s;
  const Tensor d = s.floats(1);
  cuda::run(many_small, {.threads = cuda::kWarp}, s.stream, large, cuda::at(d));
  float value = 0;
  s.stream.copy(d.address(), &value, sizeof(value));
  return value;
}

}  // namespace

TEST_CASE("sums lose what lies below the largest addend where they are truncated", "[cuda]") {
  CHECK(sum_of_many_small(1) == 1 + 4 * 0x1p-23F);  // of 15 / 4, rounded
  CHECK(sum_of_many_small(0) == 15 * 0x1p-25F);
  {
    const TruncatedSums truncated;
    CHECK(sum_of_many_small(1) == 1);
    CHECK(sum_of_many_small(0) == 15 * 0x1p-25F);
    CHECK(sum_of_many_small(-0x1p-1F) == -0x1p-1F + 15 * 0x1p-25F);
    CHECK(std::isinf(sum_of_many_small(INFINITY)));
  }
  CHECK(sum_of_many_small(1) == 1 + 4 * 0x1p-23F);
}

TEST_CASE("attention in fp32 keeps to its tolerances where sums are truncated", "[cuda]") {
  const std::vector<AttentionShape> shapes{{1, 1, 1, 1, 4},    {2, 5, 3, 3, 8},
                                           {1, 70, 2, 1, 64},  {1, 130, 4, 2, 20},
                                           {1, 64, 2, 2, 128}, {1, 200, 1, 1, 64}};
  TestStream s;
  for (const AttentionShape& shape : shapes) {
    CAPTURE(shape.length, shape.heads, shape.head_dim);
    const Computed rounded = compute(shape, s.stream);
    const TruncatedSums sums;
    const Computed truncated = compute(shape, s.stream);
    Values log_sum_exp;
    const Values y = reference::attention({shape}, values_of(truncated.qkv), &log_sum_exp);
    CHECK(error_of(truncated.y, y) < tolerance_of(DType::kF32));
    CHECK(error_of(truncated.log_sum_exp, log_sum_exp) < kLseTolerance);
    CHECK(error_of(truncated.dqkv, values_of(rounded.dqkv)) < 3 * tolerance_of(DType::kF32));
  }
}

}  // namespace ds::kernels
