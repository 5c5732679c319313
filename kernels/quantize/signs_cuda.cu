// 1-bit compression on CUDA devices: a thread for each byte of signs, which is two accesses of 16
// bytes to fp32 numbers. Scales stay in memory of the device.
#include "core/device/dispatch.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/quantize/levels.h"
#include "kernels/quantize/signs_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;

constexpr int kOfByte = 8;

// The numbers of one byte: all 8, in packs where kPacks, or those before `end`.
template <bool kPacks, class T>
struct Eight {
  float values[kOfByte] = {};

  __device__ void read(const T* x, int64_t first, int64_t end) {
    if (kPacks && first + kOfByte <= end) {
      const cuda::Pack<T, kOfByte> pack = cuda::load<kOfByte>(x + first);
      for (int i = 0; i < kOfByte; ++i) values[i] = static_cast<float>(pack.values[i]);
    } else {
      for (int i = 0; i < kOfByte; ++i) {
        if (first + i < end) values[i] = static_cast<float>(x[first + i]);
      }
    }
  }
  __device__ void write(T* y, int64_t first, int64_t end) const {
    if (kPacks && first + kOfByte <= end) {
      cuda::Pack<T, kOfByte> pack;
      for (int i = 0; i < kOfByte; ++i) pack.values[i] = static_cast<T>(values[i]);
      cuda::store(pack, y + first);
    } else {
      for (int i = 0; i < kOfByte; ++i) {
        if (first + i < end) y[first + i] = static_cast<T>(values[i]);
      }
    }
  }
};

__device__ float signed_scale(uint8_t signs, int i, float scale) {
  return (signs >> (kOfByte - 1 - i) & 1) != 0 ? scale : -scale;
}

template <bool kPacks>
__global__ void compress_kernel(int64_t numel, const double* squares, float* error, uint8_t* signs,
                                float* scale) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const float size = sign_scale(*squares, numel);
  if (begin == 0) *scale = size;
  for (int64_t byte = begin; byte * kOfByte < numel; byte += threads) {
    Eight<kPacks, float> eight;
    eight.read(error, byte * kOfByte, numel);
    unsigned bits = 0;
    for (int i = 0; i < kOfByte; ++i) {
      const bool positive = eight.values[i] >= 0 && byte * kOfByte + i < numel;
      if (positive) bits |= 128U >> i;
      eight.values[i] -= positive ? size : -size;
    }
    eight.write(error, byte * kOfByte, numel);
    signs[byte] = static_cast<uint8_t>(bits);
  }
}

template <bool kAdd, bool kPacks, class T>
__global__ void expand_kernel(int64_t numel, const uint8_t* signs, const float* scale, T* y) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const float size = *scale;
  for (int64_t byte = begin; byte * kOfByte < numel; byte += threads) {
    const uint8_t bits = signs[byte];
    Eight<kPacks, T> eight;
    if (kAdd) eight.read(y, byte * kOfByte, numel);
    for (int i = 0; i < kOfByte; ++i) {
      const float term = signed_scale(bits, i, size);
      eight.values[i] = kAdd ? eight.values[i] + term : term;
    }
    eight.write(y, byte * kOfByte, numel);
  }
}

template <bool kAdd, class T>
void expand(std::string_view name, Stream& stream, const Tensor& signs, const Tensor& scale,
            const Tensor& y) {
  auto* to = elements<T>(y);
  const auto kernel =
      cuda::is_aligned<kOfByte>(to) ? expand_kernel<kAdd, true, T> : expand_kernel<kAdd, false, T>;
  cuda::launch(name, kernel, cuda::shape_for(signs.numel()), stream, y.numel(),
               elements<const uint8_t>(signs), elements<const float>(scale), to);
}

}  // namespace

void compress_signs_cuda(Stream& stream, const Tensor& squares, const CompressSignsArgs& args) {
  auto* error = elements<float>(args.error);
  const auto kernel =
      cuda::is_aligned<kOfByte>(error) ? compress_kernel<true> : compress_kernel<false>;
  cuda::launch("compress_signs", kernel, cuda::shape_for(args.signs.numel()), stream,
               args.error.numel(), elements<const double>(squares), error,
               elements<uint8_t>(args.signs), elements<float>(args.scale));
}

void expand_signs_cuda(Stream& stream, const Tensor& signs, const Tensor& scale, const Tensor& y) {
  on_float(y.dtype(),
           [&]<class T>() { expand<false, T>("expand_signs", stream, signs, scale, y); });
}

void add_signs_cuda(Stream& stream, const Tensor& signs, const Tensor& scale, const Tensor& y) {
  expand<true, float>("add_signs", stream, signs, scale, y);
}

}  // namespace ds::kernels::detail
