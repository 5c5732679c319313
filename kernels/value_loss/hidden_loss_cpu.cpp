// Losses of hidden states on the CPU, row by row, shared out among the stream's threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/value_loss/hidden_loss_cpu.cpp"
#include "kernels/value_loss/hidden_loss_cpu.h"

#include <hwy/foreach_target.h>

#include <algorithm>

#include "core/device/dispatch.h"
#include "core/tasks/thread_pool.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd.inl"
#include "kernels/front/loss_scale.h"
#include "kernels/front/row_weight.h"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

// The sum of (s - t)^2, and in `slopes`, unless it is null, (s - t) scale; they may be s.
template <class T, class U>
float row_distance(const T* student, const U* teacher, float scale, T* slopes, int64_t width) {
  const Lanes d;
  const auto gain = hn::Set(d, scale);
  auto sum = hn::Zero(d);
  for (int64_t c = 0; c < width; c += lane_count()) {
    const int64_t count = at_most_lanes(width - c);
    const auto apart = hn::Sub(get(d, student + c, count), get(d, teacher + c, count));
    sum = hn::MulAdd(apart, apart, sum);  // lanes behind the last number are 0 in both
    if (slopes != nullptr) put(hn::Mul(apart, gain), d, slopes + c, count);
  }
  return sum_lanes(d, sum);
}

}  // namespace

void hidden_loss_rows(const HiddenLossArgs& args, int64_t begin, int64_t end) {
  const int64_t width = args.student.shape()[1];
  const float scale = detail::scaled(args.grad_scale, args.loss_scale);
  const auto* const targets = args.targets.data<int32_t>();
  const float* const weights =
      args.row_weights.defined() ? args.row_weights.data<float>() : nullptr;
  auto* const losses = args.losses.data<float>();
  on_float(args.student.dtype(), [&]<class T>() {
    on_float(args.teacher.dtype(), [&]<class U>() {
      for (int64_t row = begin; row < end; ++row) {
        T* const slopes = args.dstudent.defined() ? args.dstudent.data<T>() + row * width : nullptr;
        const float weight = args.weight * detail::row_weight(targets[row], weights, row);
        if (weight == 0) {
          losses[row] = 0.0F;
          if (slopes != nullptr) std::fill_n(slopes, width, static_cast<T>(0.0F));
          continue;
        }
        const float of_number = weight / static_cast<float>(width);
        losses[row] = of_number * row_distance(args.student.data<T>() + row * width,
                                               args.teacher.data<U>() + row * width,
                                               2.0F * scale * of_number, slopes, width);
      }
    });
  });
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels {
namespace {

DS_SIMD_EXPORT(hidden_loss_rows);

}  // namespace

namespace detail {

void hidden_loss_cpu(Stream& stream, const HiddenLossArgs& args) {
  stream.pool().parallel_for(args.student.shape()[0], 8, [&](int64_t begin, int64_t end) {
    DS_SIMD(hidden_loss_rows)(args, begin, end);
  });
}

}  // namespace detail
}  // namespace ds::kernels
#endif  // HWY_ONCE
