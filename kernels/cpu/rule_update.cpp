// The rules' updates on the CPU: gradients are converted and scaled by chunks that stay in the
// cache, then each weight has its turn.
#include "kernels/cpu/rule_update.h"

#include <algorithm>
#include <array>

#include "core/dispatch.h"

namespace ds::kernels::detail {
namespace {

constexpr int64_t kChunk = 2048;  // numbers converted at a time: weight, gradient, state in 24 KiB

void write_copy(const Tensor& copy, int64_t begin, const float* weight, int64_t count) {
  if (!copy.defined()) return;
  on_float(copy.dtype(), [&]<class T>() {
    std::transform(weight, weight + count, copy.data<T>() + begin,
                   [](float value) { return static_cast<T>(value); });
  });
}

template <class G, class Factors>
void update_chunk(const RuleArgs& args, const Factors& factors, float grad_scale, int64_t begin,
                  int64_t count) {
  std::array<float, kChunk> converted;
  float* grad = converted.data();
  const G* from = args.grad.data<G>() + begin;
  for (int64_t i = 0; i < count; ++i) grad[i] = static_cast<float>(from[i]) * grad_scale;
  float* weight = args.master.data<float>() + begin;
  if (args.state.defined()) {
    float* state = args.state.data<float>() + begin;
    for (int64_t i = 0; i < count; ++i) update_element(factors, weight[i], grad[i], state[i]);
  } else {
    float none = 0;
    for (int64_t i = 0; i < count; ++i) update_element(factors, weight[i], grad[i], none);
  }
  write_copy(args.copy, begin, weight, count);
}

}  // namespace

template <class Rule>
void rule_update_cpu(Stream& stream, const RuleArgs& args, const Rule& rule,
                     const StepScalars& scalars) {
  const StepOutcome& outcome = scalars.outcome();
  if (outcome.skip != 0) return;
  const auto factors = factors_of(rule, scalars.inputs());
  on_float(args.grad.dtype(), [&]<class G>() {
    stream.pool().parallel_for(args.master.numel(), kChunk, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; at += kChunk) {
        update_chunk<G>(args, factors, outcome.grad_scale, at, std::min(kChunk, end - at));
      }
    });
  });
}

template void rule_update_cpu(Stream&, const RuleArgs&, const LionRule&, const StepScalars&);
template void rule_update_cpu(Stream&, const RuleArgs&, const AdagradRule&, const StepScalars&);
template void rule_update_cpu(Stream&, const RuleArgs&, const SgdRule&, const StepScalars&);

}  // namespace ds::kernels::detail
