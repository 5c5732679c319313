// Losses of routers against the fp64 reference, and their gradients against differences of it.
#include "kernels/moe/router_loss.h"

#include "tests/kernels/moe/moe_reference.h"
#include "tests/support/catch.h"
#include "tests/support/sums.h"

namespace ds::kernels {
namespace {

using namespace reference;

double balance_of(const Values& scores, const Ints& counts, int64_t choices) {
  const auto experts = static_cast<double>(counts.size());
  const double tokens = static_cast<double>(scores.size()) / experts;
  double loss = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    loss += scores[i] / tokens * static_cast<double>(counts[i % counts.size()]) / tokens;
  }
  return loss * experts / static_cast<double>(choices);
}

double z_of(const Values& logits, int64_t experts) {
  const int64_t tokens = static_cast<int64_t>(logits.size()) / experts;
  double sum = 0;
  for (int64_t n = 0; n < tokens; ++n) {
    const Values row = row_of(logits, n, experts);
    const double top = *std::ranges::max_element(row);
    double total = 0;
    for (const double x : row) total += std::exp(x - top);
    sum += std::pow(top + std::log(total), 2);
  }
  return sum / static_cast<double>(tokens);
}

Ints random_counts(int64_t experts) {
  Ints counts;
  for (int64_t e = 0; e < experts; ++e) counts.push_back(static_cast<int32_t>(e * 7 % 5));
  return counts;
}

TEST_CASE("the balance loss and its gradient", "[kernels][moe][device]") {
  TestStream s;
  for (const int64_t experts : {1, 2, 8, 64, 257}) {
    for (const int64_t tokens : {1, 37, 600}) {
      INFO(experts << " experts, " << tokens << " tokens");
      const Tensor scores = random_tensor({tokens, experts}, DType::kF32, 1, s.stream);
      const Ints counts = random_counts(experts);
      const BalanceLoss args{.scores = scores, .counts = ints(counts, s.stream), .choices = 3};
      Tensor loss = Tensor::empty({1}, DType::kF64, s.stream);
      balance_loss(s.stream, args, loss);
      const Values x = values_of(scores);
      const double expected = balance_of(x, counts, 3);
      CHECK(testing::number_in(s.stream, loss) == Approx(expected).margin(1e-9));
      const Tensor scale = Tensor::empty({1}, DType::kF64, s.stream);
      const double four = 4;
      s.stream.copy(&four, scale.address(), sizeof four);
      Tensor slopes = tensor_of(Values(x.size(), 0.5), {tokens, experts}, DType::kF32, s.stream);
      LossGradient gradient{.grad_scale = 0.25F,
                            .loss_scale = static_cast<const double*>(scale.address()),
                            .write = Write::kOverwrite};
      balance_loss_backward(s.stream, args, gradient, slopes);
      Values expected_slopes;  // the loss is linear: a step of 1 is exact
      for (int64_t e = 0; e < experts; ++e) {
        Values moved = x;
        moved[static_cast<size_t>(e)] += 1;
        expected_slopes.push_back(balance_of(moved, counts, 3) - expected);
      }
      const Values got = values_of(slopes);
      for (size_t i = 0; i < got.size(); ++i) {
        REQUIRE(got[i] == Approx(expected_slopes[i % counts.size()]).epsilon(1e-5).margin(1e-9));
      }
      gradient.write = Write::kAccumulate;
      balance_loss_backward(s.stream, args, gradient, slopes);
      REQUIRE(values_of(slopes)[0] == Approx(2 * got[0]));
    }
  }
}

TEST_CASE("the z-loss and its gradient", "[kernels][moe][device]") {
  TestStream s;
  for (const int64_t experts : {1, 2, 8, 64, 257}) {
    for (const int64_t tokens : {1, 37, 600}) {
      INFO(experts << " experts, " << tokens << " tokens");
      const Tensor logits = random_tensor({tokens, experts}, DType::kF32, 2, s.stream, 3);
      Tensor loss = Tensor::empty({1}, DType::kF64, s.stream);
      z_loss(s.stream, logits, experts, loss);
      const Values x = values_of(logits);
      CHECK(testing::number_in(s.stream, loss) == Approx(z_of(x, experts)).epsilon(1e-10));
      Tensor slopes = tensor_of(Values(x.size(), 1.0), {tokens, experts}, DType::kF32, s.stream);
      z_loss_backward(s.stream, logits, experts,
                      {.grad_scale = 3, .loss_scale = nullptr, .write = Write::kAccumulate},
                      slopes);
      const Values got = values_of(slopes);
      for (size_t i = 0; i < got.size(); i += 1 + got.size() / 23) {
        constexpr double kStep = 1e-4;
        const int64_t row = static_cast<int64_t>(i) / experts;
        const auto at = [&](double step) {
          Values moved = row_of(x, row, experts);
          moved[i % static_cast<size_t>(experts)] += step;
          return z_of(moved, experts) / static_cast<double>(tokens);
        };
        const double slope = (at(kStep) - at(-kStep)) / (2 * kStep);
        REQUIRE(got[i] == Approx(1 + 3 * slope).epsilon(1e-5).margin(1e-6));
      }
      z_loss_backward(s.stream, logits, experts, {}, slopes);
      REQUIRE(values_of(slopes)[0] == Approx((got[0] - 1) / 3).margin(1e-6));
    }
  }
}

TEST_CASE("losses of no tokens are 0", "[kernels][moe][device]") {
  TestStream s;
  const Tensor none = Tensor::empty({0, 4}, DType::kF32, s.stream);
  const BalanceLoss args{.scores = none, .counts = ints({0, 0, 0, 0}, s.stream), .choices = 2};
  Tensor loss = Tensor::empty({1}, DType::kF64, s.stream), slopes = none;
  balance_loss(s.stream, args, loss);
  CHECK(testing::number_in(s.stream, loss) == 0);
  balance_loss_backward(s.stream, args, {}, slopes);
  z_loss(s.stream, none, 4, loss);
  CHECK(testing::number_in(s.stream, loss) == 0);
  z_loss_backward(s.stream, none, 4, {}, slopes);
}

TEST_CASE("losses of routers have the same bits for any number of threads", "[kernels][moe]") {
  std::vector<std::vector<std::byte>> bits;
  for (const int threads : {1, 2, 4}) {
    TestStream s(threads);
    const Tensor x = random_tensor({1000, 64}, DType::kF32, 1, s.stream);
    const BalanceLoss args{.scores = x, .counts = ints(random_counts(64), s.stream), .choices = 2};
    Tensor balance = Tensor::empty({1}, DType::kF64, s.stream);
    Tensor z = Tensor::empty({1}, DType::kF64, s.stream);
    balance_loss(s.stream, args, balance);
    z_loss(s.stream, x, 64, z);
    bits.push_back(bytes_of(balance));
    const std::vector<std::byte> of_z = bytes_of(z);
    bits.back().insert(bits.back().end(), of_z.begin(), of_z.end());
  }
  CHECK(bits[0] == bits[1]);
  CHECK(bits[0] == bits[2]);
}

TEST_CASE("losses of routers refuse operands that do not fit", "[kernels][moe]") {
  TestStream s;
  const Tensor scores = random_tensor({4, 3}, DType::kF32, 1, s.stream);
  BalanceLoss args{.scores = scores, .counts = ints({1, 2}, s.stream), .choices = 1};
  Tensor loss = Tensor::empty({1}, DType::kF32, s.stream);
  const auto balance = [&] { balance_loss(s.stream, args, loss); };
  CHECK_THROWS_WITH(balance(), Catch::Contains("balance_loss: loss is fp32, expected fp64"));
  args.counts = ints({1, 2, 3, 4, 5}, s.stream);
  CHECK_THROWS_WITH(balance(), Catch::Contains("scores has shape [4, 3], expected rows of 5"));
  args.counts = ints({1, 2, 3}, s.stream);
  args.choices = 0;
  CHECK_THROWS_WITH(balance(), Catch::Contains("0 choices of a token"));
  args.choices = 1;
  Tensor slopes = Tensor::empty({3}, DType::kF32, s.stream);
  CHECK_THROWS_WITH(balance_loss_backward(s.stream, args, {}, slopes),
                    Catch::Contains("balance_loss_backward: dscores has shape [3]"));
  CHECK_THROWS_WITH(z_loss(s.stream, scores, 0, loss), Catch::Contains("z_loss: 0 experts"));
  CHECK_THROWS_WITH(z_loss(s.stream, scores, 3, loss), Catch::Contains("loss is fp32"));
  CHECK_THROWS_WITH(z_loss_backward(s.stream, scores, 3, {}, slopes),
                    Catch::Contains("z_loss_backward: dlogits has shape [3]"));
}

}  // namespace
}  // namespace ds::kernels
