// Power iteration on matrices whose eigenvalues are known in closed form.
#include "train/settings/power_iteration.h"

#include <cmath>
#include <limits>

#include "tests/support/catch.h"

namespace ds {
namespace {

// Q D Q with the reflection Q = I - 2 u u^T, |u| = 1: symmetric, full, with the eigenvalues of D.
MatrixProduct reflected(const std::vector<double>& eigenvalues) {
  return [eigenvalues](const std::vector<float>& v) {
    const size_t n = eigenvalues.size();
    double squares = 0;
    for (size_t i = 0; i < n; ++i) squares += static_cast<double>((i + 1) * (i + 1));
    const auto u = [&](size_t i) { return static_cast<double>(i + 1) / std::sqrt(squares); };
    std::vector<double> x(v.begin(), v.end());
    const auto reflect = [&] {
      double along = 0;
      for (size_t i = 0; i < n; ++i) along += u(i) * x[i];
      for (size_t i = 0; i < n; ++i) x[i] -= 2 * along * u(i);
    };
    reflect();
    for (size_t i = 0; i < n; ++i) x[i] *= eigenvalues[i];
    reflect();
    return std::vector<float>(x.begin(), x.end());
  };
}

const std::vector<float> kStart{1, -0.5F, 2, 0.25F, 1};

}  // namespace

TEST_CASE("power iteration finds the eigenvalue of the largest magnitude, with its sign",
          "[train]") {
  const PowerRules exact{.most = 1000, .tolerance = 1e-6, .stability = 0};
  CHECK(largest_eigenvalue(kStart, exact, reflected({3, 1, 0.5, -2, 0})).eigenvalue ==
        Approx(3).epsilon(1e-4));
  CHECK(largest_eigenvalue(kStart, exact, reflected({3, 1, -7, 2, 0})).eigenvalue ==
        Approx(-7).epsilon(1e-4));
  // One step away from an eigenvector it is there.
  CHECK(largest_eigenvalue({1, 1}, exact, [](const std::vector<float>& v) {
          return std::vector<float>{2 * v[0] + v[1], v[0] + 2 * v[1]};
        }).iterations == 2);
}

TEST_CASE("power iteration ends at the tolerance and not before, and at the most products",
          "[train]") {
  const MatrixProduct product = reflected({3, 2.5, 1, -2, 0});
  int64_t before = 1000;
  for (const double tolerance : {1e-5, 1e-3, 1e-1}) {
    std::vector<double> told{0, 1};  // what it begins from
    const PowerResult result =
        largest_eigenvalue(kStart, {.most = 1000, .tolerance = tolerance, .stability = 0}, product,
                           [&](int64_t iteration, double estimate) {
                             CHECK(iteration == static_cast<int64_t>(told.size()) - 1);
                             told.push_back(estimate);
                           });
    CAPTURE(tolerance);
    REQUIRE(told.size() == static_cast<size_t>(result.iterations) + 2);
    CHECK(told.back() == result.eigenvalue);
    for (size_t i = 1; i < told.size(); ++i) {
      const bool is_near = std::abs((told[i] - told[i - 1]) / told[i]) < tolerance;
      CHECK(is_near == (i + 1 == told.size()));
    }
    CHECK(result.iterations < before);
    before = result.iterations;
  }
  CHECK(largest_eigenvalue(kStart, {.most = 7, .tolerance = 0}, product).iterations == 7);
}

TEST_CASE("the stability is added to the lengths that vectors are divided by", "[train]") {
  // The matrix is 4 I: v = 1/(1+1), lambda = 4/4; v = 2/(2+1), lambda = 4 * 4/9.
  std::vector<double> told;
  largest_eigenvalue(
      {1, 0}, {.most = 2, .tolerance = 0, .stability = 1},
      [](const std::vector<float>& v) {
        return std::vector<float>{4 * v[0], 4 * v[1]};
      },
      [&](int64_t, double estimate) { told.push_back(estimate); });
  REQUIRE(told.size() == 2);
  CHECK(told[0] == Approx(1));
  CHECK(told[1] == Approx(16.0 / 9));
}

TEST_CASE("a matrix of zeros has the eigenvalue zero at once, and bad numbers count as zero",
          "[train]") {
  const PowerRules rules{.most = 50, .tolerance = 1e-6, .stability = 0};
  const PowerResult zero = largest_eigenvalue(
      kStart, rules, [](const std::vector<float>& v) { return std::vector<float>(v.size()); });
  CHECK(zero.eigenvalue == 0);
  CHECK(zero.iterations == 1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto product = [&](const std::vector<float>& v) {
    return std::vector<float>{5 * v[0], nan, 2 * v[2]};
  };
  CHECK(largest_eigenvalue({1, nan, 1}, rules, product).eigenvalue == Approx(5).epsilon(1e-4));
}

TEST_CASE("eigenvalues are told by the largest of them, and zeros as ones", "[train]") {
  CHECK(relative_to_largest(std::vector<double>{2, -4, 0, 1}) ==
        std::vector<double>{0.5, 1, 1, 0.25});
  CHECK(relative_to_largest(std::vector<double>{0, 0}) == std::vector<double>{1, 1});
  CHECK(relative_to_largest({}).empty());
}

}  // namespace ds
