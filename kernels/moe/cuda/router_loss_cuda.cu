// Losses of routers on CUDA devices: sums over groups of tokens, then one block adds these up in
// their order; a warp has a token's log-sum-exp.
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/front/loss_scale.h"
#include "kernels/moe/cuda/router_loss_cuda.h"
#include "kernels/moe/route_operands.h"
#include "kernels/moe/router_loss_formula.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;
using cuda::kWarp;

constexpr int kThreads = 256;
static_assert(kThreads == kLanesOfSum, "a thread has a lane");

// sums: [groups, experts].
__global__ void group_sums_kernel(int64_t tokens, int64_t experts, const float* scores,
                                  double* sums) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t groups = (tokens + kTokensOfSum - 1) / kTokensOfSum;
  for (int64_t i = begin; i < groups * experts; i += threads) {
    const int64_t first = i / experts * kTokensOfSum;
    const int64_t past = first + kTokensOfSum < tokens ? first + kTokensOfSum : tokens;
    double sum = 0;
    for (int64_t n = first; n < past; ++n) {
      sum += static_cast<double>(scores[n * experts + i % experts]);
    }
    sums[i] = sum;
  }
}

// One block.
__global__ void balance_kernel(int64_t tokens, int64_t experts, int64_t choices, const double* sums,
                               const int32_t* counts, double* loss) {
  DS_SHARED(double, of_experts, kMostExperts);
  const int64_t groups = (tokens + kTokensOfSum - 1) / kTokensOfSum;
  for (int64_t e = threadIdx.x; e < experts; e += blockDim.x) {
    double sum = 0;
    for (int64_t group = 0; group < groups; ++group) sum += sums[group * experts + e];
    of_experts[e] = sum;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  double total = 0;
  for (int64_t e = 0; e < experts; ++e) total += of_experts[e] * static_cast<double>(counts[e]);
  *loss = balance_loss_of(total, tokens, experts, choices);
}

__global__ void balance_backward_kernel(int64_t tokens, int64_t experts, int64_t choices,
                                        const int32_t* counts, LossGradient gradient,
                                        float* dscores) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const double scale = static_cast<double>(scaled(gradient.grad_scale, gradient.loss_scale));
  for (int64_t i = begin; i < tokens * experts; i += threads) {
    const double loss =
        balance_loss_of(static_cast<double>(counts[i % experts]), tokens, experts, choices);
    const auto slope = static_cast<float>(loss * scale);
    dscores[i] = gradient.write == Write::kAccumulate ? dscores[i] + slope : slope;
  }
}

__device__ double log_sum_exp_of(const float* logits, int64_t experts) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float top = -INFINITY;
  for (int64_t e = lane; e < experts; e += kWarp) top = logits[e] > top ? logits[e] : top;
  top = cuda::warp_reduce(top, cuda::Larger{});
  double sum = 0;
  for (int64_t e = lane; e < experts; e += kWarp) {
    sum += exp(static_cast<double>(logits[e]) - static_cast<double>(top));
  }
  return static_cast<double>(top) + log(cuda::warp_reduce(sum, cuda::Plus{}));
}

__global__ void squares_kernel(int64_t tokens, int64_t experts, const float* logits,
                               double* squares) {
  const int64_t warps = static_cast<int64_t>(gridDim.x) * (kThreads / kWarp);
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kWarp;
  for (int64_t n = first; n < tokens; n += warps) {
    const double z = log_sum_exp_of(logits + n * experts, experts);
    if (threadIdx.x % kWarp == 0) squares[n] = z * z;
  }
}

// One block.
__global__ void z_kernel(int64_t tokens, const double* squares, double* loss) {
  DS_SHARED(double, of_lanes, kThreads);
  of_lanes[threadIdx.x] = sum_of_lane(squares, tokens, threadIdx.x);
  __syncthreads();
  if (threadIdx.x != 0) return;
  double sum = 0;
  for (int lane = 0; lane < kThreads; ++lane) sum += of_lanes[lane];
  *loss = tokens == 0 ? 0.0 : sum / static_cast<double>(tokens);
}

__global__ void z_backward_kernel(int64_t tokens, int64_t experts, const float* logits,
                                  LossGradient gradient, float* dlogits) {
  const int64_t warps = static_cast<int64_t>(gridDim.x) * (kThreads / kWarp);
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kWarp;
  const float scale = scaled(gradient.grad_scale, gradient.loss_scale);
  for (int64_t n = first; n < tokens; n += warps) {
    const double z = log_sum_exp_of(logits + n * experts, experts);
    for (int64_t e = threadIdx.x % kWarp; e < experts; e += kWarp) {
      const int64_t i = n * experts + e;
      const float slope = z_slope(z, logits[i], tokens, scale);
      dlogits[i] = gradient.write == Write::kAccumulate ? dlogits[i] + slope : slope;
    }
  }
}

Tensor sums_for(Stream& stream, int64_t count) {
  return Tensor::empty({count}, DType::kF64, stream, MemoryTag::kScratch);
}

}  // namespace

void balance_loss_cuda(Stream& stream, const BalanceLoss& args, Tensor& loss) {
  const int64_t experts = args.counts.numel();
  const int64_t tokens = args.scores.numel() / experts;
  const int64_t numbers = (tokens + kTokensOfSum - 1) / kTokensOfSum * experts;
  const Tensor sums = sums_for(stream, numbers);
  cuda::launch("balance_loss", group_sums_kernel, cuda::shape_for(numbers), stream, tokens, experts,
               elements<const float>(args.scores), elements<double>(sums));
  cuda::launch("balance_loss", balance_kernel, {.blocks = 1, .threads = kThreads}, stream, tokens,
               experts, args.choices, elements<const double>(sums),
               elements<const int32_t>(args.counts), elements<double>(loss));
}

void balance_loss_backward_cuda(Stream& stream, const BalanceLoss& args,
                                const LossGradient& gradient, Tensor& dscores) {
  const int64_t experts = args.counts.numel();
  cuda::launch("balance_loss_backward", balance_backward_kernel, cuda::shape_for(dscores.numel()),
               stream, args.scores.numel() / experts, experts, args.choices,
               elements<const int32_t>(args.counts), gradient, elements<float>(dscores));
}

void z_loss_cuda(Stream& stream, const Tensor& logits, int64_t experts, Tensor& loss) {
  const int64_t tokens = logits.numel() / experts;
  const Tensor squares = sums_for(stream, tokens);
  cuda::launch("z_loss", squares_kernel, cuda::shape_for(tokens * kWarp, kThreads), stream, tokens,
               experts, elements<const float>(logits), elements<double>(squares));
  cuda::launch("z_loss", z_kernel, {.blocks = 1, .threads = kThreads}, stream, tokens,
               elements<const double>(squares), elements<double>(loss));
}

void z_loss_backward_cuda(Stream& stream, const Tensor& logits, int64_t experts,
                          const LossGradient& gradient, Tensor& dlogits) {
  const int64_t tokens = logits.numel() / experts;
  cuda::launch("z_loss_backward", z_backward_kernel, cuda::shape_for(tokens * kWarp, kThreads),
               stream, tokens, experts, elements<const float>(logits), gradient,
               elements<float>(dlogits));
}

}  // namespace ds::kernels::detail
