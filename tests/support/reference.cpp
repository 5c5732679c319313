// See reference.h.
#include "tests/support/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "core/device/dispatch.h"
#include "core/values/rng.h"
#include "kernels/embedding/embedding.h"
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
    case kernels::Activation::kTanh:
      return std::tanh(x);
    case kernels::Activation::kQuickGelu:
      return x / (1 + std::exp(-1.702 * x));
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

namespace {

template <class T>
std::vector<T> elements_of(const Tensor& tensor) {
  const std::vector<std::byte> bytes = bytes_of(tensor);
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// The queries of one head, one at a time: what each sees, and with which weight.
class AttentionRow {
 public:
  AttentionRow(const kernels::AttentionSpec& spec, const Values& qkv)
      : spec_(spec), s_(spec.shape), qkv_(qkv) {
    if (spec.mask.ranges.defined()) ranges_ = elements_of<int32_t>(spec.mask.ranges);
    if (spec.mask.layout.defined()) layout_ = elements_of<uint8_t>(spec.mask.layout);
  }

  // Elements of qkv; heads are counted through queries, keys and values.
  size_t at(int64_t b, int64_t t, int64_t head, int64_t i) const {
    return static_cast<size_t>((b * s_.length + t) * s_.packed() + head * s_.head_dim + i);
  }
  int64_t key_head(int64_t h) const { return s_.heads + h / (s_.heads / s_.kv_heads); }
  bool sees(int64_t b, int64_t h, int64_t t, int64_t j) const {
    const kernels::AttentionMask& mask = spec_.mask;
    if (t - j > mask.left || j - t > mask.right) return false;
    if (!ranges_.empty()) {
      const auto row = static_cast<size_t>(2 * (b * s_.length + t));
      if (j < ranges_[row] || j >= ranges_[row + 1]) return false;
    }
    if (layout_.empty()) return true;
    const Shape& shape = mask.layout.shape();
    const int64_t head = shape[0] == 1 ? 0 : h;
    const int64_t cell = (head * shape[1] + t / mask.block) * shape[1] + j / mask.block;
    return layout_[static_cast<size_t>(cell)] != 0;
  }
  double scale() const {
    return spec_.scale > 0 ? spec_.scale : 1 / std::sqrt(static_cast<double>(s_.head_dim));
  }
  // What is masked, and what its gradient is multiplied by to be that of the product of query and
  // key.
  struct Score {
    double value, slope;
  };
  Score score(int64_t b, int64_t h, int64_t t, int64_t j) const {
    double product = 0;
    for (int64_t i = 0; i < s_.head_dim; ++i) {
      product += qkv_[at(b, t, h, i)] * qkv_[at(b, j, key_head(h), i)];
    }
    const double scaled = product * scale(), cap = spec_.softcap;
    if (cap == 0) return {scaled, scale()};
    const double bent = std::tanh(scaled / cap);
    return {cap * bent, scale() * (1 - bent * bent)};
  }
  // Weights of all keys, 0 of those that are not seen, and the log-sum-exp.
  Values weights(int64_t b, int64_t h, int64_t t, double* log_sum_exp) const {
    Values out(static_cast<size_t>(s_.length), -static_cast<double>(INFINITY));
    for (int64_t j = 0; j < s_.length; ++j) {
      if (sees(b, h, t, j)) out[static_cast<size_t>(j)] = score(b, h, t, j).value;
    }
    const double most = *std::max_element(out.begin(), out.end());
    double total = 0;
    for (double& value : out) {
      value = std::isinf(value) ? 0 : std::exp(value - most);
      total += value;
    }
    *log_sum_exp = most + std::log(total);
    for (double& value : out) value = total == 0 ? 0 : value / total;
    return out;
  }

 private:
  const kernels::AttentionSpec& spec_;
  const kernels::AttentionShape& s_;
  const Values& qkv_;
  std::vector<int32_t> ranges_;
  std::vector<uint8_t> layout_;
};

template <class F>
void for_each_query(const kernels::AttentionShape& s, const F& f) {
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      for (int64_t t = 0; t < s.length; ++t) f(b, h, t);
    }
  }
}

}  // namespace

Values attention(const kernels::AttentionSpec& spec, const Values& qkv, Values* log_sum_exp,
                 const Keep& keep) {
  const kernels::AttentionShape& s = spec.shape;
  const AttentionRow row(spec, qkv);
  Values y(static_cast<size_t>(s.batch * s.length * s.heads * s.head_dim));
  if (log_sum_exp != nullptr) log_sum_exp->clear();
  for_each_query(s, [&](int64_t b, int64_t h, int64_t t) {
    double sum = 0;
    const Values weights = row.weights(b, h, t, &sum);
    if (log_sum_exp != nullptr) log_sum_exp->push_back(sum);
    for (int64_t j = 0; j < s.length; ++j) {
      const double weight = weights[static_cast<size_t>(j)] * (keep ? keep(b, h, t, j) : 1.0);
      if (weight == 0) continue;
      for (int64_t i = 0; i < s.head_dim; ++i) {
        y[static_cast<size_t>(((b * s.length + t) * s.heads + h) * s.head_dim + i)] +=
            weight * qkv[row.at(b, j, row.key_head(h) + s.kv_heads, i)];
      }
    }
  });
  return y;
}

Values attention_gradient(const kernels::AttentionSpec& spec, const Values& qkv, const Values& dy) {
  const kernels::AttentionShape& s = spec.shape;
  const AttentionRow row(spec, qkv);
  Values out(qkv.size());
  for_each_query(s, [&](int64_t b, int64_t h, int64_t t) {
    double sum = 0;
    const Values weights = row.weights(b, h, t, &sum);
    const int64_t keys = row.key_head(h), values = keys + s.kv_heads;
    const auto dy_of = [&](int64_t i) {
      return dy[static_cast<size_t>(((b * s.length + t) * s.heads + h) * s.head_dim + i)];
    };
    Values products(weights.size());
    double delta = 0;
    for (int64_t j = 0; j < s.length; ++j) {
      double& product = products[static_cast<size_t>(j)];
      for (int64_t i = 0; i < s.head_dim; ++i) product += dy_of(i) * qkv[row.at(b, j, values, i)];
      delta += weights[static_cast<size_t>(j)] * product;
    }
    for (int64_t j = 0; j < s.length; ++j) {
      const double weight = weights[static_cast<size_t>(j)];
      if (weight == 0) continue;
      const double slope = row.score(b, h, t, j).slope;
      const double of_product = weight * (products[static_cast<size_t>(j)] - delta) * slope;
      for (int64_t i = 0; i < s.head_dim; ++i) {
        out[row.at(b, j, values, i)] += weight * dy_of(i);
        out[row.at(b, t, h, i)] += of_product * qkv[row.at(b, j, keys, i)];
        out[row.at(b, j, keys, i)] += of_product * qkv[row.at(b, t, h, i)];
      }
    }
  });
  return out;
}

kernels::RotaryTable rotary(double theta, int64_t width) {
  kernels::RotaryTable table;
  for (int64_t j = 0; j < width / 2; ++j) {
    table.frequencies.push_back(static_cast<float>(
        std::pow(theta, -2.0 * static_cast<double>(j) / static_cast<double>(width))));
  }
  return table;
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
