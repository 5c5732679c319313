// Losses of values on CUDA devices: a thread for each row.
#include "core/device/dispatch.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/map.cuh"
#include "kernels/front/loss_scale.h"
#include "kernels/value_loss/value_loss_cuda.h"
#include "kernels/value_loss/value_loss_operands.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;

struct Operands {
  ValueLoss loss;
  int64_t rows, width, length;
  const float* values;
  const int32_t* targets;
  float* losses;
  float grad_scale;
  const double* loss_scale;
};

template <class T>
__global__ void value_loss_kernel(Operands o, const T* scores, T* slopes) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const float scale = scaled(o.grad_scale, o.loss_scale) / static_cast<float>(o.width);
  for (int64_t row = first; row < o.rows; row += threads) {
    const bool counts = o.targets[row] >= 0;
    const float* const values = o.values + row / o.length * o.width;
    float sum = 0;
    for (int64_t k = 0; k < o.width; ++k) {
      const int64_t at = row * o.width + k;
      ScoreLoss one;
      if (counts) {
        const auto score = static_cast<float>(scores[at]);
        const float small = expf(-fabsf(score));
        one = score_loss(o.loss, score, values[k], small, log1pf(small));
      }
      sum += one.loss;
      if (slopes != nullptr) slopes[at] = static_cast<T>(one.slope * scale);
    }
    o.losses[row] = sum / static_cast<float>(o.width);
  }
}

}  // namespace

void value_loss_cuda(Stream& stream, const ValueLossArgs& args) {
  const int64_t rows = args.scores.shape()[0], width = args.scores.shape()[1];
  const Operands operands{.loss = args.loss,
                          .rows = rows,
                          .width = width,
                          .length = rows / args.values.shape()[0],
                          .values = elements<const float>(args.values),
                          .targets = elements<const int32_t>(args.targets),
                          .losses = elements<float>(args.losses),
                          .grad_scale = args.grad_scale,
                          .loss_scale = args.loss_scale};
  on_float(args.scores.dtype(), [&]<class T>() {
    T* const slopes = args.dscores.defined() ? elements<T>(args.dscores) : nullptr;
    cuda::launch("value_loss", value_loss_kernel<T>, cuda::shape_for(rows), stream, operands,
                 elements<const T>(args.scores), slopes);
  });
}

}  // namespace ds::kernels::detail
