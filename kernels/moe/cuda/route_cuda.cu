// Routing on CUDA devices: a warp has a token, whose scores and ranks lie in shared memory. Sums
// run in the order of experts, so that they have the CPU's bits.
#include "core/device/dispatch.h"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/moe/cuda/route_cuda.h"
#include "kernels/moe/route_formula.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;
using cuda::kWarp;

constexpr int kWarps = 4;  // of a block

struct Routed {
  RouteRule rule;
  int64_t tokens = 0;
  const float* logits = nullptr;
  const float* bias = nullptr;    // or null
  const uint8_t* used = nullptr;  // or null
  int32_t* experts = nullptr;
  float* weights = nullptr;
  float* scores = nullptr;  // or null
};

// A token of a warp.
struct Token {
  float* scores;
  float* ranks;
  uint64_t* keys;  // of groups, then of experts; 0: taken or left out
  int lane;
};

// scores = softmax or sigmoid of `logits`.
__device__ void score_experts(const RouteRule& rule, const float* logits, const Token& token) {
  if (rule.score == RouterScore::kSigmoid) {
    for (int64_t e = token.lane; e < rule.experts; e += kWarp) {
      token.scores[e] = router_sigmoid(logits[e]);
    }
    __syncwarp();
    return;
  }
  float top = -INFINITY;
  for (int64_t e = token.lane; e < rule.experts; e += kWarp) {
    top = logits[e] > top ? logits[e] : top;
  }
  top = cuda::warp_reduce(top, cuda::Larger{});
  for (int64_t e = token.lane; e < rule.experts; e += kWarp) {
    token.scores[e] = exponential(logits[e] - top);
  }
  __syncwarp();
  float sum = 0;
  for (int64_t e = 0; e < rule.experts; ++e) sum += token.scores[e];
  __syncwarp();  // before the exponentials are divided
  for (int64_t e = token.lane; e < rule.experts; e += kWarp) token.scores[e] /= sum;
  __syncwarp();
}

// Takes the best of `count` keys, which becomes 0, and returns its index to all lanes.
__device__ int32_t take_best(int64_t count, const Token& token) {
  uint64_t best = 0;
  for (int64_t i = token.lane; i < count; i += kWarp) {
    best = token.keys[i] > best ? token.keys[i] : best;
  }
  best = cuda::warp_reduce(best, cuda::Larger{});
  const int32_t index = index_of_key(best);
  if (token.lane == 0) token.keys[index] = 0;
  __syncwarp();
  return index;
}

// Leaves the keys of all experts that are in the token's groups, and 0 of others.
__device__ void rank_groups(const RouteRule& rule, const Token& token) {
  const int64_t size = rule.experts / rule.groups;
  for (int64_t g = token.lane; g < rule.groups; g += kWarp) {
    token.keys[g] = choice_key(group_rank(rule.group_score, token.ranks + g * size, size), g);
  }
  __syncwarp();
  for (int64_t i = 0; i < rule.limited_groups; ++i) take_best(rule.groups, token);
  // Groups that have not been taken: the ranks of their experts become NaN.
  for (int64_t e = token.lane; e < rule.experts; e += kWarp) {
    if (token.keys[e / size] != 0) token.ranks[e] = NAN;
  }
  __syncwarp();
}

__device__ void choose_experts(const Routed& of, const float* logits, const Token& token,
                               int32_t* experts) {
  const RouteRule& rule = of.rule;
  const bool by_score = ranks_by_score(rule, of.bias != nullptr);
  for (int64_t e = token.lane; e < rule.experts; e += kWarp) {
    const float rank =
        by_score ? token.scores[e] + (of.bias != nullptr ? of.bias[e] : 0.0F) : logits[e];
    token.ranks[e] = rank != rank ? -INFINITY : rank;
  }
  __syncwarp();
  if (rule.groups > 1) rank_groups(rule, token);
  for (int64_t e = token.lane; e < rule.experts; e += kWarp) {
    token.keys[e] = token.ranks[e] != token.ranks[e] ? 0 : choice_key(token.ranks[e], e);
  }
  __syncwarp();
  for (int64_t j = 0; j < rule.choices; ++j) {
    const int32_t expert = take_best(rule.experts, token);
    if (token.lane == 0) experts[j] = expert;
  }
}

__global__ void route_kernel(Routed of) {
  DS_SHARED_OF_LAUNCH(uint64_t, shared);
  const RouteRule& rule = of.rule;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  uint64_t* const own = shared + 2 * rule.experts * warp;
  const Token token{.scores = reinterpret_cast<float*>(own + rule.experts),
                    .ranks = reinterpret_cast<float*>(own + rule.experts) + rule.experts,
                    .keys = own,
                    .lane = static_cast<int>(threadIdx.x) % kWarp};
  const int64_t stride = int64_t{gridDim.x} * kWarps;
  for (int64_t n = int64_t{blockIdx.x} * kWarps + warp; n < of.tokens; n += stride) {
    const float* const logits = of.logits + n * rule.experts;
    int32_t* const experts = of.experts + n * rule.choices;
    score_experts(rule, logits, token);
    if (of.used != nullptr && of.used[n] == 0) {
      for (int64_t j = token.lane; j < rule.choices; j += kWarp) experts[j] = -1;
      __syncwarp();  // before the first lane reads them
    } else {
      choose_experts(of, logits, token, experts);
    }
    if (of.scores != nullptr) {
      for (int64_t e = token.lane; e < rule.experts; e += kWarp) {
        of.scores[n * rule.experts + e] = token.scores[e];
      }
    }
    if (token.lane == 0) {
      weigh_choices(rule, token.scores, experts, of.weights + n * rule.choices);
    }
    __syncwarp();  // before the next token's scores come
  }
}

__global__ void weights_kernel(RouteRule rule, int64_t tokens, const float* scores,
                               const int32_t* experts, float* weights) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t n = first; n < tokens; n += threads) {
    weigh_choices(rule, scores + n * rule.experts, experts + n * rule.choices,
                  weights + n * rule.choices);
  }
}

struct Gradients {
  RouteRule rule;
  int64_t tokens = 0;
  const float* scores = nullptr;
  const int32_t* experts = nullptr;
  const float* dweights = nullptr;
  const float* dscores = nullptr;  // or null
  float* dlogits = nullptr;
  bool accumulate = false;
};

__global__ void route_backward_kernel(Gradients of) {
  DS_SHARED_OF_LAUNCH(float, shared);
  const RouteRule& rule = of.rule;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float* const dscores = shared + rule.experts * warp;
  const int64_t stride = int64_t{gridDim.x} * kWarps;
  for (int64_t n = int64_t{blockIdx.x} * kWarps + warp; n < of.tokens; n += stride) {
    const float* const scores = of.scores + n * rule.experts;
    const int32_t* const experts = of.experts + n * rule.choices;
    const float* const dweights = of.dweights + n * rule.choices;
    float* const dlogits = of.dlogits + n * rule.experts;
    for (int64_t e = lane; e < rule.experts; e += kWarp) {
      dscores[e] = of.dscores != nullptr ? of.dscores[n * rule.experts + e] : 0.0F;
    }
    __syncwarp();
    if (lane == 0) {
      const WeightGradient gradient = weight_gradient(rule, scores, experts, dweights);
      for (int64_t j = 0; j < rule.choices; ++j) {
        if (experts[j] < 0 || experts[j] >= rule.experts) continue;
        dscores[experts[j]] += gradient.factor * (dweights[j] - gradient.mean);
      }
    }
    __syncwarp();
    float mean = 0;
    if (rule.score == RouterScore::kSoftmax) {
      for (int64_t e = lane; e < rule.experts; e += kWarp) mean += dscores[e] * scores[e];
      mean = cuda::warp_reduce(mean, cuda::Plus{});
    }
    for (int64_t e = lane; e < rule.experts; e += kWarp) {
      const float slope = rule.score == RouterScore::kSoftmax
                              ? scores[e] * (dscores[e] - mean)
                              : dscores[e] * scores[e] * (1.0F - scores[e]);
      dlogits[e] = of.accumulate ? dlogits[e] + slope : slope;
    }
    __syncwarp();  // before the next token's gradients come
  }
}

cuda::LaunchShape shape_for_tokens(int64_t tokens, int64_t bytes_of_expert, int64_t experts) {
  cuda::LaunchShape shape = cuda::shape_for(tokens * kWarp, kWarps * kWarp);
  shape.shared_bytes = to_size(kWarps * experts * bytes_of_expert);
  return shape;
}

}  // namespace

void route_cuda(Stream& stream, const RouteArgs& args) {
  const RouteRule& rule = args.rule;
  const Routed of{.rule = rule,
                  .tokens = args.experts.numel() / rule.choices,
                  .logits = elements<const float>(args.logits),
                  .bias = elements<const float>(args.bias),
                  .used = elements<const uint8_t>(args.used),
                  .experts = elements<int32_t>(args.experts),
                  .weights = elements<float>(args.weights),
                  .scores = elements<float>(args.scores)};
  constexpr int64_t kBytes = sizeof(uint64_t) + 2 * sizeof(float);
  cuda::launch("route", route_kernel, shape_for_tokens(of.tokens, kBytes, rule.experts), stream,
               of);
}

void route_weights_cuda(Stream& stream, const RouteRule& rule, const Tensor& scores,
                        const Tensor& experts, Tensor& weights) {
  const int64_t tokens = experts.numel() / rule.choices;
  cuda::launch("route_weights", weights_kernel, cuda::shape_for(tokens), stream, rule, tokens,
               elements<const float>(scores), elements<const int32_t>(experts),
               elements<float>(weights));
}

void route_backward_cuda(Stream& stream, const RouteBackwardArgs& args) {
  const RouteRule& rule = args.rule;
  const Gradients of{.rule = rule,
                     .tokens = args.experts.numel() / rule.choices,
                     .scores = elements<const float>(args.scores),
                     .experts = elements<const int32_t>(args.experts),
                     .dweights = elements<const float>(args.dweights),
                     .dscores = elements<const float>(args.dscores),
                     .dlogits = elements<float>(args.dlogits),
                     .accumulate = args.write == Write::kAccumulate};
  cuda::launch("route_backward", route_backward_kernel,
               shape_for_tokens(of.tokens, sizeof(float), rule.experts), stream, of);
}

}  // namespace ds::kernels::detail
