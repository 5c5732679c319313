// See reference.h.
#include "tests/support/reference.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/dispatch.h"
#include "core/rng.h"
#include "kernels/embedding.h"
#include "tests/support/margins/margins.h"

namespace ds::reference {

Tensor tensor_of(const Values& values, const Shape& shape, DType dtype, Stream& stream) {
  DS_CHECK(shape.numel() == static_cast<int64_t>(values.size()), "tensor_of: {} values for {}",
           values.size(), shape.to_string());
  return on_float(dtype, [&]<class T>() {
    std::vector<T> elements(values.size());
    std::ranges::transform(values, elements.begin(),
                           [](double v) { return static_cast<T>(static_cast<float>(v)); });
    return testing::upload(elements, shape, stream);
  });
}

Tensor random_tensor(const Shape& shape, DType dtype, uint64_t seed, Stream& stream, double scale) {
  const Rng rng(seed, "reference");
  Values values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = scale * rng.normal(i);
  return tensor_of(values, shape, dtype, stream);
}

Tensor tokens_of(const std::vector<int32_t>& tokens, Stream& stream) {
  return testing::upload(tokens, {static_cast<int64_t>(tokens.size())}, stream);
}

Tensor order_of(const std::vector<int32_t>& tokens, Stream& stream) {
  std::vector<int32_t> order(2 * tokens.size());
  kernels::sort_tokens(tokens, order);
  return tokens_of(order, stream).reshape({2, static_cast<int64_t>(tokens.size())});
}

Values values_of(const Tensor& tensor) {
  const std::vector<float> values = testing::floats_of(tensor);
  return {values.begin(), values.end()};
}

bool same_bits(const Tensor& a, const Tensor& b) { return bytes_of(a) == bytes_of(b); }

bool operator<(const Deviation& error, double tolerance) {
  testing::margins().note(error.value, tolerance);
  return error.value < tolerance;
}

Deviation error_of(const Tensor& actual, const Values& expected) {
  const Values got = values_of(actual);
  DS_CHECK(got.size() == expected.size(), "error_of: {} values, expected {}", got.size(),
           expected.size());
  double largest = 1e-30;
  double error = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    const double difference = std::abs(got[i] - expected[i]);
    error = std::isnan(difference) ? INFINITY : std::max(error, difference);
  }
  return {error / largest};
}

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return 6e-3;  // half a unit of 8 bits, and a little for inner roundings
    case DType::kF16:
      return 1e-3;
    default:
      return 3e-6;
  }
}

const std::vector<DType>& float_dtypes() {
  static const std::vector<DType> dtypes{DType::kF32, DType::kBF16, DType::kF16};
  return dtypes;
}

Values matmul(const Values& a, const Values& b, int64_t m, int64_t n, int64_t k, bool transpose_a,
              bool transpose_b) {
  Values c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        sum += a[static_cast<size_t>(transpose_a ? l * m + i : i * k + l)] *
               b[static_cast<size_t>(transpose_b ? j * k + l : l * n + j)];
      }
      c[static_cast<size_t>(i * n + j)] = sum;
    }
  }
  return c;
}

double activation(kernels::Activation kind, double x) {
  switch (kind) {
    case kernels::Activation::kNone:
      return x;
    case kernels::Activation::kGeluTanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case kernels::Activation::kGeluExact:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case kernels::Activation::kSilu:
      return x / (1 + std::exp(-x));
    case kernels::Activation::kRelu:
      return std::max(x, 0.0);
  }
  return 0;
}

Values layer_norm(const Values& x, const Values& gamma, const Values& beta, double eps) {
  const size_t n = gamma.size();
  Values y(x.size());
  for (size_t row = 0; row < x.size(); row += n) {
    double mean = 0;
    double variance = 0;
    for (size_t i = 0; i < n; ++i) mean += x[row + i] / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) {
      variance += (x[row + i] - mean) * (x[row + i] - mean) / static_cast<double>(n);
    }
    for (size_t i = 0; i < n; ++i) {
      y[row + i] = (x[row + i] - mean) / std::sqrt(variance + eps) * gamma[i] + beta[i];
    }
  }
  return y;
}

Values rms_norm(const Values& x, const Values& gamma, double eps) {
  const size_t n = gamma.size();
  Values y(x.size());
  for (size_t row = 0; row < x.size(); row += n) {
    double square = 0;
    for (size_t i = 0; i < n; ++i) square += x[row + i] * x[row + i] / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) y[row + i] = x[row + i] / std::sqrt(square + eps) * gamma[i];
  }
  return y;
}

Values softmax(const Values& x, int64_t columns) {
  const auto n = static_cast<size_t>(columns);
  Values y(x.size());
  for (size_t row = 0; row < x.size(); row += n) {
    const double most = *std::max_element(&x[row], &x[row] + n);
    double total = 0;
    for (size_t i = 0; i < n; ++i) total += std::exp(x[row + i] - most);
    for (size_t i = 0; i < n; ++i) y[row + i] = std::exp(x[row + i] - most) / total;
  }
  return y;
}

Values attention(const kernels::AttentionShape& s, const Values& qkv, Values* log_sum_exp,
                 const Keep& keep) {
  Values y(static_cast<size_t>(s.batch * s.length * s.heads * s.head_dim));
  if (log_sum_exp != nullptr)
    log_sum_exp->assign(static_cast<size_t>(s.batch * s.heads * s.length), 0);
  const auto at = [&](int64_t b, int64_t t, int64_t head, int64_t i) {
    return qkv[static_cast<size_t>((b * s.length + t) * s.packed() + head * s.head_dim + i)];
  };
  for (int64_t item = 0; item < s.batch * s.heads * s.length; ++item) {
    const int64_t b = item / (s.heads * s.length);
    const int64_t h = item / s.length % s.heads;
    const int64_t t = item % s.length;
    const int64_t key = s.heads + h / (s.heads / s.kv_heads);
    Values score(static_cast<size_t>(t + 1));
    for (int64_t j = 0; j <= t; ++j) {
      for (int64_t i = 0; i < s.head_dim; ++i) {
        score[static_cast<size_t>(j)] +=
            at(b, t, h, i) * at(b, j, key, i) / std::sqrt(static_cast<double>(s.head_dim));
      }
    }
    const double most = *std::max_element(score.begin(), score.end());
    double total = 0;
    for (const double value : score) total += std::exp(value - most);
    if (log_sum_exp != nullptr) (*log_sum_exp)[static_cast<size_t>(item)] = most + std::log(total);
    for (int64_t i = 0; i < s.head_dim; ++i) {
      double sum = 0;
      for (int64_t j = 0; j <= t; ++j) {
        const double weight = std::exp(score[static_cast<size_t>(j)] - most) / total;
        sum += weight * (keep ? keep(b, h, t, j) : 1.0) * at(b, j, key + s.kv_heads, i);
      }
      y[static_cast<size_t>(((b * s.length + t) * s.heads + h) * s.head_dim + i)] = sum;
    }
  }
  return y;
}

Values cross_entropy(const Values& x, const Values& weight, const std::vector<int32_t>& targets,
                     int64_t width) {
  const auto rows = static_cast<int64_t>(targets.size());
  const int64_t vocabulary = static_cast<int64_t>(weight.size()) / width;
  const Values p = softmax(matmul(x, weight, rows, vocabulary, width, false, true), vocabulary);
  Values losses(targets.size());
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t target = targets[static_cast<size_t>(row)];
    if (target >= 0) {
      losses[static_cast<size_t>(row)] =
          -std::log(p[static_cast<size_t>(row * vocabulary + target)]);
    }
  }
  return losses;
}

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace ds::reference
