// Streaming operations on CUDA devices: one pass over packs of 16 bytes, arithmetic in fp32.
#include <algorithm>

#include "core/dispatch.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/pack.cuh"

namespace ds::kernels::detail {
namespace {

using cuda::Pack;

// y[i] = op(x[i]..., i): N elements at a time, then the last ones singly. Operands may be y itself.
template <int N, class Y, class Op, class... X>
__global__ void map_kernel(int64_t numel, Op op, Y* y, const X*... x) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t packs = numel / N;
  for (int64_t p = first; p < packs; p += threads) {
    Pack<Y, N> result;
    [&](const auto&... pack) {
      for (int i = 0; i < N; ++i) {
        result.values[i] = static_cast<Y>(op(static_cast<float>(pack.values[i])...));
      }
    }(cuda::load<N>(x + p * N)...);
    cuda::store(result, y + p * N);
  }
  for (int64_t i = packs * N + first; i < numel; i += threads) {
    y[i] = static_cast<Y>(op(static_cast<float>(x[i])...));
  }
}

template <class Y, class Op, class... X>
void map(std::string_view name, Stream& stream, int64_t numel, Op op, Y* y, const X*... x) {
  constexpr int kPack = cuda::kPackOf<Y, X...>;
  if ((cuda::is_aligned<kPack>(y) && ... && cuda::is_aligned<kPack>(x))) {
    cuda::launch(name, map_kernel<kPack, Y, Op, X...>, cuda::shape_for(numel / kPack), stream,
                 numel, op, y, x...);
  } else {
    cuda::launch(name, map_kernel<1, Y, Op, X...>, cuda::shape_for(numel), stream, numel, op, y,
                 x...);
  }
}

struct Constant {
  float value;
  __device__ float operator()() const { return value; }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Times {
  float factor;
  __device__ float operator()(float a) const { return a * factor; }
};
struct Same {
  __device__ float operator()(float a) const { return a; }
};

template <class T>
T* elements(const Tensor& tensor) {
  return static_cast<T*>(tensor.address());
}

}  // namespace

void fill_cuda(Stream& stream, Tensor& y, float value) {
  on_float(y.dtype(),
           [&]<class T>() { map("fill", stream, y.numel(), Constant{value}, elements<T>(y)); });
}

void add_cuda(Stream& stream, const Tensor& a, const Tensor& b, Tensor& y) {
  on_float(y.dtype(), [&]<class T>() {
    map("add", stream, y.numel(), Sum{}, elements<T>(y), elements<const T>(a),
        elements<const T>(b));
  });
}

void accumulate_cuda(Stream& stream, const Tensor& x, Tensor& y) {
  on_float(x.dtype(), [&]<class TX>() {
    on_float(y.dtype(), [&]<class TY>() {
      map("accumulate", stream, y.numel(), Sum{}, elements<TY>(y), elements<const TY>(y),
          elements<const TX>(x));
    });
  });
}

void scale_cuda(Stream& stream, float factor, Tensor& y) {
  on_float(y.dtype(), [&]<class T>() {
    map("scale", stream, y.numel(), Times{factor}, elements<T>(y), elements<const T>(y));
  });
}

void cast_cuda(Stream& stream, const Tensor& x, Tensor& y) {
  on_float(x.dtype(), [&]<class TX>() {
    on_float(y.dtype(), [&]<class TY>() {
      map("cast", stream, y.numel(), Same{}, elements<TY>(y), elements<const TX>(x));
    });
  });
}

}  // namespace ds::kernels::detail
