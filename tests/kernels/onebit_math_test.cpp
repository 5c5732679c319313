// 1-bit compression: packing, what the errors keep, and that averages are right in the long run.
#include "kernels/quantize/onebit_math.h"

#include <cmath>

#include "core/status/error.h"
#include "core/values/rng.h"
#include "tests/support/catch.h"

using namespace ds;
using namespace ds::kernels;
using Floats = std::vector<float>;

TEST_CASE("signs are packed from the highest bit and the loss stays in the error", "[kernels]") {
  const Floats values{3, -4, 0, 1, 1, 1, 1, 1, -1, 1};
  Floats error(values.size());
  std::vector<uint8_t> packed(sign_bytes(values.size()));
  const float scale = compress_signs(values, error, packed);
  CHECK(scale == Approx(std::sqrt(32.0 / 10)));
  CHECK(packed == std::vector<uint8_t>{0b10111111, 0b01000000});
  Floats out(values.size());
  expand_signs(packed, scale, out);
  for (size_t i = 0; i < values.size(); ++i) CHECK(out[i] + error[i] == Approx(values[i]));
  add_signs(packed, -scale, out);
  CHECK(out == Floats(values.size()));
}

TEST_CASE("a buffer of zeros has scale zero", "[kernels]") {
  Floats error(8);
  std::vector<uint8_t> packed(1);
  CHECK(compress_signs(Floats(8), error, packed) == 0);
  CHECK(error == Floats(8));
  CHECK(compress_signs({}, {}, {}) == 0);
}

TEST_CASE("error feedback makes the mean over rounds approach the true average", "[kernels]") {
  const int64_t n = 37, ranks = 4, padded = onebit_padded_numel(n, ranks);
  CHECK(padded == 64);
  const Rng rng(11, "onebit");
  std::vector<Floats> buffers(ranks, Floats(n));
  Floats expected(n);
  for (size_t r = 0; r < buffers.size(); ++r) {
    for (size_t i = 0; i < expected.size(); ++i) {
      buffers[r][i] = rng.normal(r * 64 + i);
      expected[i] += buffers[r][i] / static_cast<float>(ranks);
    }
  }
  std::vector<OneBitErrors> errors(ranks, OneBitErrors::zeros(padded, ranks));
  constexpr int kRounds = 400;
  std::vector<double> sum(n);
  for (int round = 0; round < kRounds; ++round) {
    const Floats result = onebit_average(buffers, errors);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += result[i];
  }
  for (size_t i = 0; i < sum.size(); ++i) {
    CHECK(sum[i] / kRounds == Approx(expected[i]).margin(0.05));
  }
}

TEST_CASE("buffers that do not fit their errors are refused", "[kernels]") {
  CHECK(onebit_padded_numel(1, 1) == 8);
  CHECK(onebit_padded_numel(25, 3) == 72);
  CHECK_THROWS_AS(OneBitErrors::zeros(20, 2), InternalError);
  std::vector<OneBitErrors> errors(2, OneBitErrors::zeros(16, 2));
  CHECK_THROWS_AS(onebit_average(std::vector<Floats>{Floats(3)}, errors), InternalError);
  CHECK_THROWS_AS(onebit_average(std::vector<Floats>{Floats(3), Floats(17)}, errors),
                  InternalError);
}
