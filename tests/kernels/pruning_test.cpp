// Masks of the largest elements of tensors against a stable sort.
#include "kernels/pruning/pruning.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

std::vector<std::byte> mask_of(const Tensor& x, double keep, Stream& stream) {
  Tensor mask = Tensor::empty({x.numel()}, DType::kU8, stream);
  largest_mask(stream, x, keep, mask);
  return bytes_of(mask);
}

std::vector<std::byte> expected_of(const Values& x, double keep) {
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return x[a] > x[b]; });
  std::vector<std::byte> mask(x.size());
  const double kept = std::ceil(keep * static_cast<double>(x.size()));
  for (size_t k = 0; k < static_cast<size_t>(kept); ++k) mask[order[k]] = std::byte{1};
  return mask;
}

TEST_CASE("the largest are kept, and of equal ones the first", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const int64_t numel : {1, 7, 9, 300, 2048, 6150}) {
      for (const double keep : {0.0, 0.3, 1.0}) {
        CAPTURE(name_of(dtype), numel, keep);
        // bf16 has few numbers of that size, so many are equal.
        const Tensor x = random_tensor({numel}, dtype, 3, s.stream, 100.0);
        REQUIRE(mask_of(x, keep, s.stream) == expected_of(values_of(x), keep));
      }
    }
  }
  const Values equal(5000, -2.5);
  CHECK(mask_of(tensor_of(equal, {5000}, DType::kF32, s.stream), 0.5, s.stream) ==
        expected_of(equal, 0.5));
  const Tensor part = random_tensor({100}, DType::kF16, 3, s.stream).narrow(1, 99);
  CHECK(mask_of(part, 0.4, s.stream) == expected_of(values_of(part), 0.4));
}

TEST_CASE("of masks, both zeros are equal, and NaN is the smallest", "[kernels][device]") {
  TestStream s;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto mask = [&](const Values& x, int kept) {
    const auto count = static_cast<double>(x.size());
    const Tensor values = tensor_of(x, {static_cast<int64_t>(x.size())}, DType::kF32, s.stream);
    std::vector<int> bits;
    for (const std::byte b : mask_of(values, kept / count, s.stream)) {
      bits.push_back(static_cast<int>(b));
    }
    return bits;
  };
  CHECK(mask({-0.0, 0.0, -0.0, 0.0}, 2) == std::vector{1, 1, 0, 0});
  CHECK(mask({kNan, -kInfinity, -1, kInfinity}, 1) == std::vector{0, 0, 0, 1});
  CHECK(mask({kNan, -kInfinity, -1, kInfinity}, 3) == std::vector{0, 1, 1, 1});
  CHECK(mask({kNan, kNan, 1, kNan}, 2) == std::vector{1, 0, 1, 0});
}

TEST_CASE("masks refuse operands that do not fit, and of nothing there is none",
          "[kernels][device]") {
  TestStream s;
  Tensor x = Tensor::zeros({4}, DType::kF32, s.stream);
  Tensor mask = Tensor::zeros({4}, DType::kU8, s.stream), three = mask.narrow(0, 3), undefined;
  CHECK_THROWS_WITH(largest_mask(s.stream, undefined, 0.5, mask),
                    Catch::Contains("largest_mask: x is undefined"));
  CHECK_THROWS_WITH(largest_mask(s.stream, x, 0.5, three),
                    Catch::Contains("mask has shape [3] (3 elements), expected 4"));
  CHECK_THROWS_WITH(largest_mask(s.stream, x, 0.5, x), Catch::Contains("mask is fp32, expected"));
  CHECK_THROWS_WITH(largest_mask(s.stream, mask, 0.5, mask), Catch::Contains("x is uint8"));
  CHECK_THROWS_AS(largest_mask(s.stream, x, 1.5, mask), ConfigError);
  Tensor none = mask.narrow(0, 0);
  CHECK_NOTHROW(largest_mask(s.stream, x.narrow(0, 0), 0.5, none));
}

}  // namespace
}  // namespace ds::kernels
