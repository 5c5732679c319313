// The naive fp64 reference that kernels are tested against, and what their tests share: a stream
// with a pool, tensors of seeded random values, and comparison at the precision of a dtype.
// Readable before fast: plain loops over flat vectors, one function per formula.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/device/stream.h"
#include "core/device/tensor.h"
#include "kernels/attention/attention.h"
#include "kernels/elementwise/activation.h"
#include "kernels/rotary/rope.h"
#include "tests/support/test_stream.h"

namespace ds::reference {

using Values = std::vector<double>;

using testing::bytes_of;
using testing::TestStream;

Tensor tensor_of(const Values& values, const Shape& shape, DType dtype, Stream& stream);
Tensor random_tensor(const Shape& shape, DType dtype, uint64_t seed, Stream& stream,
                     double scale = 1.0);  // normal, mean 0
Tensor tokens_of(const std::vector<int32_t>& tokens, Stream& stream);
// The order of sort_tokens() (kernels/embedding/embedding.h).
Tensor order_of(const std::vector<int32_t>& tokens, Stream& stream);
Values values_of(const Tensor& tensor);
bool same_bits(const Tensor& a, const Tensor& b);

// A number, which is noted with the tolerance that it is compared with (margins/margins.h).
struct Deviation {
  double value = 0;
  operator double() const { return value; }
};
bool operator<(const Deviation& error, double tolerance);
// Largest |actual - expected|, over the largest |expected| (at least 1e-30).
Deviation error_of(const Tensor& actual, const Values& expected);
double tolerance_of(DType dtype);          // of a result rounded to dtype after fp32 accumulation
const std::vector<DType>& float_dtypes();  // fp32, bf16, fp16

// Formulas ---------------------------------------------------------------------------------------
// [m, k] x [k, n], each possibly stored transposed.
Values matmul(const Values& a, const Values& b, int64_t m, int64_t n, int64_t k, bool transpose_a,
              bool transpose_b);
double activation(kernels::Activation kind, double x);
Values layer_norm(const Values& x, const Values& gamma, const Values& beta, double eps);
Values rms_norm(const Values& x, const Values& gamma, double eps);
Values softmax(const Values& x, int64_t columns);
// qkv packed as in kernels/attention/attention.h; y, and the log-sum-exp when asked for. keep(b, h,
// t, j), if given, multiplies the probabilities.
using Keep = std::function<double(int64_t b, int64_t h, int64_t t, int64_t j)>;
Values attention(const kernels::AttentionSpec& spec, const Values& qkv,
                 Values* log_sum_exp = nullptr, const Keep& keep = {});
// The gradient of qkv.
Values attention_gradient(const kernels::AttentionSpec& spec, const Values& qkv, const Values& dy);
// Frequencies theta^(-2j / width).
kernels::RotaryTable rotary(double theta, int64_t width);
Values cross_entropy(const Values& x, const Values& weight, const std::vector<int32_t>& targets,
                     int64_t width);
double dot(const Values& a, const Values& b);

}  // namespace ds::reference
