// Distillation on CUDA devices. A block takes a row at a time: one pass over the logits of student
// and teacher makes their maxima and all sums, a second one writes the gradients over the
// student's. The teacher's logits are read as the packs of the student's lie, so that the sums of
// equal rows have equal orders.
#include <cmath>
#include <type_traits>

#include "core/device/dispatch.h"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/flags.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/front/loss_scale.h"
#include "kernels/softmax/distillation_cuda.h"
#include "kernels/softmax/distillation_row.h"
#include "kernels/softmax/softmax_rows.cuh"

namespace ds::kernels::detail {
namespace {

using cuda::elements;

struct DistillationOperands {
  int64_t teacher_columns, teacher_stride;
  DistillationScales scales;
  float* divergences;    // or null
  const float* numbers;  // of the ranks, or null where rows are whole
  int ranks;
  bool backward;
};

template <class U>
struct TeacherRow {
  const U* logits;
  int64_t columns;
};

// The N columns from `first` on, of which some may be none of the row's.
template <int N, class U>
__device__ void read_teacher(const TeacherRow<U>& row, int64_t first, float* values) {
  constexpr int kPack = N < cuda::kPackOf<U> ? N : cuda::kPackOf<U>;
  const U* const from = row.logits + first;
  const bool is_aligned = reinterpret_cast<uintptr_t>(from) % (kPack * sizeof(U)) == 0;
  if (is_aligned && first >= 0 && first + N <= row.columns) {
    for (int p = 0; p < N; p += kPack) {
      const cuda::Pack<U, kPack> pack = cuda::load<kPack>(from + p);
      for (int i = 0; i < kPack; ++i) values[p + i] = static_cast<float>(pack.values[i]);
    }
  } else {
    for (int i = 0; i < N; ++i) {
      const bool is_there = first + i >= 0 && first + i < row.columns;
      values[i] = is_there ? static_cast<float>(from[i]) : -INFINITY;
    }
  }
}

__device__ inline void move_row(DistilledRow& row, float to, float teacher_to, float inverse) {
  const float lower = row.largest - to, teacher_lower = row.teacher_largest - teacher_to;
  row.move_to(to, teacher_to, inverse,
              {.total = exponential(lower),
               .hot_total = exponential(lower * inverse),
               .teacher_total = exponential(teacher_lower * inverse)});
}

__device__ inline void add_column(DistilledRow& row, float z, float t, float inverse) {
  const float lower = z - row.largest, teacher_lower = t - row.teacher_largest;
  const float e = exponential(lower), soft = exponential(teacher_lower * inverse);
  row.total += e;
  row.hot_total += inverse == 1 ? e : exponential(lower * inverse);
  row.teacher_total += soft;
  if (soft != 0) row.apart += soft * ((teacher_lower - lower) * inverse);
}

// All but the logit of the target. Each thread's sums are relative to the largest logits that it
// has seen so far.
template <class T, class U>
__device__ DistilledRow sums_of(const LogitRow<T>& row, const TeacherRow<U>& teacher,
                                float inverse) {
  constexpr int kPack = LogitRow<T>::kPack, kCount = kLogitsAhead * kPack;
  const int64_t packs = row.packs();
  const int64_t stride = blockDim.x;
  DistilledRow sums;
  for (int64_t p = threadIdx.x; p < packs; p += stride * kLogitsAhead) {
    float z[kCount], t[kCount];
    for (int a = 0; a < kLogitsAhead; ++a) {
      const int64_t first = row.first(p + a * stride);
      read_logits(row, first, z + a * kPack);
      read_teacher<kPack>(teacher, first, t + a * kPack);
    }
    float largest = sums.largest, teacher_largest = sums.teacher_largest;
    for (int i = 0; i < kCount; ++i) {
      largest = fmaxf(largest, z[i]);
      teacher_largest = fmaxf(teacher_largest, t[i]);
    }
    move_row(sums, largest, teacher_largest, inverse);
    for (int i = 0; i < kCount; ++i) add_column(sums, z[i], t[i], inverse);
  }
  constexpr float kLowest = DistilledRow::kLowest;
  const float largest = cuda::block_reduce(sums.largest, cuda::Larger{}, kLowest);
  const float teacher_largest = cuda::block_reduce(sums.teacher_largest, cuda::Larger{}, kLowest);
  move_row(sums, largest, teacher_largest, inverse);
  sums.total = cuda::block_sum(sums.total);
  sums.hot_total = cuda::block_sum(sums.hot_total);
  sums.teacher_total = cuda::block_sum(sums.teacher_total);
  sums.apart = cuda::block_sum(sums.apart);
  return sums;
}

__device__ inline float slope_of_cap(float logit, float c) {
  const float t = logit / c;
  // A cap that 16 bits cannot hold may have been rounded to above itself.
  return fmaxf(fmaf(-t, t, 1.0F), 0.0F);
}

struct RowPlace {
  int64_t target;  // may be outside of the row
  float softcap;   // or 0
};

template <class G, class T, class U>
__device__ void write_gradients(const LogitRow<T>& row, const TeacherRow<U>& teacher,
                                const DistilledRow& sums, const DistilledGains& gains,
                                const RowPlace& place) {
  constexpr int kPack = LogitRow<T>::kPack;
  const int64_t packs = row.packs();
  for (int64_t round = 0; round < packs; round += blockDim.x) {
    const int64_t first = row.first(round + threadIdx.x);
    float z[kPack], t[kPack];
    read_logits(row, first, z);
    read_teacher<kPack>(teacher, first, t);
    for (int i = 0; i < kPack; ++i) {
      const float lower = z[i] - sums.largest;
      const float e = exponential(lower);
      const float hot = gains.inverse == 1 ? e : exponential(lower * gains.inverse);
      const float soft = exponential((t[i] - sums.teacher_largest) * gains.inverse);
      const float slope = place.softcap > 0 ? slope_of_cap(z[i], place.softcap) : 1.0F;
      z[i] = (first + i == place.target ? gains.of_target(e, hot, soft)
                                        : gains.of_other(e, hot, soft)) *
             slope;
    }
    // Narrower gradients lie over logits of this round and of those before it, which other threads
    // have to have read.
    if (sizeof(G) < sizeof(T)) __syncthreads();
    write_logits<G>(z, row, first);
  }
}

// The numbers of each row, see distillation_part(). What is wrong with a target is found here.
template <class T, class U>
__global__ void __launch_bounds__(kMostLogitThreads)
    distillation_part_kernel(LogitOperands o, DistillationOperands d, T* logits, const U* teacher,
                             float* numbers) {
  for (int64_t i = blockIdx.x; i < o.rows; i += gridDim.x) {
    const int64_t target = o.targets[i];
    const LogitRow<T> row(logits + i * o.stride, o.columns);
    DistilledRow sums =
        sums_of(row, TeacherRow<U>{teacher + i * d.teacher_stride, o.columns}, d.scales.inverse);
    if (threadIdx.x != 0) continue;
    if (target >= o.vocabulary) cuda::set_flag(DeviceFlag::kTargetOutsideVocabulary, o.flags);
    const bool is_here = target >= 0 && row.has(target - o.first);
    sums.at_target = is_here ? static_cast<float>(row.logits[target - o.first]) : 0.0F;
    sums.to_numbers(numbers + i * kNumbersOfDistilledPart);
  }
}

template <class T, class U, class G>
__global__ void __launch_bounds__(kMostLogitThreads)
    distilled_kernel(LogitOperands o, DistillationOperands d, T* logits, const U* teachers) {
  const float scale = scaled(o.grad_scale, o.loss_scale);
  for (int64_t i = blockIdx.x; i < o.rows; i += gridDim.x) {
    const LogitRow<T> row(logits + i * o.stride, o.columns);
    if (weight_of(o, i) == 0 || o.targets[i] >= o.vocabulary) {
      const float none = write_no_loss(o, i);
      if (threadIdx.x == 0 && d.divergences != nullptr) d.divergences[i] = none;
      if (d.backward) fill_gradients<G>(row, none);
      continue;
    }
    const int64_t target = o.targets[i] - o.first;
    const TeacherRow<U> teacher{teachers + i * d.teacher_stride, d.teacher_columns};
    DistilledRow sums;
    if (d.numbers == nullptr) {
      // Before gradients are there.
      const auto at_target = static_cast<float>(row.logits[target]);
      sums = sums_of(row, teacher, d.scales.inverse);
      sums.at_target = at_target;
    } else {
      sums = join_distilled(d.numbers + i * kNumbersOfDistilledPart, d.ranks,
                            o.rows * kNumbersOfDistilledPart, d.scales.inverse);
    }
    if (threadIdx.x == 0) {
      const DistilledLoss loss = loss_of(sums, d.scales, weight_of(o, i));
      o.losses[i] = loss.loss;
      if (d.divergences != nullptr) d.divergences[i] = loss.divergence;
    }
    if (!d.backward) continue;
    write_gradients<G>(row, teacher, sums, DistilledGains(sums, d.scales, scale * weight_of(o, i)),
                       {target, o.softcap});
  }
}

DistillationOperands operands_of(const DistilledCrossEntropyArgs& args) {
  return {.teacher_columns = args.teacher.columns,
          .teacher_stride = args.teacher.row_stride,
          .scales = DistillationScales(args.rule),
          .divergences = args.divergences.defined() ? elements<float>(args.divergences) : nullptr,
          .numbers = nullptr,
          .ranks = 1,
          .backward = args.student.gradients.has_value()};
}

template <class U>
const U* teacher_of(const DistilledCrossEntropyArgs& args) {
  return elements<const U>(args.teacher.tensor) + args.teacher.offset;
}

void launch_rows(std::string_view name, Stream& stream, const DistilledCrossEntropyArgs& args,
                 const LogitOperands& o, const DistillationOperands& d) {
  const DType logits = args.student.logits.tensor.dtype();
  on_float(logits, [&]<class T>() {
    on_float(args.student.gradients.value_or(logits), [&]<class G>() {
      if constexpr (std::is_same_v<T, float> || std::is_same_v<T, G>) {  // no others are let in
        on_float(args.teacher.tensor.dtype(), [&]<class U>() {
          cuda::launch(name, distilled_kernel<T, U, G>, shape_for_logits<T>(o.rows, o.columns),
                       stream, o, d, logits_of<T>(args.student), teacher_of<U>(args));
        });
      }
    });
  });
}

}  // namespace

void distilled_cross_entropy_cuda(Stream& stream, const DistilledCrossEntropyArgs& args) {
  const LogitOperands o =
      logit_operands_of(stream, args.student, {.vocabulary = args.student.logits.columns});
  launch_rows("distilled_cross_entropy", stream, args, o, operands_of(args));
}

void distillation_part_cuda(Stream& stream, const DistilledCrossEntropyArgs& args,
                            const VocabularyPart& part, Tensor& numbers) {
  const LogitOperands o = logit_operands_of(stream, args.student, part);
  const DistillationOperands d = operands_of(args);
  on_float(args.student.logits.tensor.dtype(), [&]<class T>() {
    on_float(args.teacher.tensor.dtype(), [&]<class U>() {
      cuda::launch("distillation_part", distillation_part_kernel<T, U>,
                   shape_for_logits<T>(o.rows, o.columns), stream, o, d, logits_of<T>(args.student),
                   teacher_of<U>(args), elements<float>(numbers));
    });
  });
}

void distilled_cross_entropy_of_parts_cuda(Stream& stream, const DistilledCrossEntropyArgs& args,
                                           const VocabularyPart& part, const Tensor& numbers) {
  const LogitOperands o = logit_operands_of(stream, args.student, part);
  if (o.rows == 0) return;
  DistillationOperands d = operands_of(args);
  d.numbers = elements<const float>(numbers);
  d.ranks = static_cast<int>(numbers.numel() / (o.rows * kNumbersOfDistilledPart));
  launch_rows("distilled_cross_entropy_of_parts", stream, args, o, d);
}

}  // namespace ds::kernels::detail
