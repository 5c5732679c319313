// Streaming operations on CUDA devices: one pass over packs of 16 bytes, arithmetic in fp32.
#include <cmath>

#include "core/device/dispatch.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/map.cuh"
#include "kernels/elementwise/elementwise_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;
using cuda::map;

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
struct Capped {
  float c;
  __device__ float operator()(float a) const { return c * tanhf(a / c); }
};
struct Same {
  __device__ float operator()(float a) const { return a; }
};

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

void softcap_cuda(Stream& stream, float c, Tensor& y) {
  on_float(y.dtype(), [&]<class T>() {
    map("softcap", stream, y.numel(), Capped{c}, elements<T>(y), elements<const T>(y));
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
