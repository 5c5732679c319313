// Error feedback on CUDA devices: one pass over packs of 16 bytes.
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/map.cuh"
#include "kernels/quantize/error_factors.h"
#include "kernels/quantize/error_feedback_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;

struct Average {
  float beta;
  __device__ float operator()(float meant, float said, float kept) const {
    const float next = beta * kept + (1 - beta) * (meant - said);
    return next - next == 0 ? next : 0.0F;  // what is not finite differs from itself
  }
};

__global__ void rescale_errors_kernel(int64_t numel, const StepOutcome* outcome, float* scales) {
  const float factor = scale_of_errors(*outcome);
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < numel;
       i += threads) {
    scales[i] *= factor;
  }
}

}  // namespace

void feed_back_cuda(Stream& stream, const Tensor& x, const Tensor& y, float beta, Tensor& error) {
  auto* const kept = elements<float>(error);
  cuda::map("feed_back", stream, error.numel(), Average{beta}, kept, elements<const float>(x),
            elements<const float>(y), static_cast<const float*>(kept));
}

void rescale_errors_cuda(Stream& stream, const StepScalars& scalars, Tensor& scales) {
  cuda::launch("rescale_errors", rescale_errors_kernel, cuda::shape_for(scales.numel()), stream,
               scales.numel(), &scalars.outcome(), elements<float>(scales));
}

}  // namespace ds::kernels::detail
