// Optimizer updates; see update.h. One pass: five streams of memory in, four out, nothing twice.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/update.cpp"
#include "kernels/update.h"

#include <hwy/foreach_target.h>

#include "core/dispatch.h"
#include "kernels/argument.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd.inl"
#include "kernels/cuda/update.h"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

struct AdamVectors {  // AdamFactors, one copy per lane
  F32Vector scale, keep, l2, beta2, one_minus_beta1, one_minus_beta2, root2, eps, step;
};

AdamVectors adam_vectors(const AdamFactors& k) {
  const Lanes d;
  return {hn::Set(d, k.scale),
          hn::Set(d, k.keep),
          hn::Set(d, k.l2),
          hn::Set(d, k.beta2),
          hn::Set(d, k.one_minus_beta1),
          hn::Set(d, k.one_minus_beta2),
          hn::Set(d, k.root2),
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
  const auto denominator = hn::Add(hn::Div(hn::Sqrt(v), k.root2), k.eps);
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
    } else if (a.copy.dtype() == DType::kBF16) {
      adam_typed<TM, TG>(a, factors, a.copy.data<BF16>(), begin, end);
    } else {
      adam_typed<TM, TG>(a, factors, a.copy.data<F16>(), begin, end);
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

void adam_update(Stream& stream, const AdamArgs& args, const StepScalars& scalars) {
  constexpr std::string_view kOp = "adam_update";
  const int64_t n = args.master.numel();
  detail::require_numel(kOp, "master", stream, args.master, n);
  detail::require_dtype(kOp, "master", args.master, DType::kF32);
  detail::require_numel(kOp, "exp_avg", stream, args.exp_avg, n);
  const DType moments = args.exp_avg.dtype();
  DS_CHECK(moments == DType::kF32 || moments == DType::kBF16,
           "{}: exp_avg is {}, expected fp32 or bf16", kOp, name_of(moments));
  detail::require_numel(kOp, "exp_avg_sq", stream, args.exp_avg_sq, n);
  detail::require_dtype(kOp, "exp_avg_sq", args.exp_avg_sq, moments);
  detail::require_numel(kOp, "grad", stream, args.grad, n);
  detail::require_float(kOp, "grad", args.grad);
  if (args.copy.defined()) {
    detail::require_numel(kOp, "copy", stream, args.copy, n);
    DS_CHECK(args.copy.dtype() == DType::kBF16 || args.copy.dtype() == DType::kF16,
             "{}: copy is {}, expected bf16 or fp16", kOp, name_of(args.copy.dtype()));
  }
  const double copy_bytes = args.copy.defined() ? static_cast<double>(args.copy.bytes()) : 0;
  const auto moment_bytes = static_cast<double>(args.exp_avg.bytes());
  stream.report(kOp, {.flops = 15 * static_cast<double>(n),
                      .bytes = 8 * static_cast<double>(n) + 4 * moment_bytes +
                               static_cast<double>(args.grad.bytes()) + copy_bytes});
  const auto cpu = [&](Cpu) {
    const StepOutcome& outcome = scalars.outcome();
    if (outcome.skip != 0) return;
    const AdamFactors factors = factors_of(args.rule, scalars.inputs(), outcome);
    stream.pool().parallel_for(n, 4096, [&](int64_t begin, int64_t end) {
      DS_SIMD(adam_range)(args, factors, begin, end);
    });
  };
  on_device(stream, cpu, [&](Cuda) { detail::adam_update_cuda(stream, args, scalars); });
}

}  // namespace ds::kernels
#endif  // HWY_ONCE
