// Distillation on the CPU: row by row, the sums over both rows of logits first, then the gradients
// in place.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax/distillation_cpu.cpp"
#include "kernels/softmax/distillation_cpu.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/device/dispatch.h"
#include "kernels/cpu/simd.h"
#include "kernels/front/loss_scale.h"
#include "kernels/front/row_weight.h"
#include "kernels/softmax/distillation_row.h"
#include "kernels/softmax/softmax_cpu.h"
#include "kernels/softmax/softmax_rows.inl"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

using detail::DistilledGains;
using detail::DistilledRow;

// The logits of a row of the student, and of the teacher, which may be fewer.
template <class T, class U>
struct RowPair {
  T* student;
  const U* teacher;
  int64_t columns, teacher_columns;
};
template <class T, class U>
RowPair<T, U> pair_of(const DistilledCrossEntropyArgs& args, int64_t row) {
  return {row_of<T>(args.student.logits, row), row_of<U>(args.teacher, row),
          args.student.logits.columns, args.teacher.columns};
}

// The teacher's part of the sums. Its exponentials are added as row_exp_sum() adds them.
template <class T, class U>
void add_teacher(const RowPair<T, U>& pair, float inverse, DistilledRow& row) {
  const Lanes d;
  const auto student_largest = hn::Set(d, row.largest);
  const auto teacher_largest = hn::Set(d, row.teacher_largest);
  const auto factor = hn::Set(d, inverse);
  auto total = hn::Zero(d), apart = hn::Zero(d);
  for (int64_t i = 0; i < pair.teacher_columns; i += lane_count()) {
    const int64_t count = at_most_lanes(pair.teacher_columns - i);
    const auto lower = hn::Sub(get(d, pair.teacher + i, count), teacher_largest);
    const auto student_lower = hn::Sub(get(d, pair.student + i, count), student_largest);
    auto e = exp(d, hn::Mul(lower, factor));
    if (count < lane_count()) e = hn::IfThenElseZero(hn::FirstN(d, to_size(count)), e);
    total = hn::Add(total, e);
    const auto further = hn::Mul(e, hn::Mul(hn::Sub(lower, student_lower), factor));
    apart = hn::Add(apart, hn::IfThenZeroElse(hn::Eq(e, hn::Zero(d)), further));
  }
  row.teacher_total = sum_lanes(d, total);
  row.apart = sum_lanes(d, apart);
}

// All but the logit of the target.
template <class T, class U>
DistilledRow sums_of(const RowPair<T, U>& pair, float inverse) {
  const T* const student = pair.student;
  DistilledRow row;
  row.largest = row_max(student, pair.columns);
  row.total = row_exp_sum(student, row.largest, 1.0F, pair.columns);
  row.hot_total =
      inverse == 1 ? row.total : row_exp_sum(student, row.largest, inverse, pair.columns);
  row.teacher_largest = row_max(pair.teacher, pair.teacher_columns);
  add_teacher(pair, inverse, row);
  return row;
}

// e^((t - largest) factor) of the columns from i on, as far as the teacher has them; 0 behind.
template <class T, class U>
HWY_INLINE F32Vector soft_at(Lanes d, const RowPair<T, U>& pair, int64_t i, float largest,
                             float inverse) {
  const int64_t count = at_most_lanes(pair.teacher_columns - i);
  if (count <= 0) return hn::Zero(d);
  const auto t = get(d, pair.teacher + i, count);
  const auto e = exp(d, hn::Mul(hn::Sub(t, hn::Set(d, largest)), hn::Set(d, inverse)));
  return count == lane_count() ? e : hn::IfThenElseZero(hn::FirstN(d, to_size(count)), e);
}

// Over the student's logits, capped at c or not, their gradients; `target` may be outside of them.
template <class G, class T, class U>
void write_gradients(const RowPair<T, U>& pair, const DistilledRow& row,
                     const DistilledGains& gains, float c, int64_t target) {
  const Lanes d;
  G* const grad = reinterpret_cast<G*>(pair.student);
  const float inverse = gains.inverse;
  const auto target_gradient = [&] {
    const auto logit = static_cast<float>(pair.student[target]);
    const float lower = logit - row.largest;
    const float soft =
        target < pair.teacher_columns
            ? std::exp((static_cast<float>(pair.teacher[target]) - row.teacher_largest) * inverse)
            : 0.0F;
    return gains.of_target(std::exp(lower), std::exp(lower * inverse), soft) *
           slope_of_cap(logit, c);
  };
  const bool is_here = target >= 0 && target < pair.columns;
  const float at_target = is_here ? target_gradient() : 0.0F;  // before gradients are there
  const auto largest = hn::Set(d, row.largest);
  const auto factor = hn::Set(d, inverse);
  const auto of_cap = hn::Set(d, c > 0 ? 1.0F / c : 0.0F);
  const auto plain = hn::Set(d, gains.plain), hot_gain = hn::Set(d, gains.hot);
  const auto ratio = hn::Set(d, gains.ratio);
  for (int64_t i = 0; i < pair.columns; i += lane_count()) {
    const int64_t count = at_most_lanes(pair.columns - i);
    const auto v = get(d, pair.student + i, count);
    const auto lower = hn::Sub(v, largest);
    const auto e = exp(d, lower);
    const auto hot = inverse == 1 ? e : exp(d, hn::Mul(lower, factor));
    const auto soft = soft_at(d, pair, i, row.teacher_largest, inverse);
    auto g = hn::MulAdd(hn::NegMulAdd(soft, ratio, hot), hot_gain, hn::Mul(e, plain));
    if (c > 0) g = hn::Mul(g, slope_of_cap(d, v, of_cap));
    put(g, d, grad + i, count);
  }
  if (is_here) grad[target] = static_cast<G>(at_target);
}

}  // namespace

void distillation_part_rows(const DistilledCrossEntropyArgs& args, const VocabularyPart& part,
                            Tensor& numbers, int64_t begin, int64_t end) {
  const detail::DistillationScales scales(args.rule);
  const auto* targets = args.student.targets.data<int32_t>();
  on_float(args.student.logits.tensor.dtype(), [&]<class T>() {
    on_float(args.teacher.tensor.dtype(), [&]<class U>() {
      for (int64_t i = begin; i < end; ++i) {
        const auto pair = pair_of<T, U>(args, i);
        DistilledRow row = sums_of(pair, scales.inverse);
        const int64_t target = targets[i] - part.first;
        const bool is_here = targets[i] >= 0 && target >= 0 && target < pair.columns;
        row.at_target = is_here ? static_cast<float>(pair.student[target]) : 0.0F;
        row.to_numbers(numbers.data<float>() + i * kNumbersOfDistilledPart);
      }
    });
  });
}

// numbers: of all ranks, or null where the rows are whole.
void distilled_rows(const DistilledCrossEntropyArgs& args, int64_t first, const Tensor* numbers,
                    int64_t begin, int64_t end) {
  const SoftmaxCrossEntropyArgs& student = args.student;
  const detail::DistillationScales scales(args.rule);
  const float scale = detail::scaled(student.grad_scale, student.loss_scale);
  const auto* targets = student.targets.data<int32_t>();
  const float* const weights = row_weights_of(student);
  const int64_t stride = student.logits.rows * kNumbersOfDistilledPart;
  const auto write_loss = [&](int64_t i, const detail::DistilledLoss& loss) {
    student.losses.data<float>()[i] = loss.loss;
    if (args.divergences.defined()) args.divergences.data<float>()[i] = loss.divergence;
  };
  const auto each_row = [&]<class T, class U, class G>() {
    for (int64_t i = begin; i < end; ++i) {
      const auto pair = pair_of<T, U>(args, i);
      const float weight = detail::row_weight(targets[i], weights, i);
      if (weight == 0) {
        write_loss(i, {});
        if (student.gradients) {
          std::fill(pair.student, pair.student + pair.columns, static_cast<T>(0.0F));
        }
        continue;
      }
      const int64_t target = targets[i] - first;
      DistilledRow row;
      if (numbers == nullptr) {
        row = sums_of(pair, scales.inverse);
        row.at_target = static_cast<float>(pair.student[target]);
      } else {
        row = detail::join_distilled(numbers->data<float>() + i * kNumbersOfDistilledPart,
                                     numbers->numel() / stride, stride, scales.inverse);
      }
      write_loss(i, detail::loss_of(row, scales, weight));
      if (!student.gradients) continue;
      write_gradients<G>(pair, row, DistilledGains(row, scales, scale * weight), student.softcap,
                         target);
    }
  };
  on_float(student.logits.tensor.dtype(), [&]<class T>() {
    on_float(student.gradients.value_or(student.logits.tensor.dtype()), [&]<class G>() {
      if constexpr (std::is_same_v<T, float> || std::is_same_v<T, G>) {  // no others are let in
        on_float(args.teacher.tensor.dtype(),
                 [&]<class U>() { each_row.template operator()<T, U, G>(); });
      }
    });
  });
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels {
namespace {

DS_SIMD_EXPORT(distillation_part_rows);
DS_SIMD_EXPORT(distilled_rows);

}  // namespace

namespace detail {

void distilled_cross_entropy_cpu(Stream& stream, const DistilledCrossEntropyArgs& args) {
  check_targets_cpu("distilled_cross_entropy", args.student.targets, args.student.logits.columns);
  stream.pool().parallel_for(args.student.logits.rows, 1, [&](int64_t begin, int64_t end) {
    DS_SIMD(distilled_rows)(args, 0, nullptr, begin, end);
  });
}

void distillation_part_cpu(Stream& stream, const DistilledCrossEntropyArgs& args,
                           const VocabularyPart& part, Tensor& numbers) {
  check_targets_cpu("distillation_part", args.student.targets, part.vocabulary);
  stream.pool().parallel_for(args.student.logits.rows, 1, [&](int64_t begin, int64_t end) {
    DS_SIMD(distillation_part_rows)(args, part, numbers, begin, end);
  });
}

void distilled_cross_entropy_of_parts_cpu(Stream& stream, const DistilledCrossEntropyArgs& args,
                                          const VocabularyPart& part, const Tensor& numbers) {
  stream.pool().parallel_for(args.student.logits.rows, 1, [&](int64_t begin, int64_t end) {
    DS_SIMD(distilled_rows)(args, part.first, &numbers, begin, end);
  });
}

}  // namespace detail
}  // namespace ds::kernels
#endif  // HWY_ONCE
