// Optimizer updates on the CPU. One pass: five streams of memory in, four out, nothing twice.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/update_cpu.cpp"
#include "kernels/optimizer/update_cpu.h"

#include <hwy/foreach_target.h>

#include "core/device/dispatch.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd.inl"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

struct AdamVectors {  // AdamFactors, one copy per lane
  F32Vector scale, keep, l2, beta2, one_minus_beta1, one_minus_beta2, inverse_root2, eps, step;
};

AdamVectors adam_vectors(const AdamFactors& k) {
  const Lanes d;
  return {hn::Set(d, k.scale),
          hn::Set(d, k.keep),
          hn::Set(d, k.l2),
          hn::Set(d, k.beta2),
          hn::Set(d, k.one_minus_beta1),
          hn::Set(d, k.one_minus_beta2),
          hn::Set(d, k.inverse_root2),
          hn::Set(d, k.eps),
          hn::Set(d, k.step)};
}

// One vector of weights: m += (g - m)(1 - beta1); v = v beta2 + (1 - beta2) g g;
// w -= step m / (sqrt(v) / sqrt(correction2) + eps).
HWY_INLINE F32Vector adam_step(const AdamVectors& k, F32Vector w, F32Vector g, F32Vector& m,
                               F32Vector& v) {
  g = hn::MulAdd(w, k.l2, hn::Mul(g, k.scale));
  w = hn::Mul(w, k.keep);
  m = hn::MulAdd(hn::Sub(g, m), k.one_minus_beta1, m);
  v = hn::MulAdd(v, k.beta2, hn::Mul(hn::Mul(g, g), k.one_minus_beta2));
  const auto denominator = hn::MulAdd(hn::Sqrt(v), k.inverse_root2, k.eps);
  return hn::NegMulAdd(k.step, hn::Div(m, denominator), w);
}

template <class TM, class TG, class TC>
void adam_typed(const AdamArgs& a, const AdamFactors& factors, TC* copy, int64_t begin,
                int64_t end) {
  const Lanes d;
  const AdamVectors k = adam_vectors(factors);
  float* master = a.master.data<float>();
  TM* exp_avg = a.exp_avg.data<TM>();
  TM* exp_avg_sq = a.exp_avg_sq.data<TM>();
  const TG* grad = a.grad.data<TG>();
  for (int64_t i = begin; i < end; i += lane_count()) {
    const int64_t count = at_most_lanes(end - i);
    auto m = get(d, exp_avg + i, count);
    auto v = get(d, exp_avg_sq + i, count);
    const auto w = adam_step(k, get(d, master + i, count), get(d, grad + i, count), m, v);
    put(m, d, exp_avg + i, count);
    put(v, d, exp_avg_sq + i, count);
    put(w, d, master + i, count);
    if (copy != nullptr) put(w, d, copy + i, count);
  }
}

template <class TM>
void adam_of_moments(const AdamArgs& a, const AdamFactors& factors, int64_t begin, int64_t end) {
  on_float(a.grad.dtype(), [&]<class TG>() {
    if (!a.copy.defined()) {
      adam_typed<TM, TG, BF16>(a, factors, nullptr, begin, end);
    } else {
      on_float(a.copy.dtype(),
               [&]<class TC>() { adam_typed<TM, TG>(a, factors, a.copy.data<TC>(), begin, end); });
    }
  });
}

}  // namespace

void adam_range(const AdamArgs& a, const AdamFactors& factors, int64_t begin, int64_t end) {
  if (a.exp_avg.dtype() == DType::kF32) {
    adam_of_moments<float>(a, factors, begin, end);
  } else {
    adam_of_moments<BF16>(a, factors, begin, end);
  }
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels {
namespace {

DS_SIMD_EXPORT(adam_range);

}  // namespace

namespace detail {

void adam_update_cpu(Stream& stream, const AdamArgs& args, const StepScalars& scalars) {
  const StepOutcome& outcome = scalars.outcome();
  if (outcome.skip != 0) return;
  const AdamFactors factors = factors_of(args.rule, scalars.inputs(), outcome);
  stream.pool().parallel_for(args.master.numel(), 4096, [&](int64_t begin, int64_t end) {
    DS_SIMD(adam_range)(args, factors, begin, end);
  });
}

}  // namespace detail
}  // namespace ds::kernels
#endif  // HWY_ONCE
