// Softmax and its cross entropy on the CPU: row by row, statistics first, then gradients in place.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax/softmax_cpu.cpp"
#include "kernels/softmax/softmax_cpu.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/device/dispatch.h"
#include "kernels/cpu/simd.h"
#include "kernels/front/loss_scale.h"
#include "kernels/front/row_weight.h"
#include "kernels/softmax/softmax_rows.inl"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

// y = e^((x - shift) factor) scale, and, with a cap c, times 1 - (x / c)^2; y, of elements no
// wider, may lie over x from its first byte on.
template <class T, class Y>
void row_exp(const T* x, float shift, float factor, float scale, float c, Y* y, int64_t n) {
  const Lanes d;
  const auto offset = hn::Set(d, shift);
  const auto slope = hn::Set(d, factor);
  const auto gain = hn::Set(d, scale);
  const auto inverse = hn::Set(d, c > 0 ? 1.0F / c : 0.0F);
  for (int64_t i = 0; i < n; i += lane_count()) {
    const int64_t count = at_most_lanes(n - i);
    const auto v = get(d, x + i, count);
    auto e = hn::Mul(exp(d, hn::Mul(hn::Sub(v, offset), slope)), gain);
    if (c > 0) e = hn::Mul(e, slope_of_cap(d, v, inverse));
    put(e, d, y + i, count);
  }
}

// The loss of a row of logits.
template <class T>
float row_loss(const T* logits, int32_t target, int64_t n) {
  const float shift = row_max(logits, n);
  return std::log(row_exp_sum(logits, shift, 1.0F, n)) + shift - static_cast<float>(logits[target]);
}

// The loss, and over the logits their gradient times `scale`.
template <class G, class T>
float row_loss_and_gradient(T* logits, int32_t target, float scale, float c, int64_t n) {
  const float shift = row_max(logits, n);
  const float total = row_exp_sum(logits, shift, 1.0F, n);
  const auto logit = static_cast<float>(logits[target]);
  const float loss = std::log(total) + shift - logit;
  const float at_target = std::exp(logit - shift) / total;
  G* const grad = reinterpret_cast<G*>(logits);
  row_exp(logits, shift, 1.0F, scale / total, c, grad, n);
  grad[target] = static_cast<G>((at_target - 1.0F) * scale * slope_of_cap(logit, c));
  return loss;
}

}  // namespace

void loss_rows(const SoftmaxCrossEntropyArgs& args, int64_t begin, int64_t end) {
  const int64_t columns = args.logits.columns;
  const auto* targets = args.targets.data<int32_t>();
  const float* const weights = row_weights_of(args);
  auto* losses = args.losses.data<float>();
  on_float(args.logits.tensor.dtype(), [&]<class T>() {
    for (int64_t row = begin; row < end; ++row) {
      const T* const logits = row_of<T>(args.logits, row);
      const float weight = detail::row_weight(targets[row], weights, row);
      losses[row] = weight == 0 ? 0.0F : row_loss(logits, targets[row], columns) * weight;
    }
  });
}

void loss_and_gradient_rows(const SoftmaxCrossEntropyArgs& args, DType gradients, int64_t begin,
                            int64_t end) {
  const int64_t columns = args.logits.columns;
  const float scale = detail::scaled(args.grad_scale, args.loss_scale);
  const auto* targets = args.targets.data<int32_t>();
  const float* const weights = row_weights_of(args);
  auto* losses = args.losses.data<float>();
  on_float(args.logits.tensor.dtype(), [&]<class T>() {
    on_float(gradients, [&]<class G>() {
      if constexpr (std::is_same_v<T, float> || std::is_same_v<T, G>) {  // no others are let in
        for (int64_t row = begin; row < end; ++row) {
          T* const logits = row_of<T>(args.logits, row);
          const float weight = detail::row_weight(targets[row], weights, row);
          if (weight == 0) {
            losses[row] = 0.0F;
            std::fill(logits, logits + columns, static_cast<T>(0.0F));
          } else {
            losses[row] = row_loss_and_gradient<G>(logits, targets[row], scale * weight,
                                                   args.softcap, columns) *
                          weight;
          }
        }
      }
    });
  });
}

void part_rows(const SoftmaxCrossEntropyArgs& args, const VocabularyPart& part, Tensor& numbers,
               int64_t begin, int64_t end) {
  const int64_t columns = args.logits.columns;
  const auto* targets = args.targets.data<int32_t>();
  on_float(args.logits.tensor.dtype(), [&]<class T>() {
    for (int64_t row = begin; row < end; ++row) {
      const T* const logits = row_of<T>(args.logits, row);
      float* const out = numbers.data<float>() + row * kNumbersOfPart;
      const int64_t target = targets[row] - part.first;
      const bool is_here = targets[row] >= 0 && target >= 0 && target < columns;
      out[0] = row_max(logits, columns);
      out[1] = row_exp_sum(logits, out[0], 1.0F, columns);
      out[2] = is_here ? static_cast<float>(logits[target]) : 0.0F;
    }
  });
}

namespace {

// A WholeRow is made of what all ranks have of the row.
struct WholeRow {
  float largest, total, at_target;
};
WholeRow join_parts(const float* numbers, int64_t ranks, int64_t stride) {
  WholeRow whole{.largest = numbers[0], .total = 0, .at_target = 0};
  for (int64_t r = 1; r < ranks; ++r) whole.largest = std::max(whole.largest, numbers[r * stride]);
  for (int64_t r = 0; r < ranks; ++r) {
    const float* const of_rank = numbers + r * stride;
    whole.total += of_rank[1] * std::exp(of_rank[0] - whole.largest);
    whole.at_target += of_rank[2];
  }
  return whole;
}

// Over the logits of a row, their gradients; `target` may be outside of them.
template <class G, class T>
void part_gradient(T* logits, const WholeRow& whole, int64_t target, float scale, float c,
                   int64_t n) {
  G* const grad = reinterpret_cast<G*>(logits);
  row_exp(logits, whole.largest, 1.0F, scale / whole.total, c, grad, n);
  if (target < 0 || target >= n) return;
  const float at_target = std::exp(whole.at_target - whole.largest) / whole.total;
  grad[target] = static_cast<G>((at_target - 1.0F) * scale * slope_of_cap(whole.at_target, c));
}

}  // namespace

void loss_of_parts_rows(const SoftmaxCrossEntropyArgs& args, const VocabularyPart& part,
                        const Tensor& numbers, int64_t begin, int64_t end) {
  const int64_t rows = args.logits.rows, columns = args.logits.columns;
  const int64_t stride = rows * kNumbersOfPart;
  const int64_t ranks = numbers.numel() / stride;
  const float scale = detail::scaled(args.grad_scale, args.loss_scale);
  const auto* targets = args.targets.data<int32_t>();
  const float* const weights = row_weights_of(args);
  auto* losses = args.losses.data<float>();
  on_float(args.logits.tensor.dtype(), [&]<class T>() {
    on_float(args.gradients.value_or(args.logits.tensor.dtype()), [&]<class G>() {
      if constexpr (std::is_same_v<T, float> || std::is_same_v<T, G>) {  // no others are let in
        for (int64_t row = begin; row < end; ++row) {
          T* const logits = row_of<T>(args.logits, row);
          const float weight = detail::row_weight(targets[row], weights, row);
          const bool is_ignored = weight == 0;
          const WholeRow whole =
              join_parts(numbers.data<float>() + row * kNumbersOfPart, ranks, stride);
          const float loss = std::log(whole.total) + whole.largest - whole.at_target;
          losses[row] = is_ignored ? 0.0F : loss * weight;
          if (!args.gradients) continue;
          if (is_ignored) {
            std::fill(logits, logits + columns, static_cast<T>(0.0F));
          } else {
            part_gradient<G>(logits, whole, targets[row] - part.first, scale * weight, args.softcap,
                             columns);
          }
        }
      }
    });
  });
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels {
namespace {

DS_SIMD_EXPORT(loss_rows);
DS_SIMD_EXPORT(loss_and_gradient_rows);
DS_SIMD_EXPORT(part_rows);
DS_SIMD_EXPORT(loss_of_parts_rows);

}  // namespace

namespace detail {

void check_targets_cpu(std::string_view op, const Tensor& targets, int64_t vocabulary) {
  const auto* of_row = targets.data<int32_t>();
  for (int64_t row = 0; row < targets.numel(); ++row) {
    if (of_row[row] >= vocabulary) {
      throw DataError(fmt::format("{}: row {} has target {}, expected < {} (the vocabulary)", op,
                                  row, of_row[row], vocabulary));
    }
  }
}

void softmax_cross_entropy_cpu(Stream& stream, const SoftmaxCrossEntropyArgs& args) {
  check_targets_cpu("softmax_cross_entropy", args.targets, args.logits.columns);
  stream.pool().parallel_for(args.targets.numel(), 1, [&](int64_t begin, int64_t end) {
    if (args.gradients) {
      DS_SIMD(loss_and_gradient_rows)(args, *args.gradients, begin, end);
    } else {
      DS_SIMD(loss_rows)(args, begin, end);
    }
  });
}

void softmax_part_cpu(Stream& stream, const SoftmaxCrossEntropyArgs& args,
                      const VocabularyPart& part, Tensor& numbers) {
  check_targets_cpu("softmax_part", args.targets, part.vocabulary);
  stream.pool().parallel_for(args.targets.numel(), 1, [&](int64_t begin, int64_t end) {
    DS_SIMD(part_rows)(args, part, numbers, begin, end);
  });
}

void softmax_cross_entropy_of_parts_cpu(Stream& stream, const SoftmaxCrossEntropyArgs& args,
                                        const VocabularyPart& part, const Tensor& numbers) {
  stream.pool().parallel_for(args.targets.numel(), 1, [&](int64_t begin, int64_t end) {
    DS_SIMD(loss_of_parts_rows)(args, part, numbers, begin, end);
  });
}

}  // namespace detail
}  // namespace ds::kernels
#endif  // HWY_ONCE
