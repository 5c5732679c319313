// Pointwise activations and dropout on CUDA devices: one pass, arithmetic in fp32. Each activation
// is a type with its value and its derivative; the kernels around them are shared. Formulas are
// those of activation.cpp; what is fused is written so, for bits that no compiler decides.
#include <cmath>

#include "core/dispatch.h"
#include "kernels/cuda/activation.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/uniforms.cuh"

namespace ds::kernels::detail {
namespace {

using cuda::elements;
using cuda::Pack;
using cuda::Uniforms;

__device__ float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }

// s + x s (1 - s) factor. Where s is exactly 0 or 1 the second term is 0, also for infinite x.
__device__ float gated_slope(float x, float s, float factor) {
  const float bell = fmaf(-s, s, s);
  return bell == 0.0F ? s : fmaf(x * bell, factor, s);
}

struct Identity {
  static __device__ float value(float x) { return x; }
  static __device__ float slope(float) { return 1.0F; }
};

struct GeluTanh {
  static constexpr float kTwice = 1.59576912F;  // 2 sqrt(2/pi)
  static __device__ float gate(float x) {
    return sigmoid(x * fmaf(x * x, 0.044715F * kTwice, kTwice));
  }
  static __device__ float value(float x) { return x * gate(x); }
  static __device__ float slope(float x) {
    return gated_slope(x, gate(x), fmaf(x * x, 3 * 0.044715F * kTwice, kTwice));
  }
};

struct GeluExact {
  // From the tail: 1 + erf would lose what is left of it for negative x.
  static __device__ float distribution(float x) {
    const float tail = 0.5F * erfcf(fabsf(x) * 0.707106781F);
    return x < 0.0F ? tail : 1.0F - tail;
  }
  static __device__ float value(float x) { return x * distribution(x); }
  static __device__ float slope(float x) {
    const float density = expf(x * x * -0.5F) * 0.398942280F;
    return density == 0.0F ? distribution(x) : fmaf(x, density, distribution(x));
  }
};

struct Silu {
  static __device__ float value(float x) { return x * sigmoid(x); }
  static __device__ float slope(float x) { return gated_slope(x, sigmoid(x), 1.0F); }
};

struct Relu {
  static __device__ float value(float x) { return x < 0.0F ? 0.0F : x; }  // NaN passes
  static __device__ float slope(float x) { return x > 0.0F ? 1.0F : 0.0F; }
};

template <class F>
struct Value {
  __device__ float operator()(float x) const { return F::value(x); }
};
template <class F>
struct Chained {
  __device__ float operator()(float x, float dy) const { return dy * F::slope(x); }
};

template <class Body>
void on_activation(Activation kind, Body&& body) {
  switch (kind) {
    case Activation::kNone:
      return body.template operator()<Identity>();
    case Activation::kGeluTanh:
      return body.template operator()<GeluTanh>();
    case Activation::kGeluExact:
      return body.template operator()<GeluExact>();
    case Activation::kSilu:
      return body.template operator()<Silu>();
    case Activation::kRelu:
      return body.template operator()<Relu>();
  }
}

// y = silu(gate) up
template <int N, class T>
__global__ void swiglu_kernel(int64_t rows, int64_t width, const T* gate_up, T* y) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* const gate = gate_up + row * 2 * width;
    for (int64_t c = int64_t{threadIdx.x} * N; c < width; c += int64_t{blockDim.x} * N) {
      const Pack<T, N> g = cuda::load<N>(gate + c);
      const Pack<T, N> u = cuda::load<N>(gate + width + c);
      Pack<T, N> result;
      for (int i = 0; i < N; ++i) {
        const float gated = Silu::value(static_cast<float>(g.values[i]));
        result.values[i] = static_cast<T>(gated * static_cast<float>(u.values[i]));
      }
      cuda::store(result, y + row * width + c);
    }
  }
}

// dgate = dy up silu'(gate), dup = dy silu(gate)
template <int N, class T>
__global__ void swiglu_backward_kernel(int64_t rows, int64_t width, const T* gate_up, const T* dy,
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
        of_gate.values[i] = static_cast<T>(dv * static_cast<float>(u.values[i]) * Silu::slope(x));
        of_up.values[i] = static_cast<T>(dv * Silu::value(x));
      }
      cuda::store(of_gate, dgate + c);
      cuda::store(of_up, dgate + width + c);
    }
  }
}

struct Dropping {
  Rng rng;
  uint64_t first_index;
  float p, keep;
};

template <int N, class T>
__global__ void dropout_kernel(int64_t numel, Dropping drop, const T* x, T* y) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t packs = numel / N;
  const auto dropped = [&](Uniforms& uniforms, uint64_t index, T value) {
    const bool kept = uniforms.at(index) >= drop.p;
    return static_cast<T>(kept ? static_cast<float>(value) * drop.keep : 0.0F);
  };
  for (int64_t p = first; p < packs; p += threads) {
    const Pack<T, N> in = cuda::load<N>(x + p * N);
    const uint64_t index = drop.first_index + static_cast<uint64_t>(p * N);
    Uniforms uniforms(drop.rng, index);
    Pack<T, N> out;
    for (int i = 0; i < N; ++i) {
      out.values[i] = dropped(uniforms, index + static_cast<uint64_t>(i), in.values[i]);
    }
    cuda::store(out, y + p * N);
  }
  for (int64_t i = packs * N + first; i < numel; i += threads) {
    const uint64_t index = drop.first_index + static_cast<uint64_t>(i);
    Uniforms uniforms(drop.rng, index);
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

void swiglu_forward_cuda(Stream& stream, const Tensor& gate_up, int64_t rows, int64_t width,
                         Tensor& y) {
  on_float(y.dtype(), [&]<class T>() {
    constexpr int kPack = cuda::kPackOf<T>;
    const auto* from = elements<const T>(gate_up);
    auto* to = elements<T>(y);
    const bool packed = cuda::rows_are_packs<kPack>(width, from, to);
    cuda::launch("swiglu_forward", packed ? swiglu_kernel<kPack, T> : swiglu_kernel<1, T>,
                 cuda::shape_for_rows(rows, packed ? width / kPack : width), stream, rows, width,
                 from, to);
  });
}

void swiglu_backward_cuda(Stream& stream, const Tensor& gate_up, const Tensor& dy, int64_t rows,
                          int64_t width, Tensor& dgate_up) {
  on_float(dy.dtype(), [&]<class T>() {
    constexpr int kPack = cuda::kPackOf<T>;
    const auto* from = elements<const T>(gate_up);
    const auto* above = elements<const T>(dy);
    auto* to = elements<T>(dgate_up);
    const bool packed = cuda::rows_are_packs<kPack>(width, from, above, to);
    cuda::launch("swiglu_backward",
                 packed ? swiglu_backward_kernel<kPack, T> : swiglu_backward_kernel<1, T>,
                 cuda::shape_for_rows(rows, packed ? width / kPack : width), stream, rows, width,
                 from, above, to);
  });
}

void dropout_cuda(Stream& stream, const Tensor& x, float p, const Rng& rng, uint64_t first_index,
                  Tensor& y) {
  const Dropping drop{rng, first_index, p, 1.0F / (1.0F - p)};
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
