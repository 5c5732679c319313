// Activations, SwiGLU and dropout against the fp64 reference and its numeric derivative.
#include "kernels/activation.h"

#include <cmath>
#include <limits>

#include "tests/support/catch.h"
#include "tests/support/gradcheck.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

constexpr Activation kKinds[] = {Activation::kNone, Activation::kGeluTanh, Activation::kGeluExact,
                                 Activation::kSilu, Activation::kRelu};

Values apply(Activation kind, Values x) {
  for (double& v : x) v = reference::activation(kind, v);
  return x;
}

}  // namespace

TEST_CASE("activations and their derivatives match the reference", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : reference::float_dtypes()) {
    for (const Activation kind : kKinds) {
      for (const int64_t n : {1, 15, 16, 33, 1001}) {
        const Tensor x = reference::random_tensor({n}, dtype, 1, s.stream, 3.0);
        const Tensor dy = reference::random_tensor({n}, dtype, 2, s.stream);
        Tensor y = Tensor::empty({n}, dtype, s.stream);
        Tensor dx = Tensor::empty({n}, dtype, s.stream);
        activation_forward(s.stream, kind, x, y);
        activation_backward(s.stream, kind, x, dy, dx);
        const Values at = values_of(x);
        Values slope(at.size());
        for (size_t i = 0; i < at.size(); ++i) {
          slope[i] = (reference::activation(kind, at[i] + 1e-5) -
                      reference::activation(kind, at[i] - 1e-5)) /
                     2e-5 * values_of(dy)[i];
        }
        INFO(name_of(dtype) << " activation " << static_cast<int>(kind) << " n " << n);
        REQUIRE(error_of(y, apply(kind, at)) < reference::tolerance_of(dtype));
        REQUIRE(error_of(dx, slope) < reference::tolerance_of(dtype));
      }
    }
  }
}

TEST_CASE("activations are precise over the whole range of fp32", "[kernels][device]") {
  TestStream s;
  Values points;
  for (double x = -20; x <= 20; x += 0.01) points.push_back(static_cast<float>(x));
  const auto n = static_cast<int64_t>(points.size());
  const Tensor x = tensor_of(points, {n}, DType::kF32, s.stream);
  Tensor y = Tensor::empty({n}, DType::kF32, s.stream);
  for (const Activation kind : kKinds) {
    activation_forward(s.stream, kind, x, y);
    const Values got = values_of(y);
    for (size_t i = 0; i < points.size(); ++i) {
      INFO("activation " << static_cast<int>(kind) << " of " << points[i]);
      REQUIRE(got[i] == Approx(reference::activation(kind, points[i])).epsilon(4e-7).margin(3e-7));
    }
  }
}

TEST_CASE("activations keep infinities and NaN where the formula does", "[kernels][device]") {
  TestStream s;
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x =
      tensor_of({inf, -inf, std::nan(""), -1e30, 1e30, 0.0}, {6}, DType::kF32, s.stream);
  Tensor y = Tensor::empty({6}, DType::kF32, s.stream);
  for (const Activation kind : {Activation::kGeluTanh, Activation::kGeluExact, Activation::kSilu}) {
    activation_forward(s.stream, kind, x, y);
    const Values got = values_of(y);
    REQUIRE(got[0] == inf);
    REQUIRE(std::isnan(got[2]));
    REQUIRE(got[3] == 0);
    REQUIRE(got[4] == Approx(1e30));
    REQUIRE(got[5] == 0);
  }
}

TEST_CASE("SwiGLU and its gradient match the reference", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : reference::float_dtypes()) {
    for (const int64_t width : {1, 16, 37}) {
      const Tensor x = reference::random_tensor({5, 2 * width}, dtype, 1, s.stream);
      const Tensor dy = reference::random_tensor({5, width}, dtype, 2, s.stream);
      const auto f = [&](const Values& v) {
        Values y(static_cast<size_t>(5 * width));
        for (size_t i = 0; i < y.size(); ++i) {
          const size_t at = i / static_cast<size_t>(width) * static_cast<size_t>(width) + i;
          y[i] =
              reference::activation(Activation::kSilu, v[at]) * v[at + static_cast<size_t>(width)];
        }
        return y;
      };
      Tensor y = Tensor::empty({5, width}, dtype, s.stream);
      Tensor dx = Tensor::empty({5, 2 * width}, dtype, s.stream);
      swiglu_forward(s.stream, x, y);
      swiglu_backward(s.stream, x, dy, dx);
      INFO(name_of(dtype) << " width " << width);
      REQUIRE(error_of(y, f(values_of(x))) < reference::tolerance_of(dtype));
      const Values gradient = reference::numeric_gradient(
          [&](const Values& v) { return reference::dot(f(v), values_of(dy)); }, values_of(x));
      REQUIRE(error_of(dx, gradient) < reference::tolerance_of(dtype));
    }
  }
}

TEST_CASE("dropout keeps what the counter says and scales it, for any split of the tensor",
          "[kernels][device]") {
  TestStream s(3);
  const Rng rng(7, "dropout");
  const float p = 0.3F;
  for (const DType dtype : reference::float_dtypes()) {
    const Tensor x = reference::random_tensor({10007}, dtype, 1, s.stream);
    Tensor y = Tensor::empty({10007}, dtype, s.stream);
    dropout(s.stream, x, p, rng, 5, y);
    Values expected = values_of(x);
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] = rng.uniform(5 + i) >= p ? expected[i] / (1.0 - static_cast<double>(p)) : 0.0;
    }
    REQUIRE(error_of(y, expected) < reference::tolerance_of(dtype));
    for (const int64_t first : {1, 2, 3, 4, 37}) {
      Tensor part = Tensor::empty({501}, dtype, s.stream);
      dropout(s.stream, x.narrow(first, 501), p, rng, 5 + static_cast<uint64_t>(first), part);
      REQUIRE(same_bits(part, y.narrow(first, 501)));
    }
  }
  Tensor y = Tensor::empty({4}, DType::kF32, s.stream);
  REQUIRE_THROWS_WITH(dropout(s.stream, y, 1.0F, rng, 0, y),
                      Catch::Contains("expected 0 <= p < 1"));
}

}  // namespace ds::kernels
