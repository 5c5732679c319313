// LAMB's passes on the CPU, by chunks whose sums are added in their order.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/lamb_update_cpu.cpp"
#include "kernels/optimizer/lamb_update_cpu.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/device/dispatch.h"
#include "core/values/index.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd.inl"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

struct LambVectors {  // LambFactors, one copy per lane
  F32Vector beta1, rest1, beta2, rest2, eps_inside, eps_after, decay;
};

LambVectors lamb_vectors(const LambFactors& k) {
  const Lanes d;
  return {hn::Set(d, k.beta1), hn::Set(d, k.rest1),      hn::Set(d, k.beta2),
          hn::Set(d, k.rest2), hn::Set(d, k.eps_inside), hn::Set(d, k.eps_after),
          hn::Set(d, k.decay)};
}

HWY_INLINE F32Vector direction(const LambVectors& k, F32Vector w, F32Vector m, F32Vector v) {
  const auto root = hn::Add(hn::Sqrt(hn::Add(v, k.eps_inside)), k.eps_after);
  return hn::MulAdd(k.decay, w, hn::Div(m, root));
}

using Doubles = hn::ScalableTag<double>;

// total += x^2, in fp64 per lane. Lanes behind `count` are 0.
HWY_INLINE hn::Vec<Doubles> add_squares(F32Vector x, hn::Vec<Doubles> total) {
  const Lanes d;
  const Doubles dd;
  const hn::Rebind<float, Doubles> dh;
  HWY_ALIGN float lanes[hn::MaxLanes(Lanes())];
  hn::Store(x, d, lanes);
  for (size_t k = 0; k < hn::Lanes(d); k += hn::Lanes(dd)) {
    const auto wide = hn::PromoteTo(dd, hn::Load(dh, lanes + k));
    total = hn::MulAdd(wide, wide, total);
  }
  return total;
}

template <class G>
void moments_typed(const LambArgs& a, const LambFactors& factors, float grad_scale, int64_t begin,
                   int64_t end, double* sums) {
  const Lanes d;
  const LambVectors k = lamb_vectors(factors);
  const auto scale = hn::Set(d, grad_scale);
  const float* master = a.master.data<float>();
  float* exp_avg = a.exp_avg.data<float>();
  float* exp_avg_sq = a.exp_avg_sq.data<float>();
  const G* grad = a.grad.data<G>();
  auto weights = hn::Zero(Doubles()), directions = hn::Zero(Doubles());
  for (int64_t i = begin; i < end; i += lane_count()) {
    const int64_t count = at_most_lanes(end - i);
    const auto g = hn::Mul(get(d, grad + i, count), scale);
    const auto w = get(d, master + i, count);
    const auto m = hn::MulAdd(get(d, exp_avg + i, count), k.beta1, hn::Mul(g, k.rest1));
    const auto v =
        hn::MulAdd(get(d, exp_avg_sq + i, count), k.beta2, hn::Mul(hn::Mul(g, g), k.rest2));
    put(m, d, exp_avg + i, count);
    put(v, d, exp_avg_sq + i, count);
    if (sums == nullptr) continue;
    // Lanes without a weight have no gradient, and 0 / 0 is no direction.
    const auto u =
        hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(count)), direction(k, w, m, v));
    weights = add_squares(w, weights);
    directions = add_squares(u, directions);
  }
  if (sums == nullptr) return;
  sums[0] = hn::GetLane(hn::SumOfLanes(Doubles(), weights));
  sums[1] = hn::GetLane(hn::SumOfLanes(Doubles(), directions));
}

template <class C>
void apply_typed(const LambArgs& a, const LambFactors& factors, float step, C* copy, int64_t begin,
                 int64_t end) {
  const Lanes d;
  const LambVectors k = lamb_vectors(factors);
  const auto by = hn::Set(d, step);
  float* master = a.master.data<float>();
  const float* exp_avg = a.exp_avg.data<float>();
  const float* exp_avg_sq = a.exp_avg_sq.data<float>();
  for (int64_t i = begin; i < end; i += lane_count()) {
    const int64_t count = at_most_lanes(end - i);
    auto w = get(d, master + i, count);
    const auto u = direction(k, w, get(d, exp_avg + i, count), get(d, exp_avg_sq + i, count));
    w = hn::NegMulAdd(by, u, w);
    put(w, d, master + i, count);
    if (copy != nullptr) put(w, d, copy + i, count);
  }
}

}  // namespace

void lamb_moments_range(const LambArgs& a, const LambFactors& factors, float grad_scale,
                        int64_t begin, int64_t end, double* sums) {
  on_float(a.grad.dtype(),
           [&]<class G>() { moments_typed<G>(a, factors, grad_scale, begin, end, sums); });
}

void lamb_apply_range(const LambArgs& a, const LambFactors& factors, float step, int64_t begin,
                      int64_t end) {
  if (!a.copy.defined()) return apply_typed<float>(a, factors, step, nullptr, begin, end);
  on_float(a.copy.dtype(),
           [&]<class C>() { apply_typed<C>(a, factors, step, a.copy.data<C>(), begin, end); });
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels {
namespace {

DS_SIMD_EXPORT(lamb_moments_range);
DS_SIMD_EXPORT(lamb_apply_range);

constexpr int64_t kChunk = 4096;

}  // namespace

namespace detail {

void lamb_moments_cpu(Stream& stream, const LambArgs& args, const LambRule& rule,
                      const StepScalars& scalars, const Tensor& sums) {
  const StepOutcome& outcome = scalars.outcome();
  if (outcome.skip != 0) return;
  const LambFactors factors = factors_of(rule, scalars.inputs());
  const int64_t n = args.master.numel(), chunks = (n + kChunk - 1) / kChunk;
  std::vector<std::array<double, kLambSums>> of_chunks(to_size(chunks));
  stream.pool().parallel_for(chunks, 1, [&](int64_t first, int64_t last) {
    for (int64_t chunk = first; chunk < last; ++chunk) {
      DS_SIMD(lamb_moments_range)
      (args, factors, outcome.grad_scale, chunk * kChunk, std::min(n, (chunk + 1) * kChunk),
       sums.defined() ? nth(of_chunks, chunk).data() : nullptr);
    }
  });
  if (!sums.defined()) return;
  double* total = sums.data<double>();
  for (const auto& [weights, directions] : of_chunks) {
    total[0] += weights;
    total[1] += directions;
  }
}

void lamb_apply_cpu(Stream& stream, const LambArgs& args, const LambRule& rule,
                    const StepScalars& scalars, const LambSums& sums) {
  if (scalars.outcome().skip != 0) return;
  const LambFactors factors = factors_of(rule, scalars.inputs());
  const float step =
      lamb_step(rule, factors, sums.gathered.data<double>(),
                sums.gathered.numel() / (sums.params * kLambSums), sums.params, sums.param);
  stream.pool().parallel_for(args.master.numel(), kChunk, [&](int64_t begin, int64_t end) {
    DS_SIMD(lamb_apply_range)(args, factors, step, begin, end);
  });
}

}  // namespace detail
}  // namespace ds::kernels
#endif  // HWY_ONCE
