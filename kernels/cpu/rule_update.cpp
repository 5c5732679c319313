#include "kernels/step/rule_update.h"

#include <algorithm>
#include <array>

#include "core/dispatch.h"
#include "core/index.h"
#include "kernels/argument.h"
#include "kernels/cuda/rule_update.h"

namespace ds::kernels {
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

void check(const Stream& stream, const RuleArgs& args, bool has_state) {
  constexpr std::string_view kOp = "rule_update";
  detail::require_numel(kOp, "master", stream, args.master, args.master.numel());
  const int64_t n = args.master.numel();
  detail::require_dtype(kOp, "master", args.master, DType::kF32);
  detail::require_numel(kOp, "grad", stream, args.grad, n);
  detail::require_float(kOp, "grad", args.grad);
  DS_CHECK(has_state || !args.state.defined(), "{}: state is given to a rule without any", kOp);
  if (has_state) {
    detail::require_numel(kOp, "state", stream, args.state, n);
    detail::require_dtype(kOp, "state", args.state, DType::kF32);
  }
  if (args.copy.defined()) {
    detail::require_numel(kOp, "copy", stream, args.copy, n);
    detail::require_float(kOp, "copy", args.copy);
  }
  const auto bytes_of = [](const Tensor& tensor) {
    return tensor.defined() ? static_cast<double>(tensor.bytes()) : 0.0;
  };
  stream.report(kOp, {.flops = 8 * static_cast<double>(n),
                      .bytes = 2 * bytes_of(args.master) + 2 * bytes_of(args.state) +
                               bytes_of(args.grad) + bytes_of(args.copy)});
}

}  // namespace

template <class Rule>
void rule_update(Stream& stream, const RuleArgs& args, const Rule& rule,
                 const StepScalars& scalars) {
  check(stream, args, rule.has_state());
  const int64_t n = args.master.numel();
  const auto cpu = [&](Cpu) {
    const StepOutcome& outcome = scalars.outcome();
    if (outcome.skip != 0) return;
    const auto factors = factors_of(rule, scalars.inputs());
    on_float(args.grad.dtype(), [&]<class G>() {
      stream.pool().parallel_for(n, kChunk, [&](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end; at += kChunk) {
          update_chunk<G>(args, factors, outcome.grad_scale, at, std::min(kChunk, end - at));
        }
      });
    });
  };
  on_device(stream, cpu, [&](Cuda) { detail::rule_update_cuda(stream, args, rule, scalars); });
}

template void rule_update(Stream&, const RuleArgs&, const LionRule&, const StepScalars&);
template void rule_update(Stream&, const RuleArgs&, const AdagradRule&, const StepScalars&);
template void rule_update(Stream&, const RuleArgs&, const SgdRule&, const StepScalars&);

}  // namespace ds::kernels
