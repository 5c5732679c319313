// Sinks of attention on CUDA devices: a thread for each query.
#include "core/device/dispatch.h"
#include "kernels/attention/attention_sink_operands.h"
#include "kernels/attention/cuda/attention_sink_cuda.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.cuh"

namespace ds::kernels::detail {
namespace {

using cuda::elements;

// Calls work(head, number, row) for each query of this thread: its head, its place in [batch,
// heads, T], and its place in [batch * T, heads].
template <class Work>
__device__ void each_query(const AttentionShape& shape, const Work& work) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t number = first; number < shape.batch * shape.heads * shape.length;
       number += threads) {
    const auto [head, row] = sink_query(shape, number);
    work(head, number, row);
  }
}

template <class Sink, class T>
__global__ void add_sinks_kernel(AttentionShape shape, const Sink* sinks, T* y, float* sums) {
  each_query(shape, [&](int64_t head, int64_t number, int64_t row) {
    const float before = sums[number], sink = static_cast<float>(sinks[head]);
    const float most = fmaxf(before, sink), least = fminf(before, sink);
    const float after = most == -INFINITY ? most : most + log1pf(expf(least - most));
    sums[number] = after;
    const float factor = before == -INFINITY ? 0.0F : expf(before - after);
    T* const out = y + row * shape.head_dim;
    for (int64_t i = 0; i < shape.head_dim; ++i) {
      out[i] = static_cast<T>(static_cast<float>(out[i]) * factor);
    }
  });
}

template <class Sink>
__global__ void sink_terms_kernel(AttentionShape shape, const Sink* sinks, const float* sums,
                                  const float* delta, float* terms) {
  each_query(shape, [&](int64_t head, int64_t number, int64_t row) {
    const float sink = static_cast<float>(sinks[head]);
    const float weight = sums[number] == -INFINITY ? 0.0F : expf(sink - sums[number]);
    terms[row] = -weight * delta[number];
  });
}

cuda::LaunchShape threads_of(const AttentionShape& shape) {
  return cuda::shape_for(shape.batch * shape.heads * shape.length);
}

}  // namespace

void add_sinks_cuda(Stream& stream, const AttentionShape& shape, const Tensor& sinks, Tensor& y,
                    Tensor& log_sum_exp) {
  on_float(sinks.dtype(), [&]<class Sink>() {
    on_float(y.dtype(), [&]<class T>() {
      cuda::launch("add_sinks", add_sinks_kernel<Sink, T>, threads_of(shape), stream, shape,
                   elements<const Sink>(sinks), elements<T>(y), elements<float>(log_sum_exp));
    });
  });
}

void sink_terms_cuda(Stream& stream, const AttentionShape& shape, const Tensor& sinks,
                     const Tensor& log_sum_exp, const Tensor& delta, Tensor& terms) {
  on_float(sinks.dtype(), [&]<class Sink>() {
    cuda::launch("sink_terms", sink_terms_kernel<Sink>, threads_of(shape), stream, shape,
                 elements<const Sink>(sinks), elements<const float>(log_sum_exp),
                 elements<const float>(delta), elements<float>(terms));
  });
}

}  // namespace ds::kernels::detail
