// Losses of values on the CPU, row by row, shared out among the stream's threads.
#include "kernels/value_loss/value_loss_cpu.h"

#include <algorithm>
#include <cmath>

#include "core/device/dispatch.h"
#include "core/tasks/thread_pool.h"
#include "kernels/front/loss_scale.h"
#include "kernels/value_loss/value_loss_operands.h"

namespace ds::kernels::detail {
namespace {

// The loss of a row, and in `slopes`, unless it is null, its gradient times `scale`.
template <class T>
float row_loss(ValueLoss kind, const T* scores, const float* values, float scale, T* slopes,
               int64_t width) {
  float sum = 0;
  for (int64_t k = 0; k < width; ++k) {
    const auto score = static_cast<float>(scores[k]);
    const float small = kind == ValueLoss::kSquaredError ? 0.0F : std::exp(-std::abs(score));
    const ScoreLoss one = score_loss(kind, score, values[k], small, std::log1p(small));
    sum += one.loss;
    if (slopes != nullptr) slopes[k] = static_cast<T>(one.slope * scale);
  }
  return sum / static_cast<float>(width);
}

}  // namespace

void value_loss_cpu(Stream& stream, const ValueLossArgs& args) {
  const int64_t rows = args.scores.shape()[0], width = args.scores.shape()[1];
  const int64_t length = rows / args.values.shape()[0];
  const float scale = scaled(args.grad_scale, args.loss_scale) / static_cast<float>(width);
  const auto* const targets = args.targets.data<int32_t>();
  const auto* const values = args.values.data<float>();
  auto* const losses = args.losses.data<float>();
  on_float(args.scores.dtype(), [&]<class T>() {
    const T* const scores = args.scores.data<T>();
    T* const slopes = args.dscores.defined() ? args.dscores.data<T>() : nullptr;
    stream.pool().parallel_for(rows, 64, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* const of_row = slopes == nullptr ? nullptr : slopes + row * width;
        if (targets[row] < 0) {
          losses[row] = 0.0F;
          if (of_row != nullptr) std::fill_n(of_row, width, static_cast<T>(0.0F));
          continue;
        }
        losses[row] = row_loss(args.loss, scores + row * width, values + row / length * width,
                               scale, of_row, width);
      }
    });
  });
}

}  // namespace ds::kernels::detail
