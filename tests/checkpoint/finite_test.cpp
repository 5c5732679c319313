#include "checkpoint/finite.h"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/catch.h"

namespace ds {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <class Number>
std::optional<BadElement> bad_of(std::vector<Number> values, DType as = DType::kF32) {
  const auto numel = static_cast<int64_t>(values.size());
  return first_not_finite(Tensor::borrow(values.data(), {numel}, dtype_of<Number>::value), as);
}

TEST_CASE("the first number that is not finite is found, wherever it is", "[checkpoint]") {
  for (const int64_t numel : {1, 7, 4096, 4097, 10000}) {
    std::vector<float> values(static_cast<size_t>(numel), -1.5F);
    CHECK_FALSE(bad_of(values).has_value());
    for (const int64_t at : {int64_t{0}, numel / 2, numel - 1}) {
      for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
        CAPTURE(numel, at, bad);
        std::vector<float> spoilt = values;
        spoilt[static_cast<size_t>(at)] = bad;
        spoilt.back() = kInfinity;
        const std::optional<BadElement> found = bad_of(spoilt);
        REQUIRE(found.has_value());
        CHECK(found->index == at);
      }
    }
  }
  CHECK_FALSE(bad_of(std::vector<float>()).has_value());
}

TEST_CASE("what another type would round to infinity is not finite in it", "[checkpoint]") {
  const float largest = std::numeric_limits<float>::max();
  CHECK_FALSE(bad_of<float>({largest, -largest, std::numeric_limits<float>::denorm_min(), 0}));
  for (const float value : {65503.0F, 65504.0F, 65519.0F, 65519.99F, 65520.0F, 1e38F, largest}) {
    for (const float sign : {1.0F, -1.0F}) {
      CAPTURE(value, sign);
      const bool fits = std::isfinite(static_cast<float>(F16(sign * value)));
      CHECK(bad_of<float>({0, sign * value}, DType::kF16).has_value() == !fits);
      const bool fits_bf16 = std::isfinite(static_cast<float>(BF16(sign * value)));
      CHECK(bad_of<float>({0, sign * value}, DType::kBF16).has_value() == !fits_bf16);
    }
  }
  const std::optional<BadElement> found = bad_of<float>({1, 1e6F}, DType::kF16);
  CHECK(found->index == 1);
  CHECK(found->value == 1e6F);
}

TEST_CASE("numbers of 16 bits are looked at as well, and integers are not", "[checkpoint]") {
  CHECK_FALSE(bad_of<F16>({F16(65504.0F), F16(-1.0F)}).has_value());
  CHECK(bad_of<F16>({F16(1.0F), F16(kInfinity)})->index == 1);
  CHECK_FALSE(bad_of<BF16>({BF16(3e38F), BF16(-1.0F)}).has_value());
  CHECK(bad_of<BF16>({BF16(-kInfinity)})->value == -kInfinity);
  CHECK_FALSE(bad_of<int32_t>({-1, 0x7f800000}).has_value());
}

}  // namespace
}  // namespace ds
