// Parts of attention on CUDA devices whose queries see all keys up to one, with the usual scale,
// and what all parts have in common.
#include "kernels/attention/cuda/part.cuh"

namespace ds::kernels::detail {
namespace {

// A warp per row of a head.
template <class T>
__global__ void delta_kernel(AttentionShape shape, const T* y, const T* dy, float* delta) {
  const int64_t warps = static_cast<int64_t>(gridDim.x) * blockDim.x / cuda::kWarp;
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / cuda::kWarp;
  const int dim = static_cast<int>(shape.head_dim);
  for (int64_t i = first; i < shape.batch * shape.length * shape.heads; i += warps) {
    const float sum = row_product(dy + i * dim, y + i * dim, dim);
    if (cuda::lane_of_warp() != 0) continue;
    const int64_t row = i / shape.heads;
    const int64_t head = row / shape.length * shape.heads + i % shape.heads;
    delta[head * shape.length + row % shape.length] = sum;
  }
}

}  // namespace

void attention_part_forward_cuda(Stream& stream, const AttentionPart& part, const Tensor& qkv,
                                 const Tensor& kv, Tensor& y, Tensor& log_sum_exp, Write write) {
  const auto run = is_plain(part) ? part_forward<false> : masked_part_forward;
  run(stream, part, qkv, kv, y, log_sum_exp, write);
}

void attention_delta_cuda(Stream& stream, const AttentionShape& shape, const Tensor& y,
                          const Tensor& dy, Tensor& delta) {
  on_float(y.dtype(), [&]<class T>() {
    cuda::launch("attention_delta", delta_kernel<T>,
                 cuda::shape_for(shape.batch * shape.length * shape.heads * cuda::kWarp), stream,
                 shape, cuda::elements<const T>(y), cuda::elements<const T>(dy),
                 cuda::elements<float>(delta));
  });
}

void attention_part_backward_cuda(Stream& stream, const AttentionPart& part, const Tensor& qkv,
                                  const Tensor& kv, const AttentionPartGrads& grads) {
  const auto run = is_plain(part) ? part_backward<false> : masked_part_backward;
  run(stream, part, qkv, kv, grads);
}

}  // namespace ds::kernels::detail
