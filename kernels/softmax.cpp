// Softmax, and its cross entropy fused with the output projection; see softmax.h. Per block of
// rows: logits by one product, softmax and gradient in place on each row, then the two products of
// the backward. Softmax statistics and losses are fp32.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax.cpp"
#include "kernels/softmax.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>

#include "core/dispatch.h"
#include "core/index.h"
#include "kernels/argument.h"
#include "kernels/elementwise.h"
#include "kernels/simd.h"
#include "kernels/simd.inl"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

float row_max(const float* x, int64_t n) {
  const Lanes d;
  auto best = hn::Set(d, x[0]);
  int64_t i = 0;
  for (; i + lane_count() <= n; i += lane_count()) best = hn::Max(best, load(d, x + i));
  float result = max_lanes(d, best);
  for (; i < n; ++i) result = std::max(result, x[i]);
  return result;
}

// Sum of e^((x - shift) factor).
float row_exp_sum(const float* x, float shift, float factor, int64_t n) {
  const Lanes d;
  const auto offset = hn::Set(d, shift);
  const auto scale = hn::Set(d, factor);
  auto total = hn::Zero(d);
  int64_t i = 0;
  for (; i + lane_count() <= n; i += lane_count()) {
    total = hn::Add(total, exp(d, hn::Mul(hn::Sub(load(d, x + i), offset), scale)));
  }
  if (i < n) {
    const int64_t count = n - i;
    const auto e = exp(d, hn::Mul(hn::Sub(load_n(d, x + i, count), offset), scale));
    total = hn::Add(total, hn::IfThenElseZero(hn::FirstN(d, to_size(count)), e));
  }
  return sum_lanes(d, total);
}

// y = e^((x - shift) factor) scale; y may lie over x from its first byte on.
template <class T>
void row_exp(const float* x, float shift, float factor, float scale, T* y, int64_t n) {
  const Lanes d;
  const auto offset = hn::Set(d, shift);
  const auto slope = hn::Set(d, factor);
  const auto gain = hn::Set(d, scale);
  for (int64_t i = 0; i < n; i += lane_count()) {
    const int64_t count = at_most_lanes(n - i);
    const auto e = exp(d, hn::Mul(hn::Sub(get(d, x + i, count), offset), slope));
    put(hn::Mul(e, gain), d, y + i, count);
  }
}

}  // namespace

// The loss of a row of logits.
float cross_entropy_row(const float* logits, int32_t target, int64_t n) {
  const float shift = row_max(logits, n);
  return std::log(row_exp_sum(logits, shift, 1.0F, n)) + shift - logits[target];
}

// The loss, and over the logits their gradient times `scale`, in `dtype`.
float cross_entropy_grad_row(float* logits, int32_t target, float scale, DType dtype, int64_t n) {
  const float shift = row_max(logits, n);
  const float total = row_exp_sum(logits, shift, 1.0F, n);
  const float loss = std::log(total) + shift - logits[target];
  const float at_target = std::exp(logits[target] - shift) / total;
  on_float(dtype, [&]<class T>() {
    T* grad = reinterpret_cast<T*>(logits);
    row_exp(logits, shift, 1.0F, scale / total, grad, n);
    grad[target] = static_cast<T>((at_target - 1.0F) * scale);
  });
  return loss;
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels {
namespace {

DS_SIMD_EXPORT(cross_entropy_row);
DS_SIMD_EXPORT(cross_entropy_grad_row);

constexpr int64_t kMostRows = 1024;
constexpr std::string_view kOp = "linear_cross_entropy";

struct Extents {
  int64_t rows, width, vocabulary;
};

Extents check(const Stream& stream, const LinearCrossEntropyArgs& args) {
  DS_CHECK(args.weight.defined() && args.weight.shape().rank() == 2,
           "{}: weight is not a matrix [V, C]", kOp);
  const int64_t vocabulary = args.weight.shape()[0];
  const int64_t width = args.weight.shape()[1];
  const int64_t rows = detail::rows_of(kOp, "x", args.x, width);
  detail::require_numel(kOp, "x", stream, args.x, rows * width);
  detail::require_float(kOp, "x", args.x);
  detail::require_numel(kOp, "weight", stream, args.weight, vocabulary * width);
  detail::require_dtype(kOp, "weight", args.weight, args.x.dtype());
  detail::require_numel(kOp, "targets", stream, args.targets, rows);
  detail::require_dtype(kOp, "targets", args.targets, DType::kI32);
  detail::require_numel(kOp, "losses", stream, args.losses, rows);
  detail::require_dtype(kOp, "losses", args.losses, DType::kF32);
  DS_CHECK(args.dx.defined() == args.dweight.defined(),
           "{}: dx and dweight must both be given, or neither (evaluation)", kOp);
  if (args.dx.defined()) {
    detail::require_numel(kOp, "dx", stream, args.dx, rows * width);
    detail::require_dtype(kOp, "dx", args.dx, args.x.dtype());
    detail::require_numel(kOp, "dweight", stream, args.dweight, vocabulary * width);
    DS_CHECK(args.dweight.dtype() == args.x.dtype() || args.dweight.dtype() == DType::kF32,
             "{}: dweight is {}, expected fp32 or {}", kOp, name_of(args.dweight.dtype()),
             name_of(args.x.dtype()));
  }
  return {rows, width, vocabulary};
}

void check_targets(const int32_t* targets, int64_t rows, int64_t vocabulary) {
  for (int64_t row = 0; row < rows; ++row) {
    if (targets[row] >= vocabulary) {
      throw DataError(fmt::format("{}: row {} has target {}, expected < {} (the vocabulary)", kOp,
                                  row, targets[row], vocabulary));
    }
  }
}

// Losses of a block of rows, and their gradients over the logits when `grads` is set: row i of the
// gradient matrix starts where row i of the logits does.
enum class Gradients : uint8_t { kNo, kYes };

void block_losses(Stream& stream, const LinearCrossEntropyArgs& args, Tensor& logits, int64_t first,
                  int64_t count, Gradients gradients) {
  const int64_t vocabulary = args.weight.shape()[0];
  const auto* targets = args.targets.data<int32_t>() + first;
  float* losses = args.losses.data<float>() + first;
  stream.pool().parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* values = logits.data<float>() + row * vocabulary;
      if (targets[row] < 0) {
        losses[row] = 0.0F;
        if (gradients == Gradients::kYes) std::fill(values, values + vocabulary, 0.0F);
      } else if (gradients == Gradients::kYes) {
        losses[row] = DS_SIMD(cross_entropy_grad_row)(values, targets[row], args.grad_scale,
                                                      args.x.dtype(), vocabulary);
      } else {
        losses[row] = DS_SIMD(cross_entropy_row)(values, targets[row], vocabulary);
      }
    }
  });
}

MatrixView rows_of_matrix(const Tensor& tensor, int64_t first, int64_t count, int64_t width) {
  return {tensor, count, width, width, first * width};
}

// The gradients of a block, in the dtype of x, over the fp32 logits.
MatrixView gradient_view(const Tensor& logits, DType dtype, int64_t count, int64_t vocabulary) {
  const int64_t stride = vocabulary * static_cast<int64_t>(sizeof(float) / size_of(dtype));
  return {logits.reinterpret(dtype), count, vocabulary, stride, 0};
}

void run_block(Stream& stream, const LinearCrossEntropyArgs& args, Tensor& logits, int64_t first,
               int64_t count) {
  const int64_t vocabulary = args.weight.shape()[0];
  const int64_t width = args.weight.shape()[1];
  const MatrixView x = rows_of_matrix(args.x, first, count, width);
  const MatrixView weight = matrix(args.weight, vocabulary, width);
  matmul(stream, {.a = x,
                  .b = weight,
                  .c = {logits, count, vocabulary, vocabulary, 0},
                  .transpose_b = Transpose::kYes});
  const Gradients gradients = args.dx.defined() ? Gradients::kYes : Gradients::kNo;
  // The products report themselves; this is the softmax alone.
  stream.report(kOp, {.flops = 20 * static_cast<double>(count * vocabulary),
                      .bytes = 12 * static_cast<double>(count * vocabulary)});
  on_device(stream, [&](Cpu) { block_losses(stream, args, logits, first, count, gradients); });
  if (gradients == Gradients::kNo) return;
  const MatrixView dlogits = gradient_view(logits, args.x.dtype(), count, vocabulary);
  matmul(stream, {.a = dlogits, .b = weight, .c = rows_of_matrix(args.dx, first, count, width)});
  matmul(stream, {.a = dlogits,
                  .b = x,
                  .c = matrix(args.dweight, vocabulary, width),
                  .transpose_a = Transpose::kYes,
                  .write = first == 0 ? args.write_dweight : Write::kAccumulate});
}

}  // namespace

int64_t loss_block_bytes(Device device) {
  if (device.kind == Device::Kind::kCuda) {
    throw Unsupported(fmt::format("{}: no block size is known for {}", kOp, device.to_string()));
  }
  return int64_t{64} << 20;
}

int64_t linear_cross_entropy_rows(Device device, int64_t vocabulary) {
  const int64_t fit = loss_block_bytes(device) / (vocabulary * static_cast<int64_t>(sizeof(float)));
  return std::clamp<int64_t>(fit / 32 * 32, 32, kMostRows);
}

void linear_cross_entropy(Stream& stream, const LinearCrossEntropyArgs& args) {
  const auto [rows, width, vocabulary] = check(stream, args);
  on_device(stream, [&](Cpu) { check_targets(args.targets.data<int32_t>(), rows, vocabulary); });
  if (rows == 0 && args.dweight.defined() && args.write_dweight == Write::kOverwrite) {
    Tensor dweight = args.dweight;
    fill(stream, dweight, 0.0F);  // no block of rows will write it
  }
  const int64_t block = std::min(rows, linear_cross_entropy_rows(stream.device(), vocabulary));
  Tensor logits = Tensor::empty({block, vocabulary}, DType::kF32, stream, MemoryTag::kScratch);
  for (int64_t first = 0; first < rows; first += block) {
    run_block(stream, args, logits, first, std::min(block, rows - first));
  }
}

}  // namespace ds::kernels
#endif  // HWY_ONCE
