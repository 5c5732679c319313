// Lion, Adagrad and SGD on CUDA devices: one launch over packs, which reads on the device what step
// it is and whether it has to be made. What is done to one weight is update_rules.h's.
#include "core/dispatch.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/rule_update.h"

namespace ds::kernels::detail {
namespace {

using cuda::Pack;

template <class G, class C>
struct RulePointers {
  float* master;
  float* state;  // or null
  const G* grad;
  C* copy;  // or null
};

template <int N, class Factors, class G, class C>
__device__ void update_pack(const Factors& factors, float grad_scale, const RulePointers<G, C>& p,
                            int64_t at) {
  Pack<float, N> w = cuda::load<N>(p.master + at);
  Pack<float, N> state{};
  if (p.state != nullptr) state = cuda::load<N>(p.state + at);
  const Pack<G, N> grad = cuda::load<N>(p.grad + at);
  for (int i = 0; i < N; ++i) {
    const float g = static_cast<float>(grad.values[i]) * grad_scale;
    update_element(factors, w.values[i], g, state.values[i]);
  }
  cuda::store(w, p.master + at);
  if (p.state != nullptr) cuda::store(state, p.state + at);
  if (p.copy == nullptr) return;
  Pack<C, N> rounded;
  for (int i = 0; i < N; ++i) rounded.values[i] = static_cast<C>(w.values[i]);
  cuda::store(rounded, p.copy + at);
}

// N weights at a time, then the last ones singly.
template <int N, class Rule, class G, class C>
__global__ void rule_kernel(int64_t numel, Rule rule, const StepInputs* inputs,
                            const StepOutcome* outcome, RulePointers<G, C> p) {
  if (outcome->skip != 0) return;
  const auto factors = factors_of(rule, *inputs);
  const float grad_scale = outcome->grad_scale;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t packs = numel / N;
  for (int64_t pack = first; pack < packs; pack += threads) {
    update_pack<N>(factors, grad_scale, p, pack * N);
  }
  for (int64_t i = packs * N + first; i < numel; i += threads) {
    update_pack<1>(factors, grad_scale, p, i);
  }
}

template <class Rule, class G, class C>
void update(Stream& stream, const RuleArgs& args, const Rule& rule, const StepScalars& scalars) {
  const RulePointers<G, C> p{.master = static_cast<float*>(args.master.address()),
                             .state = static_cast<float*>(args.state.address()),
                             .grad = static_cast<const G*>(args.grad.address()),
                             .copy = static_cast<C*>(args.copy.address())};
  constexpr int kPack = cuda::kPackOf<float>;
  const int64_t n = args.master.numel();
  const auto launch = [&](auto* kernel, int64_t items) {
    cuda::launch("rule_update", kernel, cuda::shape_for(items), stream, n, rule, &scalars.inputs(),
                 &scalars.outcome(), p);
  };
  const bool aligned = cuda::is_aligned<kPack>(p.master) && cuda::is_aligned<kPack>(p.state) &&
                       cuda::is_aligned<kPack>(p.grad) && cuda::is_aligned<kPack>(p.copy);
  if (aligned) {
    launch(rule_kernel<kPack, Rule, G, C>, n / kPack);
  } else {
    launch(rule_kernel<1, Rule, G, C>, n);
  }
}

}  // namespace

template <class Rule>
void rule_update_cuda(Stream& stream, const RuleArgs& args, const Rule& rule,
                      const StepScalars& scalars) {
  on_float(args.grad.dtype(), [&]<class G>() {
    on_float(args.copy.defined() ? args.copy.dtype() : DType::kF32,
             [&]<class C>() { update<Rule, G, C>(stream, args, rule, scalars); });
  });
}

template void rule_update_cuda(Stream&, const RuleArgs&, const LionRule&, const StepScalars&);
template void rule_update_cuda(Stream&, const RuleArgs&, const AdagradRule&, const StepScalars&);
template void rule_update_cuda(Stream&, const RuleArgs&, const SgdRule&, const StepScalars&);

}  // namespace ds::kernels::detail
