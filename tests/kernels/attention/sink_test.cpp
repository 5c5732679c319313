// Sinks of attention: what they make of outputs and log-sum-exps, and their gradients.
#include <cmath>
#include <limits>

#include "core/status/error.h"
#include "kernels/attention/attention_sink.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"
#include "tests/support/test_stream.h"

namespace ds::kernels {
namespace {

using namespace reference;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<AttentionShape> shapes() {
  if (testing::is_on_device()) return {{1, 5, 2, 1, 4}, {2, 35, 4, 2, 20}};
  return {{1, 1, 1, 1, 1}, {1, 5, 2, 1, 4}, {2, 130, 6, 2, 20}};
}

TEST_CASE("sinks take their part of the softmax", "[kernels][device]") {
  TestStream s;
  for (const AttentionShape& shape : shapes()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      CAPTURE(shape.length, shape.heads, name_of(dtype));
      const int64_t rows = shape.batch * shape.length;
      Tensor y = random_tensor({rows, shape.heads * shape.head_dim}, dtype, 1, s.stream);
      const Values before = values_of(y);
      const Tensor sinks = random_tensor({shape.heads}, dtype, 2, s.stream);
      const Values c = values_of(sinks);
      Values sums = values_of(
          random_tensor({shape.batch, shape.heads, shape.length}, DType::kF32, 3, s.stream));
      sums.back() = -kInfinity;  // of a row that sees no key
      Tensor lse = tensor_of(sums, {shape.batch, shape.heads, shape.length}, DType::kF32, s.stream);
      add_sinks(s.stream, shape, sinks, y, lse);
      const Values after = values_of(y), sums_after = values_of(lse);
      for (size_t number = 0; number < sums.size(); ++number) {
        const auto at = static_cast<int64_t>(number);
        const int64_t item = at / shape.length, head = item % shape.heads;
        const int64_t row = item / shape.heads * shape.length + at % shape.length;
        const double sink = c[static_cast<size_t>(head)];
        const double both = std::log(std::exp(sums[number]) + std::exp(sink));
        REQUIRE(sums_after[number] == Approx(both).margin(1e-5));
        const double kept = std::exp(sums[number] - both);
        for (int64_t i = 0; i < shape.head_dim; ++i) {
          const auto place = static_cast<size_t>((row * shape.heads + head) * shape.head_dim + i);
          REQUIRE(after[place] == Approx(before[place] * kept)
                                      .epsilon(dtype == DType::kF32 ? 1e-5 : 4e-3)
                                      .margin(tolerance_of(dtype)));
        }
      }
    }
  }
}

TEST_CASE("the terms of a sink's gradient are its weights times what the rows lose",
          "[kernels][device]") {
  TestStream s;
  for (const AttentionShape& shape : shapes()) {
    const Shape by_head{shape.batch, shape.heads, shape.length};
    const Tensor sinks = random_tensor({shape.heads}, DType::kF32, 2, s.stream);
    const Tensor lse = random_tensor(by_head, DType::kF32, 3, s.stream);
    const Tensor delta = random_tensor(by_head, DType::kF32, 4, s.stream);
    Tensor terms = Tensor::empty({shape.batch * shape.length, shape.heads}, DType::kF32, s.stream);
    sink_terms(s.stream, shape, sinks, lse, delta, terms);
    const Values c = values_of(sinks), sums = values_of(lse), lost = values_of(delta);
    const Values got = values_of(terms);
    for (int64_t b = 0; b < shape.batch; ++b) {
      for (int64_t h = 0; h < shape.heads; ++h) {
        for (int64_t t = 0; t < shape.length; ++t) {
          const auto number = static_cast<size_t>((b * shape.heads + h) * shape.length + t);
          const auto row = static_cast<size_t>((b * shape.length + t) * shape.heads + h);
          const double weight = std::exp(c[static_cast<size_t>(h)] - sums[number]);
          REQUIRE(got[row] == Approx(-weight * lost[number]).margin(1e-5));
        }
      }
    }
  }
}

TEST_CASE("a head without any score keeps its zeros", "[kernels]") {
  TestStream s;
  const AttentionShape shape{1, 1, 1, 1, 2};
  const Tensor sinks = tensor_of({-kInfinity}, {1}, DType::kF32, s.stream);
  Tensor y = Tensor::zeros({1, 2}, DType::kF32, s.stream);
  Tensor lse = tensor_of({-kInfinity}, {1, 1, 1}, DType::kF32, s.stream);
  add_sinks(s.stream, shape, sinks, y, lse);
  CHECK(values_of(y) == Values{0, 0});
  CHECK(values_of(lse) == Values{-kInfinity});
  Tensor terms = Tensor::empty({1, 1}, DType::kF32, s.stream);
  sink_terms(s.stream, shape, sinks, lse, tensor_of({2.0}, {1, 1, 1}, DType::kF32, s.stream),
             terms);
  CHECK(values_of(terms) == Values{0});
}

TEST_CASE("sinks of other heads are refused", "[kernels]") {
  TestStream s;
  const AttentionShape shape{1, 3, 2, 1, 4};
  const Tensor sinks = Tensor::zeros({3}, DType::kF32, s.stream);
  Tensor y = Tensor::zeros({3, 8}, DType::kF32, s.stream);
  Tensor lse = Tensor::zeros({1, 2, 3}, DType::kF32, s.stream);
  CHECK_THROWS_WITH(add_sinks(s.stream, shape, sinks, y, lse), Catch::Contains("sinks"));
  const Tensor two = Tensor::zeros({2}, DType::kF32, s.stream);
  Tensor narrow = Tensor::zeros({3, 7}, DType::kF32, s.stream);
  CHECK_THROWS_WITH(add_sinks(s.stream, shape, two, narrow, lse), Catch::Contains("y"));
  CHECK_THROWS_WITH(
      sink_terms(s.stream, shape, two, lse, Tensor::zeros({5}, DType::kF32, s.stream), narrow),
      Catch::Contains("delta"));
}

}  // namespace
}  // namespace ds::kernels
