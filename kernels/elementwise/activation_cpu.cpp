// Pointwise activations and dropout on the CPU. Each activation is a type with its value and its
// derivative on one vector; the loops around them are shared.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/activation_cpu.cpp"
#include "kernels/elementwise/activation_cpu.h"

#include <hwy/foreach_target.h>

#include <algorithm>

#include "core/device/dispatch.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd.inl"
#include "kernels/elementwise/spans.h"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

HWY_INLINE F32Vector sigmoid(Lanes d, F32Vector x) {
  const auto one = hn::Set(d, 1.0F);
  return hn::Div(one, hn::Add(one, exp(d, hn::Neg(x))));
}

struct Identity {
  static HWY_INLINE F32Vector value(Lanes, F32Vector x) { return x; }
  static HWY_INLINE F32Vector slope(Lanes d, F32Vector) { return hn::Set(d, 1.0F); }
};

// 0.5 x (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3) (Hendrycks and Gimpel,
// arXiv 1606.08415).
struct GeluTanh {
  static constexpr float kTwice = 1.59576912F;  // 2 sqrt(2/pi)
  static HWY_INLINE F32Vector gate(Lanes d, F32Vector x) {
    const auto cubic =
        hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.044715F * kTwice), hn::Set(d, kTwice));
    return sigmoid(d, hn::Mul(x, cubic));
  }
  static HWY_INLINE F32Vector value(Lanes d, F32Vector x) { return hn::Mul(x, gate(d, x)); }
  // s + x s (1 - s) 2u'
  static HWY_INLINE F32Vector slope(Lanes d, F32Vector x) {
    const auto s = gate(d, x);
    const auto du =
        hn::MulAdd(hn::Mul(x, x), hn::Set(d, 3 * 0.044715F * kTwice), hn::Set(d, kTwice));
    const auto bell = hn::NegMulAdd(s, s, s);
    // If s is exactly 0 or 1, the second term is 0, also for infinite x.
    const auto flat = hn::Eq(bell, hn::Zero(d));
    return hn::Add(s, hn::IfThenZeroElse(flat, hn::Mul(hn::Mul(x, bell), du)));
  }
};

// x Phi(x), Phi the normal distribution. Phi comes from erfc(|z|), z = x / sqrt(2): 1 - z P(z^2) up
// to 1, exp(-Q(z)) above, Chebyshev fits of 1e-9 and 2e-8.
struct GeluExact {
  static HWY_INLINE F32Vector distribution(Lanes d, F32Vector x) {
    const auto z = hn::Min(hn::Mul(hn::Abs(x), hn::Set(d, 0.707106781F)), hn::Set(d, 9.0F));
    const auto u = hn::Mul(z, z);
    auto p = hn::Set(d, 7.875875063e-5F);
    p = hn::MulAdd(p, u, hn::Set(d, -0.0008016864287F));
    p = hn::MulAdd(p, u, hn::Set(d, 0.005189087423F));
    p = hn::MulAdd(p, u, hn::Set(d, -0.02685421201F));
    p = hn::MulAdd(p, u, hn::Set(d, 0.1128359472F));
    p = hn::MulAdd(p, u, hn::Set(d, -0.3761262667F));
    p = hn::MulAdd(p, u, hn::Set(d, 1.128379166F));
    const auto near = hn::NegMulAdd(p, z, hn::Set(d, 1.0F));
    const auto t = hn::Min(z, hn::Set(d, 4.0F));
    auto q = hn::Set(d, kFar[0]);
    for (int i = 1; i < 9; ++i) q = hn::MulAdd(q, t, hn::Set(d, kFar[i]));
    const auto far = exp(d, hn::Neg(q));
    const auto tail =
        hn::Mul(hn::IfThenElse(hn::Lt(z, hn::Set(d, 1.0F)), near, far), hn::Set(d, 0.5F));
    const auto shrunk = hn::IfThenZeroElse(hn::Gt(z, hn::Set(d, 4.0F)), tail);
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), shrunk, hn::Sub(hn::Set(d, 1.0F), shrunk));
  }
  static HWY_INLINE F32Vector value(Lanes d, F32Vector x) { return hn::Mul(x, distribution(d, x)); }
  static HWY_INLINE F32Vector slope(Lanes d, F32Vector x) {
    const auto square = hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5F));
    const auto density = hn::Mul(exp(d, square), hn::Set(d, 0.398942280F));
    const auto flat = hn::Eq(density, hn::Zero(d));
    return hn::Add(distribution(d, x), hn::IfThenZeroElse(flat, hn::Mul(x, density)));
  }
  static constexpr float kFar[9] = {-1.639938016e-6F, 4.611291391e-5F, -0.0005972644331F,
                                    0.004761717236F,  -0.02642704377F, 0.1100901975F,
                                    0.6318156996F,    1.130239201F,    -0.0003214710264F};
};

struct Silu {
  static HWY_INLINE F32Vector value(Lanes d, F32Vector x) { return hn::Mul(x, sigmoid(d, x)); }
  static HWY_INLINE F32Vector slope(Lanes d, F32Vector x) {
    const auto s = sigmoid(d, x);
    const auto bell = hn::NegMulAdd(s, s, s);
    return hn::Add(s, hn::IfThenZeroElse(hn::Eq(bell, hn::Zero(d)), hn::Mul(x, bell)));
  }
};

// x sigmoid(1.702 x) (Hendrycks and Gimpel, section 2).
struct QuickGelu {
  static constexpr float kSteepness = 1.702F;
  static HWY_INLINE F32Vector gate(Lanes d, F32Vector x) {
    return sigmoid(d, hn::Mul(x, hn::Set(d, kSteepness)));
  }
  static HWY_INLINE F32Vector value(Lanes d, F32Vector x) { return hn::Mul(x, gate(d, x)); }
  // s + 1.702 x s (1 - s)
  static HWY_INLINE F32Vector slope(Lanes d, F32Vector x) {
    const auto s = gate(d, x);
    const auto bell = hn::NegMulAdd(s, s, s);
    const auto rest = hn::Mul(hn::Mul(x, bell), hn::Set(d, kSteepness));
    return hn::Add(s, hn::IfThenZeroElse(hn::Eq(bell, hn::Zero(d)), rest));
  }
};

struct Relu {
  static HWY_INLINE F32Vector value(Lanes d, F32Vector x) {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);  // NaN passes
  }
  static HWY_INLINE F32Vector slope(Lanes d, F32Vector x) {
    return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), hn::Set(d, 1.0F));
  }
};

// (1 - e) / (1 + e), e = exp(-2 |x|), with the sign of x; near 0, where that loses digits, the
// series up to x^9.
struct Tanh {
  static HWY_INLINE F32Vector value(Lanes d, F32Vector x) {
    const auto one = hn::Set(d, 1.0F);
    const auto e = exp(d, hn::Mul(hn::Set(d, -2.0F), hn::Abs(x)));
    const auto far = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), x);
    const auto u = hn::Mul(x, x);
    auto series = hn::Set(d, 0.0218694885F);                     // 62/2835
    series = hn::MulAdd(series, u, hn::Set(d, -0.0539682540F));  // -17/315
    series = hn::MulAdd(series, u, hn::Set(d, 0.133333333F));    // 2/15
    series = hn::MulAdd(series, u, hn::Set(d, -0.333333333F));   // -1/3
    const auto near = hn::MulAdd(hn::Mul(x, u), series, x);
    return hn::IfThenElse(hn::Lt(u, hn::Set(d, 0.0625F)), near, far);
  }
  // 4e / (1 + e)^2, which has all its digits where 1 - tanh(x)^2 has few.
  static HWY_INLINE F32Vector slope(Lanes d, F32Vector x) {
    const auto e = exp(d, hn::Mul(hn::Set(d, -2.0F), hn::Abs(x)));
    const auto sum = hn::Add(hn::Set(d, 1.0F), e);
    return hn::Div(hn::Mul(hn::Set(d, 4.0F), e), hn::Mul(sum, sum));
  }
};

template <class F, class T>
void forward_typed(const T* x, T* y, int64_t n) {
  const Lanes d;
  const int64_t step = lane_count();
  int64_t i = 0;
  for (; i + step <= n; i += step) store(F::value(d, load(d, x + i)), d, y + i);
  if (i < n) store_n(F::value(d, load_n(d, x + i, n - i)), d, y + i, n - i);
}

template <class F, class T>
void backward_typed(const T* x, const T* dy, T* dx, int64_t n) {
  const Lanes d;
  const int64_t step = lane_count();
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    store(hn::Mul(load(d, dy + i), F::slope(d, load(d, x + i))), d, dx + i);
  }
  if (i < n) {
    const auto slope = F::slope(d, load_n(d, x + i, n - i));
    store_n(hn::Mul(load_n(d, dy + i, n - i), slope), d, dx + i, n - i);
  }
}

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
    case Activation::kTanh:
      return body.template operator()<Tanh>();
    case Activation::kQuickGelu:
      return body.template operator()<QuickGelu>();
  }
}

template <class F, class T>
void glu_forward_typed(const T* gate, const T* up, T* y, int64_t n) {
  const Lanes d;
  const int64_t step = lane_count();
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    store(hn::Mul(F::value(d, load(d, gate + i)), load(d, up + i)), d, y + i);
  }
  if (i < n) {
    const auto g = load_n(d, gate + i, n - i);
    store_n(hn::Mul(F::value(d, g), load_n(d, up + i, n - i)), d, y + i, n - i);
  }
}

// dgate = dy up f'(gate), dup = dy f(gate)
template <class F, class T>
void glu_backward_typed(const T* gate, const T* up, const T* dy, T* dgate, T* dup, int64_t n) {
  const Lanes d;
  const int64_t step = lane_count();
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    const auto g = load(d, gate + i);
    const auto dv = load(d, dy + i);
    const auto u = load(d, up + i);
    store(hn::Mul(hn::Mul(dv, u), F::slope(d, g)), d, dgate + i);
    store(hn::Mul(dv, F::value(d, g)), d, dup + i);
  }
  if (i < n) {
    const auto g = load_n(d, gate + i, n - i);
    const auto dv = load_n(d, dy + i, n - i);
    const auto u = load_n(d, up + i, n - i);
    store_n(hn::Mul(hn::Mul(dv, u), F::slope(d, g)), d, dgate + i, n - i);
    store_n(hn::Mul(dv, F::value(d, g)), d, dup + i, n - i);
  }
}

}  // namespace

void activation_loop(Activation kind, const void* x, void* y, DType dtype, int64_t numel) {
  on_float(dtype, [&]<class T>() {
    on_activation(kind, [&]<class F>() {
      forward_typed<F>(static_cast<const T*>(x), static_cast<T*>(y), numel);
    });
  });
}

void activation_slope_loop(Activation kind, const Tensor& x, const Tensor& dy, Tensor& dx,
                           int64_t begin, int64_t end) {
  on_float(x.dtype(), [&]<class T>() {
    on_activation(kind, [&]<class F>() {
      backward_typed<F>(x.data<T>() + begin, dy.data<T>() + begin, dx.data<T>() + begin,
                        end - begin);
    });
  });
}

void glu_rows(Activation kind, const Tensor& gate_up, Tensor& y, int64_t width, int64_t begin,
              int64_t end) {
  on_float(y.dtype(), [&]<class T>() {
    on_activation(kind, [&]<class F>() {
      for (int64_t row = begin; row < end; ++row) {
        const T* gate = gate_up.data<T>() + row * 2 * width;
        glu_forward_typed<F>(gate, gate + width, y.data<T>() + row * width, width);
      }
    });
  });
}

void glu_backward_rows(Activation kind, const Tensor& gate_up, const Tensor& dy, Tensor& dgate_up,
                       int64_t width, int64_t begin, int64_t end) {
  on_float(dy.dtype(), [&]<class T>() {
    on_activation(kind, [&]<class F>() {
      for (int64_t row = begin; row < end; ++row) {
        const T* gate = gate_up.data<T>() + row * 2 * width;
        T* dgate = dgate_up.data<T>() + row * 2 * width;
        glu_backward_typed<F>(gate, gate + width, dy.data<T>() + row * width, dgate, dgate + width,
                              width);
      }
    });
  });
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels {
namespace {

DS_SIMD_EXPORT(activation_loop);
DS_SIMD_EXPORT(activation_slope_loop);
DS_SIMD_EXPORT(glu_rows);
DS_SIMD_EXPORT(glu_backward_rows);

constexpr int64_t kGrain = 2048;  // elements per share

template <class T>
void dropout_range(const T* x, T* y, float p, const Rng& rng, uint64_t first_index, int64_t begin,
                   int64_t end) {
  const float keep = 1.0F / (1.0F - p);
  for (int64_t i = begin; i < end; ++i) {
    const bool kept = rng.uniform(first_index + static_cast<uint64_t>(i)) >= p;
    y[i] = static_cast<T>(kept ? static_cast<float>(x[i]) * keep : 0.0F);
  }
}

int64_t grain_of_rows(int64_t width) { return std::max<int64_t>(1, kGrain / width); }

}  // namespace

namespace detail {

void activation_span(Activation kind, const void* x, void* y, DType dtype, int64_t numel) {
  DS_SIMD(activation_loop)(kind, x, y, dtype, numel);
}

void activation_forward_cpu(Stream& stream, Activation kind, const Tensor& x, Tensor& y) {
  stream.pool().parallel_for(x.numel(), kGrain, [&](int64_t begin, int64_t end) {
    on_float(x.dtype(), [&]<class T>() {
      activation_span(kind, x.data<T>() + begin, y.data<T>() + begin, x.dtype(), end - begin);
    });
  });
}

void activation_backward_cpu(Stream& stream, Activation kind, const Tensor& x, const Tensor& dy,
                             Tensor& dx) {
  stream.pool().parallel_for(x.numel(), kGrain, [&](int64_t begin, int64_t end) {
    DS_SIMD(activation_slope_loop)(kind, x, dy, dx, begin, end);
  });
}

void glu_forward_cpu(Stream& stream, Activation f, const Tensor& gate_up, int64_t rows,
                     int64_t width, Tensor& y) {
  stream.pool().parallel_for(rows, grain_of_rows(width), [&](int64_t begin, int64_t end) {
    DS_SIMD(glu_rows)(f, gate_up, y, width, begin, end);
  });
}

void glu_backward_cpu(Stream& stream, Activation f, const Tensor& gate_up, const Tensor& dy,
                      int64_t rows, int64_t width, Tensor& dgate_up) {
  stream.pool().parallel_for(rows, grain_of_rows(width), [&](int64_t begin, int64_t end) {
    DS_SIMD(glu_backward_rows)(f, gate_up, dy, dgate_up, width, begin, end);
  });
}

void dropout_cpu(Stream& stream, const Tensor& x, float p, const DropoutMask& mask,
                 int64_t sample_numel, Tensor& y) {
  const Rng rng = mask.rng();
  const auto first_index =
      static_cast<uint64_t>(mask.inputs->first_sample * sample_numel + mask.skipped);
  stream.pool().parallel_for(x.numel(), kGrain, [&](int64_t begin, int64_t end) {
    on_float(x.dtype(), [&]<class T>() {
      dropout_range(x.data<T>(), y.data<T>(), p, rng, first_index, begin, end);
    });
  });
}

}  // namespace detail
}  // namespace ds::kernels
#endif  // HWY_ONCE
