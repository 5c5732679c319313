// LAMB's passes on CUDA devices: one launch each over a parameter, and one block that adds up the
// sums of the first one's blocks, whose number depends on the number of elements alone.
#include "core/device/dispatch.h"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/optimizer/lamb_update_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;

constexpr int kThreads = 256;

struct LambPointers {
  float* master;
  float* exp_avg;
  float* exp_avg_sq;
};

template <class G>
__global__ void lamb_moments_kernel(int64_t numel, LambRule rule, const StepInputs* inputs,
                                    const StepOutcome* outcome, LambPointers p, const G* grad,
                                    double* sums) {
  if (outcome->skip != 0) return;
  DS_SHARED(LambFactors, shared, 1);
  if (threadIdx.x == 0) shared[0] = factors_of(rule, *inputs);
  __syncthreads();
  const LambFactors k = shared[0];
  const float scale = outcome->grad_scale;
  double weights = 0, directions = 0;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < numel; i += threads) {
    const float g = static_cast<float>(grad[i]) * scale;
    const float w = p.master[i];
    const float m = fmaf(p.exp_avg[i], k.beta1, g * k.rest1);
    const float v = fmaf(p.exp_avg_sq[i], k.beta2, g * g * k.rest2);
    p.exp_avg[i] = m;
    p.exp_avg_sq[i] = v;
    const auto u = static_cast<double>(lamb_direction(k, w, m, v));
    weights += static_cast<double>(w) * static_cast<double>(w);
    directions += u * u;
  }
  if (sums == nullptr) return;
  weights = cuda::block_sum(weights);
  __syncthreads();
  directions = cuda::block_sum(directions);
  if (threadIdx.x != 0) return;
  sums[blockIdx.x * kLambSums] = weights;
  sums[blockIdx.x * kLambSums + 1] = directions;
}

__global__ void lamb_totals_kernel(int64_t blocks, const StepOutcome* outcome, const double* sums,
                                   double* total) {
  if (outcome->skip != 0 || threadIdx.x >= kLambSums) return;
  double sum = 0;
  for (int64_t block = 0; block < blocks; ++block) sum += sums[block * kLambSums + threadIdx.x];
  total[threadIdx.x] += sum;
}

template <class C>
__global__ void lamb_apply_kernel(int64_t numel, LambRule rule, const StepInputs* inputs,
                                  const StepOutcome* outcome, LambPointers p, C* copy,
                                  const double* gathered, int64_t ranks, int64_t params,
                                  int64_t param) {
  if (outcome->skip != 0) return;
  DS_SHARED(LambFactors, shared, 1);
  DS_SHARED(float, step_of_all, 1);
  if (threadIdx.x == 0) {
    shared[0] = factors_of(rule, *inputs);
    step_of_all[0] = lamb_step(rule, shared[0], gathered, ranks, params, param);
  }
  __syncthreads();
  const LambFactors k = shared[0];
  const float step = step_of_all[0];
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < numel; i += threads) {
    const float w = p.master[i];
    const float moved = fmaf(-step, lamb_direction(k, w, p.exp_avg[i], p.exp_avg_sq[i]), w);
    p.master[i] = moved;
    if (copy != nullptr) copy[i] = static_cast<C>(moved);
  }
}

LambPointers pointers_of(const LambArgs& args) {
  return {.master = elements<float>(args.master),
          .exp_avg = elements<float>(args.exp_avg),
          .exp_avg_sq = elements<float>(args.exp_avg_sq)};
}

// Few enough for one block to add up what they find.
cuda::LaunchShape shape_of(int64_t numel) {
  constexpr int64_t kMostBlocks = 1024;
  cuda::LaunchShape shape = cuda::shape_for(numel, kThreads);
  shape.blocks = shape.blocks < kMostBlocks ? shape.blocks : kMostBlocks;
  return shape;
}

}  // namespace

void lamb_moments_cuda(Stream& stream, const LambArgs& args, const LambRule& rule,
                       const StepScalars& scalars, const Tensor& sums) {
  const int64_t n = args.master.numel();
  const cuda::LaunchShape shape = shape_of(n);
  Tensor of_blocks;
  if (sums.defined()) {
    of_blocks = Tensor::empty({shape.blocks * kLambSums}, DType::kF64, stream, MemoryTag::kScratch);
  }
  double* partial = static_cast<double*>(of_blocks.address());
  on_float(args.grad.dtype(), [&]<class G>() {
    cuda::launch("lamb_moments", lamb_moments_kernel<G>, shape, stream, n, rule, &scalars.inputs(),
                 &scalars.outcome(), pointers_of(args), elements<const G>(args.grad), partial);
  });
  if (!sums.defined()) return;
  cuda::launch("lamb_totals", lamb_totals_kernel, {.blocks = 1, .threads = cuda::kWarp}, stream,
               shape.blocks, &scalars.outcome(), static_cast<const double*>(partial),
               elements<double>(sums));
}

void lamb_apply_cuda(Stream& stream, const LambArgs& args, const LambRule& rule,
                     const StepScalars& scalars, const LambSums& sums) {
  const int64_t n = args.master.numel();
  const int64_t ranks = sums.gathered.numel() / (sums.params * kLambSums);
  on_float(args.copy.defined() ? args.copy.dtype() : DType::kF32, [&]<class C>() {
    cuda::launch("lamb_apply", lamb_apply_kernel<C>, cuda::shape_for(n, kThreads), stream, n, rule,
                 &scalars.inputs(), &scalars.outcome(), pointers_of(args),
                 static_cast<C*>(args.copy.address()), elements<const double>(sums.gathered), ranks,
                 sums.params, sums.param);
  });
}

}  // namespace ds::kernels::detail
