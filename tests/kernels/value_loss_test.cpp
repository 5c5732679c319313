// Losses of values and their gradients, against formulas in double precision and differences.
#include "kernels/value_loss/value_loss.h"

#include <cmath>

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

double formula(ValueLoss loss, double score, double value) {
  if (loss == ValueLoss::kSquaredError) return (score - value) * (score - value);
  return std::log1p(std::exp(-std::abs(score))) + std::max(score, 0.0) - value * score;
}

// Two samples of three rows, of which rows 1 and 5 count.
struct Case {
  Case(TestStream& s, int64_t width, DType dtype, float spread = 1)
      : scores(random_tensor({6, width}, dtype, 1, s.stream)),
        values(random_tensor({2, width}, DType::kF32, 2, s.stream)),
        targets(testing::upload(std::vector<int32_t>{-1, 0, -1, -100, -1, 0}, {6}, s.stream)),
        losses(Tensor::empty({6}, DType::kF32, s.stream)),
        dscores(Tensor::empty({6, width}, dtype, s.stream)) {
    if (spread != 1) scores = testing::upload(spread_over(spread, width), {6, width}, s.stream);
  }
  static std::vector<float> spread_over(float spread, int64_t width) {
    std::vector<float> far;
    for (int64_t i = 0; i < 6 * width; ++i) {
      far.push_back(spread * static_cast<float>(i - 3 * width) / static_cast<float>(width));
    }
    return far;
  }
  ValueLossArgs args(ValueLoss loss) const {
    return {.loss = loss,
            .scores = scores,
            .values = values,
            .targets = targets,
            .losses = losses,
            .grad_scale = 0.5F,
            .dscores = dscores};
  }
  Tensor scores, values, targets, losses, dscores;
};

void check_case(TestStream& s, const Case& c, ValueLoss loss, const double* loss_scale,
                double times) {
  ValueLossArgs args = c.args(loss);
  args.loss_scale = loss_scale;
  value_loss(s.stream, args);
  const Values scores = values_of(c.scores), values = values_of(c.values);
  const size_t width = values.size() / 2;
  Values losses(6, 0.0), slopes(scores.size(), 0.0);
  for (const size_t row : {size_t{1}, size_t{5}}) {
    for (size_t k = 0; k < width; ++k) {
      const double score = scores[row * width + k], value = values[row / 3 * width + k];
      losses[row] += formula(loss, score, value) / static_cast<double>(width);
      constexpr double kStep = 1e-6;
      const double slope =
          (formula(loss, score + kStep, value) - formula(loss, score - kStep, value)) / (2 * kStep);
      slopes[row * width + k] = 0.5 * times * slope / static_cast<double>(width);
    }
  }
  CHECK(error_of(c.losses, losses) < 1e-5);
  CHECK(error_of(c.dscores, slopes) < std::max(1e-5, double{tolerance_of(c.scores.dtype())}));
  const Values got = values_of(c.losses);
  CHECK(got[0] == 0);
  CHECK(got[3] == 0);
  args.dscores = Tensor();
  args.losses = Tensor::empty({6}, DType::kF32, s.stream);
  value_loss(s.stream, args);
  CHECK(values_of(args.losses) == got);
}

TEST_CASE("losses of values are what their formulas say, and gradients their differences",
          "[kernels][device]") {
  TestStream s;
  for (const ValueLoss loss : {ValueLoss::kSquaredError, ValueLoss::kSigmoidCrossEntropy}) {
    for (const DType dtype : float_dtypes()) {
      for (const int64_t width : {1, 3, 70}) {
        INFO(name_of(dtype) << " " << width);
        check_case(s, Case(s, width, dtype), loss, nullptr, 1);
      }
    }
    check_case(s, Case(s, 5, DType::kF32, 30), loss, nullptr, 1);
  }
}

TEST_CASE("gradients of values are multiplied by the loss scale", "[kernels][device]") {
  TestStream s;
  const Tensor scale = testing::upload(std::vector<double>{64}, {1}, s.stream);
  check_case(s, Case(s, 3, DType::kF32), ValueLoss::kSquaredError,
             static_cast<const double*>(scale.address()), 64);
}

TEST_CASE("scores far from zero have finite losses and gradients", "[kernels][device]") {
  TestStream s;
  const Case c(s, 2, DType::kF32, 1e4F);
  value_loss(s.stream, c.args(ValueLoss::kSigmoidCrossEntropy));
  for (const double loss : values_of(c.losses)) CHECK(std::isfinite(loss));
  for (const double slope : values_of(c.dscores)) CHECK(std::isfinite(slope));
}

TEST_CASE("losses of values want whole samples and one value for each score", "[kernels]") {
  TestStream s;
  const Case c(s, 3, DType::kF32);
  const auto refused = [&](auto&& change) {
    ValueLossArgs args = c.args(ValueLoss::kSquaredError);
    change(args);
    CHECK_THROWS_AS(value_loss(s.stream, args), InternalError);
  };
  CHECK_NOTHROW(value_loss(s.stream, c.args(ValueLoss::kSquaredError)));
  refused([](ValueLossArgs& args) { args.scores = {}; });
  refused([](ValueLossArgs& args) { args.values = {}; });
  refused([&](ValueLossArgs& args) { args.values = Tensor::zeros({2, 2}, DType::kF32, s.stream); });
  refused([&](ValueLossArgs& args) { args.values = Tensor::zeros({4, 3}, DType::kF32, s.stream); });
  refused([&](ValueLossArgs& args) { args.targets = Tensor::zeros({5}, DType::kI32, s.stream); });
  refused([&](ValueLossArgs& args) { args.losses = Tensor::zeros({6}, DType::kBF16, s.stream); });
  refused([&](ValueLossArgs& args) {
    args.dscores = Tensor::zeros({6, 3}, DType::kBF16, s.stream);
  });
}

}  // namespace
}  // namespace ds::kernels
