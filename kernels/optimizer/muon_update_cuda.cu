// Muon's small passes on CUDA devices, element by element.
#include "core/device/dispatch.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/optimizer/muon_update_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;

// fp32 or bf16.
template <class Use>
void on_direction(DType dtype, const Use& use) {
  dtype == DType::kF32 ? use.template operator()<float>() : use.template operator()<BF16>();
}

__device__ inline int64_t first_of_thread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t threads_of_grid() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

template <class G, class X>
__global__ void momentum_kernel(int64_t numel, float momentum, const StepOutcome* outcome,
                                const G* grad, float* m, X* x) {
  const bool skip = outcome->skip != 0;
  const float scale = outcome->grad_scale, rest = 1 - momentum;
  for (int64_t i = first_of_thread(); i < numel; i += threads_of_grid()) {
    if (skip) {
      x[i] = static_cast<X>(0.0F);
      continue;
    }
    const float g = static_cast<float>(grad[i]) * scale;
    const float moved = m[i] + rest * (g - m[i]);
    m[i] = moved;
    x[i] = static_cast<X>(g + momentum * (moved - g));
  }
}

template <class X, class C>
__global__ void apply_kernel(int64_t numel, MuonRule rule, const StepInputs* inputs,
                             const StepOutcome* outcome, float* weight, const X* x, C* copy) {
  if (outcome->skip != 0) return;
  DS_SHARED(MuonFactors, shared, 1);
  if (threadIdx.x == 0) shared[0] = factors_of(rule, *inputs);
  __syncthreads();
  const MuonFactors k = shared[0];
  for (int64_t i = first_of_thread(); i < numel; i += threads_of_grid()) {
    const float moved = weight[i] * k.keep - k.step * static_cast<float>(x[i]);
    weight[i] = moved;
    if (copy != nullptr) copy[i] = static_cast<C>(moved);
  }
}

template <class X>
__global__ void normalize_kernel(int64_t numel, const double* squares, X* x) {
  const auto factor = static_cast<float>(1 / (sqrt(*squares) + 1e-7));
  for (int64_t i = first_of_thread(); i < numel; i += threads_of_grid()) {
    x[i] = static_cast<X>(static_cast<float>(x[i]) * factor);
  }
}

template <class X>
__global__ void polynomial_kernel(int64_t side, Quintic by, const X* r, const X* s, X* z) {
  for (int64_t i = first_of_thread(); i < side * side; i += threads_of_grid()) {
    const float diagonal = i / side == i % side ? by.a : 0.0F;
    z[i] = static_cast<X>(diagonal + by.b * static_cast<float>(r[i]) +
                          by.c * static_cast<float>(s[i]));
  }
}

}  // namespace

void muon_momentum_cuda(Stream& stream, const MuonMomentumArgs& args, float momentum,
                        const StepScalars& scalars) {
  const int64_t n = args.x.numel();
  on_float(args.grad.dtype(), [&]<class G>() {
    on_direction(args.x.dtype(), [&]<class X>() {
      cuda::launch("muon_momentum", momentum_kernel<G, X>, cuda::shape_for(n), stream, n, momentum,
                   &scalars.outcome(), elements<const G>(args.grad), elements<float>(args.momentum),
                   elements<X>(args.x));
    });
  });
}

void muon_apply_cuda(Stream& stream, const MuonApplyArgs& args, const MuonRule& rule,
                     const StepScalars& scalars) {
  const int64_t n = args.x.numel();
  on_direction(args.x.dtype(), [&]<class X>() {
    on_float(args.copy.defined() ? args.copy.dtype() : DType::kF32, [&]<class C>() {
      cuda::launch("muon_apply", apply_kernel<X, C>, cuda::shape_for(n), stream, n, rule,
                   &scalars.inputs(), &scalars.outcome(), elements<float>(args.master),
                   elements<const X>(args.x), elements<C>(args.copy));
    });
  });
}

void muon_normalize_cuda(Stream& stream, const Tensor& x, const Tensor& squares) {
  on_direction(x.dtype(), [&]<class X>() {
    cuda::launch("muon_normalize", normalize_kernel<X>, cuda::shape_for(x.numel()), stream,
                 x.numel(), elements<const double>(squares), elements<X>(x));
  });
}

void muon_polynomial_cuda(Stream& stream, const Quintic& by, int64_t side, const Tensor& r,
                          const Tensor& s, const Tensor& z) {
  on_direction(r.dtype(), [&]<class X>() {
    cuda::launch("muon_polynomial", polynomial_kernel<X>, cuda::shape_for(side * side), stream,
                 side, by, elements<const X>(r), elements<const X>(s), elements<X>(z));
  });
}

}  // namespace ds::kernels::detail
