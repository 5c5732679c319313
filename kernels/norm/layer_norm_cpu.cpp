// Layer norm and RMS norm on the CPU. One row loop serves both, the kind being a template
// parameter; weight gradients run over column ranges, rows in order, so that their bits do not
// depend on the number of threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/layer_norm_cpu.cpp"
#include "kernels/norm/layer_norm_cpu.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>

#include "core/device/dispatch.h"
#include "core/values/index.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd.inl"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

using detail::Norm, detail::on_norm;

template <class T>
T* row_of(const Tensor& tensor, int64_t row, int64_t columns) {
  return tensor.defined() ? tensor.data<T>() + row * columns : nullptr;
}

// Vectors that a loop keeps in flight: an addition takes four cycles, and one sum alone would wait
// for each.
constexpr int64_t kInFlight = 4;

// The sum over i of term(i, count), vectors of a row of n; term leaves lanes beyond count at zero.
template <class Term>
HWY_INLINE float row_sum(int64_t n, const Term& term) {
  const Lanes d;
  F32Vector sums[kInFlight] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  int64_t i = 0;
  for (; i + kInFlight * lane_count() <= n; i += kInFlight * lane_count()) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < kInFlight; ++v) {
      sums[v] = hn::Add(sums[v], term(i + v * lane_count(), lane_count()));
    }
  }
  for (; i < n; i += lane_count()) sums[0] = hn::Add(sums[0], term(i, at_most_lanes(n - i)));
  return sum_lanes(d, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])));
}

// Mean of a row; with a residual, of the sum of both, which is kept in `sum`.
template <class T>
float mean_of_row(const T* x, const T* residual, T* sum, int64_t n) {
  const Lanes d;
  const float total = row_sum(n, [&](int64_t i, int64_t count) HWY_ATTR {
    if (residual == nullptr) return get(d, x + i, count);
    put(hn::Add(get(d, x + i, count), get(d, residual + i, count)), d, sum + i, count);
    return get(d, sum + i, count);  // as stored: rounded, where T has 16 bits
  });
  return total / static_cast<float>(n);
}

// Mean of (x - mean)^2.
template <class T>
float variance_of_row(const T* x, float mean, int64_t n) {
  const Lanes d;
  const auto shift = hn::Set(d, mean);
  const float total = row_sum(n, [&](int64_t i, int64_t count) HWY_ATTR {
    auto v = hn::Sub(get(d, x + i, count), shift);
    if (count < lane_count()) v = hn::IfThenElseZero(hn::FirstN(d, to_size(count)), v);
    return hn::Mul(v, v);
  });
  return total / static_cast<float>(n);
}

// What the weight multiplies by.
template <Norm kKind>
HWY_INLINE F32Vector factor_of(Lanes d, F32Vector gamma) {
  if constexpr (kKind == Norm::kRmsOnePlus) return hn::Add(gamma, hn::Set(d, 1.0F));
  return gamma;
}

template <Norm kKind, class T>
void forward_row(const T* x, const T* gamma, const T* beta, float mean, float inv, T* y,
                 int64_t n) {
  const Lanes d;
  const auto shift = hn::Set(d, mean);
  const auto factor = hn::Set(d, inv);
  const auto normalise = [&](int64_t i, int64_t count) HWY_ATTR {
    const auto g = factor_of<kKind>(d, get(d, gamma + i, count));
    const auto v = get(d, x + i, count);
    if constexpr (kKind == Norm::kLayer) {
      const auto normal = hn::Mul(hn::Sub(v, shift), factor);
      put(hn::MulAdd(normal, g, get(d, beta + i, count)), d, y + i, count);
    } else {
      put(hn::Mul(hn::Mul(v, factor), g), d, y + i, count);
    }
  };
  int64_t i = 0;
  for (; i + lane_count() <= n; i += lane_count()) normalise(i, lane_count());
  if (i < n) normalise(i, n - i);
}

template <Norm kKind, class T>
void forward_typed(const detail::NormForward& a, int64_t begin, int64_t end) {
  const int64_t n = a.gamma.numel();
  for (int64_t row = begin; row < end; ++row) {
    const T* x = row_of<T>(a.x, row, n);
    const T* residual = row_of<T>(a.residual, row, n);
    T* sum = row_of<T>(a.sum, row, n);
    float mean = 0.0F;  // of no use to RMS norm, but that the pass adds the residual
    if (kKind == Norm::kLayer || residual != nullptr) mean = mean_of_row(x, residual, sum, n);
    if (kKind != Norm::kLayer) mean = 0.0F;
    if (residual != nullptr) x = sum;
    const float inv = 1.0F / std::sqrt(variance_of_row(x, mean, n) + a.eps);
    const T* beta = kKind == Norm::kLayer ? row_of<T>(a.beta, 0, n) : nullptr;
    forward_row<kKind>(x, row_of<T>(a.gamma, 0, n), beta, mean, inv, row_of<T>(a.y, row, n), n);
    if (kKind == Norm::kLayer) a.mean.data<float>()[row] = mean;
    a.inv.data<float>()[row] = inv;
  }
}

// With h = (x - mean) inv and g = dy gamma: dx = inv (g - mean(g) - h mean(g h)); RMS norm has
// neither the mean of x nor that of g.
template <Norm kKind, class T>
void backward_row(const T* x, const T* gamma, const T* dy, const T* residual, float mean, float inv,
                  T* dx, int64_t n) {
  const Lanes d;
  const auto shift = hn::Set(d, mean);
  const auto factor = hn::Set(d, inv);
  auto sum_g = hn::Zero(d);
  auto sum_gh = hn::Zero(d);
  for (int64_t i = 0; i < n; i += lane_count()) {
    const int64_t count = at_most_lanes(n - i);
    const auto g = hn::Mul(get(d, dy + i, count), factor_of<kKind>(d, get(d, gamma + i, count)));
    const auto h = hn::Mul(hn::Sub(get(d, x + i, count), shift), factor);
    sum_g = hn::Add(sum_g, g);
    sum_gh = hn::MulAdd(g, h, sum_gh);
  }
  const float scale = 1.0F / static_cast<float>(n);
  const auto mean_g = hn::Set(d, kKind == Norm::kLayer ? sum_lanes(d, sum_g) * scale : 0.0F);
  const auto mean_gh = hn::Set(d, sum_lanes(d, sum_gh) * scale);
  for (int64_t i = 0; i < n; i += lane_count()) {
    const int64_t count = at_most_lanes(n - i);
    const auto g = hn::Mul(get(d, dy + i, count), factor_of<kKind>(d, get(d, gamma + i, count)));
    const auto h = hn::Mul(hn::Sub(get(d, x + i, count), shift), factor);
    auto v = hn::Mul(hn::NegMulAdd(h, mean_gh, hn::Sub(g, mean_g)), factor);
    if (residual != nullptr) v = hn::Add(v, get(d, residual + i, count));
    put(v, d, dx + i, count);
  }
}

template <Norm kKind, class T>
void backward_typed(const detail::NormBackward& a, int64_t begin, int64_t end) {
  const int64_t n = a.gamma.numel();
  for (int64_t row = begin; row < end; ++row) {
    const float mean = kKind == Norm::kLayer ? a.mean.data<float>()[row] : 0.0F;
    backward_row<kKind>(row_of<T>(a.x, row, n), row_of<T>(a.gamma, 0, n), row_of<T>(a.dy, row, n),
                        row_of<T>(a.residual_grad, row, n), mean, a.inv.data<float>()[row],
                        row_of<T>(a.dx, row, n), n);
  }
}

// dgamma[c] = sum of dy h, dbeta[c] = sum of dy, for columns [begin, end), in groups of 64 rows.
template <Norm kKind, class T, class G>
void weight_grads(const detail::NormBackward& a, int64_t rows, LayerNormGrads& grads, int64_t begin,
                  int64_t end) {
  constexpr int64_t kGroup = 64;
  const Lanes d;
  const int64_t n = a.gamma.numel();
  G* dgamma = grads.dgamma.data<G>();
  G* dbeta = kKind == Norm::kLayer ? grads.dbeta.data<G>() : nullptr;
  const T* x_rows = a.x.data<T>();
  const T* dy_rows = a.dy.data<T>();
  const float* means = kKind == Norm::kLayer ? a.mean.data<float>() : nullptr;
  const float* inverses = a.inv.data<float>();
  for (int64_t c = begin; c < end; c += lane_count()) {
    const int64_t count = at_most_lanes(end - c);
    auto gamma_total = hn::Zero(d);
    auto beta_total = hn::Zero(d);
    if (grads.write_gamma == Write::kAccumulate) gamma_total = get(d, dgamma + c, count);
    if (kKind == Norm::kLayer && grads.write_beta == Write::kAccumulate) {
      beta_total = get(d, dbeta + c, count);
    }
    for (int64_t first = 0; first < rows; first += kGroup) {
      const int64_t last = first + kGroup < rows ? first + kGroup : rows;
      auto gamma_part = hn::Zero(d);
      auto beta_part = hn::Zero(d);
      for (int64_t row = first; row < last; ++row) {
        const float mean = kKind == Norm::kLayer ? means[row] : 0.0F;
        const auto dy = get(d, dy_rows + row * n + c, count);
        const auto centred = hn::Sub(get(d, x_rows + row * n + c, count), hn::Set(d, mean));
        const auto h = hn::Mul(centred, hn::Set(d, inverses[row]));
        gamma_part = hn::MulAdd(dy, h, gamma_part);
        beta_part = hn::Add(beta_part, dy);
      }
      gamma_total = hn::Add(gamma_total, gamma_part);
      beta_total = hn::Add(beta_total, beta_part);
    }
    put(gamma_total, d, dgamma + c, count);
    if (kKind == Norm::kLayer) put(beta_total, d, dbeta + c, count);
  }
}

}  // namespace

void norm_rows(const detail::NormForward& a, int64_t begin, int64_t end) {
  on_float(a.x.dtype(), [&]<class T>() {
    on_norm(a.kind, [&]<Norm kKind>() { forward_typed<kKind, T>(a, begin, end); });
  });
}

void norm_backward_rows(const detail::NormBackward& a, int64_t begin, int64_t end) {
  on_float(a.x.dtype(), [&]<class T>() {
    on_norm(a.kind, [&]<Norm kKind>() { backward_typed<kKind, T>(a, begin, end); });
  });
}

void norm_weight_columns(const detail::NormBackward& a, int64_t rows, LayerNormGrads& grads,
                         int64_t begin, int64_t end) {
  on_float(a.x.dtype(), [&]<class T>() {
    on_float(grads.dgamma.dtype(), [&]<class G>() {
      on_norm(a.kind, [&]<Norm kKind>() { weight_grads<kKind, T, G>(a, rows, grads, begin, end); });
    });
  });
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels {
namespace {

DS_SIMD_EXPORT(norm_rows);
DS_SIMD_EXPORT(norm_backward_rows);
DS_SIMD_EXPORT(norm_weight_columns);

constexpr int64_t kColumnGrain = 64;

int64_t grain_of_rows(int64_t columns) { return std::max<int64_t>(1, 2048 / columns); }

}  // namespace

namespace detail {

void norm_forward_cpu(Stream& stream, const NormForward& a, int64_t rows) {
  stream.pool().parallel_for(rows, grain_of_rows(a.gamma.numel()), [&](int64_t begin, int64_t end) {
    DS_SIMD(norm_rows)(a, begin, end);
  });
}

void norm_backward_cpu(Stream& stream, const NormBackward& a, int64_t rows, LayerNormGrads& grads) {
  const int64_t columns = a.gamma.numel();
  // Weight gradients first: dx may overwrite dy.
  if (grads.dgamma.defined()) {
    stream.pool().parallel_for(columns, kColumnGrain, [&](int64_t begin, int64_t end) {
      DS_SIMD(norm_weight_columns)(a, rows, grads, begin, end);
    });
  }
  stream.pool().parallel_for(rows, grain_of_rows(columns), [&](int64_t begin, int64_t end) {
    DS_SIMD(norm_backward_rows)(a, begin, end);
  });
}

}  // namespace detail
}  // namespace ds::kernels
#endif  // HWY_ONCE
