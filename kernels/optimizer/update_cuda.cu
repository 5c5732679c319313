// Adam on CUDA devices: one launch over packs, which reads on the device what step it is and
// whether it has to be made.
#include "core/device/dispatch.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/optimizer/update_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::Pack;

template <class M, class G, class C>
struct AdamPointers {
  float* master;
  M* exp_avg;
  M* exp_avg_sq;
  const G* grad;
  C* copy;  // or null
};

// The formula and the roundings of the CPU half, which names its fused operations too.
__device__ inline float adam_element(const AdamFactors& k, float w, float g, float& m, float& v) {
  g = fmaf(w, k.l2, g * k.scale);
  m = fmaf(g - m, k.one_minus_beta1, m);
  v = fmaf(v, k.beta2, g * g * k.one_minus_beta2);
  const float denominator = fmaf(sqrtf(v), k.inverse_root2, k.eps);
  return fmaf(-k.step, m / denominator, w * k.keep);
}

template <int N, class M, class G, class C>
__device__ void adam_pack(const AdamFactors& k, const AdamPointers<M, G, C>& p, int64_t at) {
  Pack<float, N> w = cuda::load<N>(p.master + at);
  Pack<M, N> moment = cuda::load<N>(p.exp_avg + at);
  Pack<M, N> moment_sq = cuda::load<N>(p.exp_avg_sq + at);
  const Pack<G, N> g = cuda::load<N>(p.grad + at);
  for (int i = 0; i < N; ++i) {
    auto m = static_cast<float>(moment.values[i]);
    auto v = static_cast<float>(moment_sq.values[i]);
    w.values[i] = adam_element(k, w.values[i], static_cast<float>(g.values[i]), m, v);
    moment.values[i] = static_cast<M>(m);
    moment_sq.values[i] = static_cast<M>(v);
  }
  cuda::store(moment, p.exp_avg + at);
  cuda::store(moment_sq, p.exp_avg_sq + at);
  cuda::store(w, p.master + at);
  if (p.copy == nullptr) return;
  Pack<C, N> rounded;
  for (int i = 0; i < N; ++i) rounded.values[i] = static_cast<C>(w.values[i]);
  cuda::store(rounded, p.copy + at);
}

// N weights at a time, then the last ones singly.
template <int N, class M, class G, class C>
__global__ void adam_kernel(int64_t numel, AdamRule rule, const StepInputs* inputs,
                            const StepOutcome* outcome, AdamPointers<M, G, C> p) {
  if (outcome->skip != 0) return;
  // Their divisions in fp64 are dear: one thread makes them for its block.
  DS_SHARED(AdamFactors, shared, 1);
  if (threadIdx.x == 0) shared[0] = factors_of(rule, *inputs, *outcome);
  __syncthreads();
  const AdamFactors factors = shared[0];
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t packs = numel / N;
  for (int64_t pack = first; pack < packs; pack += threads) adam_pack<N>(factors, p, pack * N);
  for (int64_t i = packs * N + first; i < numel; i += threads) adam_pack<1>(factors, p, i);
}

template <class M, class G, class C>
void update(Stream& stream, const AdamArgs& args, const StepScalars& scalars) {
  const AdamPointers<M, G, C> p{.master = static_cast<float*>(args.master.address()),
                                .exp_avg = static_cast<M*>(args.exp_avg.address()),
                                .exp_avg_sq = static_cast<M*>(args.exp_avg_sq.address()),
                                .grad = static_cast<const G*>(args.grad.address()),
                                .copy = static_cast<C*>(args.copy.address())};
  constexpr int kPack = cuda::kPackOf<float>;
  const int64_t n = args.master.numel();
  const auto launch = [&](auto* kernel, int64_t items) {
    cuda::launch("adam_update", kernel, cuda::shape_for(items), stream, n, args.rule,
                 &scalars.inputs(), &scalars.outcome(), p);
  };
  const bool aligned = cuda::is_aligned<kPack>(p.master) && cuda::is_aligned<kPack>(p.exp_avg) &&
                       cuda::is_aligned<kPack>(p.exp_avg_sq) && cuda::is_aligned<kPack>(p.grad) &&
                       cuda::is_aligned<kPack>(p.copy);
  if (aligned) {
    launch(adam_kernel<kPack, M, G, C>, n / kPack);
  } else {
    launch(adam_kernel<1, M, G, C>, n);
  }
}

template <class M>
void update_moments(Stream& stream, const AdamArgs& args, const StepScalars& scalars) {
  on_float(args.grad.dtype(), [&]<class G>() {
    on_float(args.copy.defined() ? args.copy.dtype() : DType::kBF16,
             [&]<class C>() { update<M, G, C>(stream, args, scalars); });
  });
}

}  // namespace

void adam_update_cuda(Stream& stream, const AdamArgs& args, const StepScalars& scalars) {
  if (args.exp_avg.dtype() == DType::kF32) {
    update_moments<float>(stream, args, scalars);
  } else {
    update_moments<BF16>(stream, args, scalars);
  }
}

}  // namespace ds::kernels::detail
