// Activations, SwiGLU and dropout against the fp64 reference and its numeric derivative.
#include "kernels/elementwise/activation.h"

#include <cmath>
#include <limits>

#include "tests/support/catch.h"
#include "tests/support/gradcheck.h"
#include "tests/support/reference.h"
#include "tests/support/step_numbers.h"

namespace ds::kernels {
namespace {

using namespace reference;

constexpr Activation kKinds[] = {
    Activation::kNone, Activation::kGeluTanh, Activation::kGeluExact, Activation::kSilu,
    Activation::kRelu, Activation::kTanh,     Activation::kQuickGelu};

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
  for (const Activation kind :
       {Activation::kGeluTanh, Activation::kGeluExact, Activation::kSilu, Activation::kQuickGelu}) {
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
      glu_forward(s.stream, Activation::kSilu, x, y);
      glu_backward(s.stream, Activation::kSilu, x, dy, dx);
      INFO(name_of(dtype) << " width " << width);
      REQUIRE(error_of(y, f(values_of(x))) < reference::tolerance_of(dtype));
      const Values gradient = reference::numeric_gradient(
          [&](const Values& v) { return reference::dot(f(v), values_of(dy)); }, values_of(x));
      REQUIRE(error_of(dx, gradient) < reference::tolerance_of(dtype));
    }
  }
}

TEST_CASE("a gated unit of any function and its gradient match the reference",
          "[kernels][device]") {
  TestStream s;
  for (const DType dtype : reference::float_dtypes()) {
    for (const Activation kind : kKinds) {
      for (const int64_t width : {1, 16, 37}) {
        const auto columns = static_cast<size_t>(width);
        const Tensor x = reference::random_tensor({3, 2 * width}, dtype, 1, s.stream);
        const Tensor dy = reference::random_tensor({3, width}, dtype, 2, s.stream);
        const auto f = [&](const Values& v) {
          Values y(3 * columns);
          for (size_t i = 0; i < y.size(); ++i) {
            const size_t at = i / columns * columns + i;
            y[i] = reference::activation(kind, v[at]) * v[at + columns];
          }
          return y;
        };
        Tensor y = Tensor::empty({3, width}, dtype, s.stream);
        Tensor dx = Tensor::empty({3, 2 * width}, dtype, s.stream);
        glu_forward(s.stream, kind, x, y);
        glu_backward(s.stream, kind, x, dy, dx);
        CAPTURE(name_of(dtype), static_cast<int>(kind), width);
        REQUIRE(error_of(y, f(values_of(x))) < reference::tolerance_of(dtype));
        const Values gradient = reference::numeric_gradient(
            [&](const Values& v) { return reference::dot(f(v), values_of(dy)); }, values_of(x));
        REQUIRE(error_of(dx, gradient) < reference::tolerance_of(dtype));
      }
    }
  }
}

TEST_CASE("dropout keeps what the counter says and scales it, for any split of the tensor",
          "[kernels][device]") {
  TestStream s(3);
  const Rng numbers(7, "dropout"), rng = numbers.derive(11);
  testing::PlacedInputs inputs(numbers, 5, s.stream);
  const float p = 0.3F;
  for (const DType dtype : reference::float_dtypes()) {
    const Tensor x = reference::random_tensor({10007}, dtype, 1, s.stream);
    Tensor y = Tensor::empty({10007}, dtype, s.stream);
    inputs.set({.dropout = numbers, .first_sample = 5});
    dropout(s.stream, x, p, inputs.mask(11), 1, y);
    Values expected = values_of(x);
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] = rng.uniform(5 + i) >= p ? expected[i] / (1.0 - static_cast<double>(p)) : 0.0;
    }
    REQUIRE(error_of(y, expected) < reference::tolerance_of(dtype));
    for (const int64_t first : {1, 2, 3, 4, 37}) {
      Tensor part = Tensor::empty({501}, dtype, s.stream);
      inputs.set({.dropout = numbers, .first_sample = 5 + first});
      dropout(s.stream, x.narrow(first, 501), p, inputs.mask(11), 1, part);
      REQUIRE(same_bits(part, y.narrow(first, 501)));
    }
  }
  Tensor y = Tensor::empty({4}, DType::kF32, s.stream);
  REQUIRE_THROWS_WITH(dropout(s.stream, y, 1.0F, inputs.mask(), 1, y),
                      Catch::Contains("expected 0 <= p < 1"));
}

TEST_CASE("activations of any part of a tensor have the bits of the whole's", "[kernels][device]") {
  TestStream s;
  const int64_t whole = 9000;
  for (const DType dtype : float_dtypes()) {
    const Tensor x = random_tensor({whole}, dtype, 1, s.stream);
    const Tensor dy = random_tensor({whole}, dtype, 2, s.stream);
    Tensor y = Tensor::empty({whole}, dtype, s.stream);
    Tensor dx = Tensor::empty({whole}, dtype, s.stream);
    for (const Activation kind : kKinds) {
      activation_forward(s.stream, kind, x, y);
      activation_backward(s.stream, kind, x, dy, dx);
      // Lengths around a pack, a warp of packs and a block of them; places between packs.
      for (const int64_t n : {3, 4, 7, 8, 9, 255, 256, 257, 2047, 2049}) {
        for (const int64_t first : {0, 1, 8, 13}) {
          CAPTURE(name_of(dtype), static_cast<int>(kind), n, first);
          Tensor part = Tensor::empty({n}, dtype, s.stream);
          activation_forward(s.stream, kind, x.narrow(first, n), part);
          REQUIRE(same_bits(part, y.narrow(first, n)));
          activation_backward(s.stream, kind, x.narrow(first, n), dy.narrow(first, n), part);
          REQUIRE(same_bits(part, dx.narrow(first, n)));
        }
      }
    }
  }
}

TEST_CASE("SwiGLU of misaligned rows has the bits of aligned ones", "[kernels][device]") {
  TestStream s;
  const int64_t rows = 3;
  for (const DType dtype : float_dtypes()) {
    for (const int64_t width : {8, 31, 32, 256, 2056, 2057}) {
      CAPTURE(name_of(dtype), width);
      const Tensor room = random_tensor({3 + 2 * rows * width}, dtype, 1, s.stream);
      const Tensor dy = random_tensor({rows, width}, dtype, 2, s.stream);
      const Tensor apart = room.narrow(3, 2 * rows * width);
      Tensor aligned = tensor_of(values_of(apart), apart.shape(), dtype, s.stream);
      Tensor one = Tensor::empty({rows, width}, dtype, s.stream);
      Tensor other = Tensor::empty({rows, width}, dtype, s.stream);
      glu_forward(s.stream, Activation::kSilu, apart, one);
      glu_forward(s.stream, Activation::kSilu, aligned, other);
      REQUIRE(same_bits(one, other));
      Tensor done = Tensor::empty({2 * rows * width}, dtype, s.stream);
      Tensor done_otherwise = Tensor::empty({2 * rows * width}, dtype, s.stream);
      glu_backward(s.stream, Activation::kSilu, apart, dy, done);
      glu_backward(s.stream, Activation::kSilu, aligned, dy, done_otherwise);
      REQUIRE(same_bits(done, done_otherwise));
    }
  }
}

TEST_CASE("masks of dropout are those of the generator at every place of a block of its words",
          "[kernels][device]") {
  TestStream s;
  const Rng numbers(3, "dropout"), rng = numbers.derive(9);
  const float p = 0.5F;
  for (const DType dtype : float_dtypes()) {
    for (const int64_t n : {1, 7, 8, 2048, 2049}) {
      for (const int64_t sample : {int64_t{0}, int64_t{1}, (int64_t{1} << 33) - 1}) {
        CAPTURE(name_of(dtype), n, sample);
        const testing::PlacedInputs inputs(numbers, sample, s.stream);
        const auto first = static_cast<uint64_t>(3 * sample);
        const Tensor ones = tensor_of(Values(static_cast<size_t>(n), 1.0), {n}, dtype, s.stream);
        Tensor y = Tensor::empty({n}, dtype, s.stream);
        dropout(s.stream, ones, p, inputs.mask(9), 3, y);
        Values expected(static_cast<size_t>(n));
        for (size_t i = 0; i < expected.size(); ++i) {
          expected[i] = rng.uniform(first + i) >= p ? 2.0 : 0.0;
        }
        REQUIRE(values_of(y) == expected);
      }
    }
  }
}

TEST_CASE("a part of a sample drops what the whole one drops there", "[kernels][device]") {
  TestStream s;
  const testing::PlacedInputs inputs(Rng(3, "dropout"), 5, s.stream);
  const Tensor x = random_tensor({1024}, DType::kF32, 1, s.stream);
  Tensor whole = Tensor::empty({1024}, DType::kF32, s.stream);
  dropout(s.stream, x, 0.4F, inputs.mask(9), 1024, whole);
  for (const int64_t first : {0, 1, 96, 777}) {
    DropoutMask mask = inputs.mask(9);
    mask.skipped = first;
    Tensor part = Tensor::empty({1024 - first}, DType::kF32, s.stream);
    dropout(s.stream, x.narrow(first, 1024 - first), 0.4F, mask, 1024, part);
    REQUIRE(values_of(part) == values_of(whole.narrow(first, 1024 - first)));
  }
}

TEST_CASE("activations of nothing do nothing", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    const Tensor x = Tensor::zeros({0, 4}, dtype, s.stream);
    Tensor y = Tensor::zeros({0, 4}, dtype, s.stream);
    Tensor narrow = Tensor::zeros({0, 2}, dtype, s.stream);
    CHECK_NOTHROW(activation_forward(s.stream, Activation::kSilu, x, y));
    CHECK_NOTHROW(activation_backward(s.stream, Activation::kSilu, x, x, y));
    const testing::PlacedInputs inputs(Rng(1, "none"), 0, s.stream);
    CHECK_NOTHROW(dropout(s.stream, x, 0.5F, inputs.mask(), 1, y));
    CHECK_NOTHROW(glu_forward(s.stream, Activation::kSilu, x, narrow));
    CHECK_NOTHROW(glu_backward(s.stream, Activation::kSilu, x, narrow, y));
    s.stream.synchronize();
  }
}

}  // namespace ds::kernels
