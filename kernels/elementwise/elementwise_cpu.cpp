// Streaming operations over whole tensors on the CPU: one vectorised loop per operation, over
// chunks that the stream's threads share.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/elementwise_cpu.cpp"
#include "kernels/elementwise/elementwise_cpu.h"

#include <hwy/foreach_target.h>

#include "core/device/dispatch.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd.inl"
#include "kernels/elementwise/spans.h"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

template <class T>
void fill_typed(T* y, float value, int64_t n) {
  const Lanes d;
  const int64_t step = lane_count();
  const auto v = hn::Set(d, value);
  int64_t i = 0;
  for (; i + step <= n; i += step) store(v, d, y + i);
  if (i < n) store_n(v, d, y + i, n - i);
}

template <class T>
void add_typed(const T* a, const T* b, T* y, int64_t n) {
  const Lanes d;
  const int64_t step = lane_count();
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    store(hn::Add(load(d, a + i), load(d, b + i)), d, y + i);
  }
  if (i < n) store_n(hn::Add(load_n(d, a + i, n - i), load_n(d, b + i, n - i)), d, y + i, n - i);
}

template <class TX, class TY>
void accumulate_typed(const TX* x, TY* y, int64_t n) {
  const Lanes d;
  const int64_t step = lane_count();
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    store(hn::Add(load(d, y + i), load(d, x + i)), d, y + i);
  }
  if (i < n) store_n(hn::Add(load_n(d, y + i, n - i), load_n(d, x + i, n - i)), d, y + i, n - i);
}

template <class TX, class TY>
void cast_typed(const TX* x, TY* y, int64_t n) {
  const Lanes d;
  const int64_t step = lane_count();
  int64_t i = 0;
  for (; i + step <= n; i += step) store(load(d, x + i), d, y + i);
  if (i < n) store_n(load_n(d, x + i, n - i), d, y + i, n - i);
}

template <class T>
void scale_typed(T* y, float factor, int64_t n) {
  const Lanes d;
  const int64_t step = lane_count();
  const auto f = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + step <= n; i += step) store(hn::Mul(load(d, y + i), f), d, y + i);
  if (i < n) store_n(hn::Mul(load_n(d, y + i, n - i), f), d, y + i, n - i);
}

template <class T>
void softcap_typed(T* y, float c, int64_t n) {
  const Lanes d;
  const auto cap = hn::Set(d, c);
  const auto inverse = hn::Set(d, 1.0F / c);
  for (int64_t i = 0; i < n; i += lane_count()) {
    const int64_t count = at_most_lanes(n - i);
    put(hn::Mul(tanh(d, hn::Mul(get(d, y + i, count), inverse)), cap), d, y + i, count);
  }
}

}  // namespace

void fill_range(Tensor& y, float value, int64_t begin, int64_t end) {
  on_float(y.dtype(), [&]<class T>() { fill_typed(y.data<T>() + begin, value, end - begin); });
}

void add_range(const Tensor& a, const Tensor& b, Tensor& y, int64_t begin, int64_t end) {
  on_float(y.dtype(), [&]<class T>() {
    add_typed(a.data<T>() + begin, b.data<T>() + begin, y.data<T>() + begin, end - begin);
  });
}

void accumulate_loop(const void* x, DType x_dtype, void* y, DType y_dtype, int64_t numel) {
  on_float(x_dtype, [&]<class TX>() {
    on_float(y_dtype, [&]<class TY>() {
      accumulate_typed(static_cast<const TX*>(x), static_cast<TY*>(y), numel);
    });
  });
}

void cast_loop(const void* x, DType x_dtype, void* y, DType y_dtype, int64_t numel) {
  on_float(x_dtype, [&]<class TX>() {
    on_float(y_dtype, [&]<class TY>() {
      cast_typed(static_cast<const TX*>(x), static_cast<TY*>(y), numel);
    });
  });
}

void scale_range(Tensor& y, float factor, int64_t begin, int64_t end) {
  on_float(y.dtype(), [&]<class T>() { scale_typed(y.data<T>() + begin, factor, end - begin); });
}

void softcap_range(Tensor& y, float c, int64_t begin, int64_t end) {
  on_float(y.dtype(), [&]<class T>() { softcap_typed(y.data<T>() + begin, c, end - begin); });
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels {
namespace {

DS_SIMD_EXPORT(fill_range);
DS_SIMD_EXPORT(add_range);
DS_SIMD_EXPORT(accumulate_loop);
DS_SIMD_EXPORT(cast_loop);
DS_SIMD_EXPORT(scale_range);
DS_SIMD_EXPORT(softcap_range);

constexpr int64_t kGrain = 4096;  // elements: a thread's share is never smaller than a few pages

std::byte* element(const Tensor& tensor, int64_t index) {
  return static_cast<std::byte*>(tensor.raw()) +
         index * static_cast<int64_t>(size_of(tensor.dtype()));
}

}  // namespace

namespace detail {

void cast_span(const void* x, DType x_dtype, void* y, DType y_dtype, int64_t numel) {
  DS_SIMD(cast_loop)(x, x_dtype, y, y_dtype, numel);
}

void accumulate_span(const void* x, DType x_dtype, void* y, DType y_dtype, int64_t numel) {
  DS_SIMD(accumulate_loop)(x, x_dtype, y, y_dtype, numel);
}

void fill_cpu(Stream& stream, Tensor& y, float value) {
  stream.pool().parallel_for(y.numel(), kGrain, [&](int64_t begin, int64_t end) {
    DS_SIMD(fill_range)(y, value, begin, end);
  });
}

void add_cpu(Stream& stream, const Tensor& a, const Tensor& b, Tensor& y) {
  stream.pool().parallel_for(y.numel(), kGrain, [&](int64_t begin, int64_t end) {
    DS_SIMD(add_range)(a, b, y, begin, end);
  });
}

void accumulate_cpu(Stream& stream, const Tensor& x, Tensor& y) {
  stream.pool().parallel_for(y.numel(), kGrain, [&](int64_t begin, int64_t end) {
    accumulate_span(element(x, begin), x.dtype(), element(y, begin), y.dtype(), end - begin);
  });
}

void scale_cpu(Stream& stream, float factor, Tensor& y) {
  stream.pool().parallel_for(y.numel(), kGrain, [&](int64_t begin, int64_t end) {
    DS_SIMD(scale_range)(y, factor, begin, end);
  });
}

void softcap_cpu(Stream& stream, float c, Tensor& y) {
  stream.pool().parallel_for(y.numel(), kGrain, [&](int64_t begin, int64_t end) {
    DS_SIMD(softcap_range)(y, c, begin, end);
  });
}

void cast_cpu(Stream& stream, const Tensor& x, Tensor& y) {
  stream.pool().parallel_for(y.numel(), kGrain, [&](int64_t begin, int64_t end) {
    cast_span(element(x, begin), x.dtype(), element(y, begin), y.dtype(), end - begin);
  });
}

}  // namespace detail
}  // namespace ds::kernels
#endif  // HWY_ONCE
