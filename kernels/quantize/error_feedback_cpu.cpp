// Error feedback on the CPU: loops of which the compiler makes vectors, shared out among the
// stream's threads.
#include "kernels/quantize/error_feedback_cpu.h"

#include <cmath>

#include "core/tasks/thread_pool.h"
#include "kernels/quantize/error_factors.h"

namespace ds::kernels::detail {
namespace {

constexpr int64_t kGrain = 4096;  // elements: a thread's share is never smaller than a few pages

}  // namespace

void feed_back_cpu(Stream& stream, const Tensor& x, const Tensor& y, float beta, Tensor& error) {
  const auto *const meant = x.data<float>(), *const said = y.data<float>();
  auto* const kept = error.data<float>();
  stream.pool().parallel_for(error.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float next = beta * kept[i] + (1 - beta) * (meant[i] - said[i]);
      kept[i] = std::isfinite(next) ? next : 0.0F;
    }
  });
}

void rescale_errors_cpu(const StepScalars& scalars, Tensor& scales) {
  const float factor = scale_of_errors(scalars.outcome());
  if (factor == 1) return;
  auto* const values = scales.data<float>();
  for (int64_t i = 0; i < scales.numel(); ++i) values[i] *= factor;
}

}  // namespace ds::kernels::detail
