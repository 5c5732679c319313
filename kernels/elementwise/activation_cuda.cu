// Pointwise activations and dropout on CUDA devices: one pass, arithmetic in fp32. What activations
// compute is in functions.cuh.
#include "core/device/dispatch.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/uniforms.cuh"
#include "kernels/elementwise/activation_cuda.h"
#include "kernels/elementwise/functions.cuh"

namespace ds::kernels::detail {
namespace {

using cuda::elements;
using cuda::on_activation;
using cuda::Pack;
using cuda::Uniforms;

template <class F>
struct Value {
  __device__ float operator()(float x) const { return F::value(x); }
};
template <class F>
struct Chained {
  __device__ float operator()(float x, float dy) const { return dy * F::slope(x); }
};

// y = f(gate) up
template <class F, int N, class T>
__global__ void glu_kernel(int64_t rows, int64_t width, const T* gate_up, T* y) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* const gate = gate_up + row * 2 * width;
    for (int64_t c = int64_t{threadIdx.x} * N; c < width; c += int64_t{blockDim.x} * N) {
      const Pack<T, N> g = cuda::load<N>(gate + c);
      const Pack<T, N> u = cuda::load<N>(gate + width + c);
      Pack<T, N> result;
      for (int i = 0; i < N; ++i) {
        const float gated = F::value(static_cast<float>(g.values[i]));
        result.values[i] = static_cast<T>(gated * static_cast<float>(u.values[i]));
      }
      cuda::store(result, y + row * width + c);
    }
  }
}

// dgate = dy up f'(gate), dup = dy f(gate)
template <class F, int N, class T>
__global__ void glu_backward_kernel(int64_t rows, int64_t width, const T* gate_up, const T* dy,
                                    T* dgate_up) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* const gate = gate_up + row * 2 * width;
    T* const dgate = dgate_up + row * 2 * width;
    for (int64_t c = int64_t{threadIdx.x} * N; c < width; c += int64_t{blockDim.x} * N) {
      const Pack<T, N> g = cuda::load<N>(gate + c);
      const Pack<T, N> u = cuda::load<N>(gate + width + c);
      const Pack<T, N> d = cuda::load<N>(dy + row * width + c);
      Pack<T, N> of_gate, of_up;
      for (int i = 0; i < N; ++i) {
        const auto x = static_cast<float>(g.values[i]);
        const auto dv = static_cast<float>(d.values[i]);
        of_gate.values[i] = static_cast<T>(dv * static_cast<float>(u.values[i]) * F::slope(x));
        of_up.values[i] = static_cast<T>(dv * F::value(x));
      }
      cuda::store(of_gate, dgate + c);
      cuda::store(of_up, dgate + width + c);
    }
  }
}

struct Dropping {
  DropoutMask mask;
  int64_t sample_numel;
  float p, keep;
};

template <int N, class T>
__global__ void dropout_kernel(int64_t numel, Dropping drop, const T* x, T* y) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t packs = numel / N;
  const Rng rng = drop.mask.rng();
  const auto first_index =
      static_cast<uint64_t>(drop.mask.inputs->first_sample * drop.sample_numel + drop.mask.skipped);
  const auto dropped = [&](Uniforms& uniforms, uint64_t index, T value) {
    const bool kept = uniforms.at(index) >= drop.p;
    return static_cast<T>(kept ? static_cast<float>(value) * drop.keep : 0.0F);
  };
  for (int64_t p = first; p < packs; p += threads) {
    const Pack<T, N> in = cuda::load<N>(x + p * N);
    const uint64_t index = first_index + static_cast<uint64_t>(p * N);
    Uniforms uniforms(rng, index);
    Pack<T, N> out;
    for (int i = 0; i < N; ++i) {
      out.values[i] = dropped(uniforms, index + static_cast<uint64_t>(i), in.values[i]);
    }
    cuda::store(out, y + p * N);
  }
  for (int64_t i = packs * N + first; i < numel; i += threads) {
    const uint64_t index = first_index + static_cast<uint64_t>(i);
    Uniforms uniforms(rng, index);
    y[i] = dropped(uniforms, index, x[i]);
  }
}

}  // namespace

void activation_forward_cuda(Stream& stream, Activation kind, const Tensor& x, Tensor& y) {
  on_float(x.dtype(), [&]<class T>() {
    on_activation(kind, [&]<class F>() {
      cuda::map("activation_forward", stream, x.numel(), Value<F>{}, elements<T>(y),
                elements<const T>(x));
    });
  });
}

void activation_backward_cuda(Stream& stream, Activation kind, const Tensor& x, const Tensor& dy,
                              Tensor& dx) {
  on_float(x.dtype(), [&]<class T>() {
    on_activation(kind, [&]<class F>() {
      cuda::map("activation_backward", stream, x.numel(), Chained<F>{}, elements<T>(dx),
                elements<const T>(x), elements<const T>(dy));
    });
  });
}

void glu_forward_cuda(Stream& stream, Activation f, const Tensor& gate_up, int64_t rows,
                      int64_t width, Tensor& y) {
  on_float(y.dtype(), [&]<class T>() {
    constexpr int kPack = cuda::kPackOf<T>;
    const auto* from = elements<const T>(gate_up);
    auto* to = elements<T>(y);
    const bool packed = cuda::rows_are_packs<kPack>(width, from, to);
    const cuda::LaunchShape shape = cuda::shape_for_rows(rows, packed ? width / kPack : width);
    on_activation(f, [&]<class F>() {
      cuda::launch("glu_forward", packed ? glu_kernel<F, kPack, T> : glu_kernel<F, 1, T>, shape,
                   stream, rows, width, from, to);
    });
  });
}

void glu_backward_cuda(Stream& stream, Activation f, const Tensor& gate_up, const Tensor& dy,
                       int64_t rows, int64_t width, Tensor& dgate_up) {
  on_float(dy.dtype(), [&]<class T>() {
    constexpr int kPack = cuda::kPackOf<T>;
    const auto* from = elements<const T>(gate_up);
    const auto* above = elements<const T>(dy);
    auto* to = elements<T>(dgate_up);
    const bool packed = cuda::rows_are_packs<kPack>(width, from, above, to);
    const cuda::LaunchShape shape = cuda::shape_for_rows(rows, packed ? width / kPack : width);
    on_activation(f, [&]<class F>() {
      cuda::launch("glu_backward",
                   packed ? glu_backward_kernel<F, kPack, T> : glu_backward_kernel<F, 1, T>, shape,
                   stream, rows, width, from, above, to);
    });
  });
}

void dropout_cuda(Stream& stream, const Tensor& x, float p, const DropoutMask& mask,
                  int64_t sample_numel, Tensor& y) {
  const Dropping drop{mask, sample_numel, p, 1.0F / (1.0F - p)};
  on_float(x.dtype(), [&]<class T>() {
    constexpr int kPack = cuda::kPackOf<T>;
    const auto* from = elements<const T>(x);
    auto* to = elements<T>(y);
    const bool packed = cuda::is_aligned<kPack>(from) && cuda::is_aligned<kPack>(to);
    cuda::launch("dropout", packed ? dropout_kernel<kPack, T> : dropout_kernel<1, T>,
                 cuda::shape_for(packed ? x.numel() / kPack : x.numel()), stream, x.numel(), drop,
                 from, to);
  });
}

}  // namespace ds::kernels::detail
