// Quantizers and 1-bit compression over many generated inputs: what the error can be, what stays
// the same when it is done twice, which codes come out, and every refusal.
#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "core/status/error.h"
#include "core/values/rng.h"
#include "kernels/quantize/onebit_math.h"
#include "kernels/quantize/quantize_math.h"
#include "tests/support/catch.h"

namespace ds::kernels {
namespace {

using Floats = std::vector<float>;

Floats normals(uint64_t seed, size_t count, float scale = 1) {
  const Rng rng(seed, "quantized");
  Floats values(count);
  rng.normals(0, values);
  for (float& value : values) value *= scale;
  return values;
}

TEST_CASE("a fake quantized value is within half a level of its own, but for the clamped top",
          "[kernels]") {
  for (const QuantScheme scheme : {QuantScheme::kSymmetric, QuantScheme::kAsymmetric}) {
    for (const int bits : {1, 2, 3, 4, 8, 12}) {
      for (const int64_t groups : {1, 4, 12}) {
        const Floats values = normals(static_cast<uint64_t>(bits), 48, 5);
        Floats out(values.size());
        fake_quantize(values, out, {.scheme = scheme, .bits = bits, .groups = groups});
        const size_t size = values.size() / static_cast<size_t>(groups);
        for (size_t first = 0; first < values.size(); first += size) {
          const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
          const auto end = begin + static_cast<std::ptrdiff_t>(size);
          const float low = *std::min_element(begin, end), high = *std::max_element(begin, end);
          const float levels = std::exp2(static_cast<float>(bits));
          const float step = scheme == QuantScheme::kSymmetric
                                 ? 2 * std::max(std::abs(low), std::abs(high)) / levels
                                 : (high - low) / levels;
          std::set<float> codes;
          for (size_t i = first; i < first + size; ++i) {
            CAPTURE(bits, groups, i, values[i], out[i], step);
            // The range has one code less than it has steps, so the top may lose a whole step and
            // the bottom of an asymmetric range the rounding of its zero.
            REQUIRE(std::abs(out[i] - values[i]) <= 1.501F * step);
            codes.insert(out[i]);
          }
          REQUIRE(codes.size() <= static_cast<size_t>(levels));
        }
      }
    }
  }
}

TEST_CASE("fake quantization keeps order, and may write where it reads", "[kernels]") {
  for (const QuantScheme scheme : {QuantScheme::kSymmetric, QuantScheme::kAsymmetric,
                                   QuantScheme::kTernary, QuantScheme::kBinary}) {
    const FakeQuant how{.scheme = scheme, .bits = 3};
    Floats values = normals(9, 200);
    std::ranges::sort(values);
    Floats out(values.size());
    fake_quantize(values, out, how);
    CHECK(std::ranges::is_sorted(out));
    fake_quantize(values, values, how);
    CHECK(values == out);
  }
}

TEST_CASE("ternary and binary leave one magnitude and their signs", "[kernels]") {
  const Floats values = normals(4, 300);
  Floats out(values.size());
  fake_quantize(values, out, {.scheme = QuantScheme::kTernary, .groups = 3});
  for (size_t first = 0; first < values.size(); first += 100) {
    std::set<float> magnitudes;
    for (size_t i = first; i < first + 100; ++i) {
      if (out[i] != 0) {
        magnitudes.insert(std::abs(out[i]));
        REQUIRE(std::signbit(out[i]) == std::signbit(values[i]));
      }
    }
    CHECK(magnitudes.size() == 1);
  }
  fake_quantize(values, out, {.scheme = QuantScheme::kBinary});
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(std::abs(value));
  for (size_t i = 0; i < values.size(); ++i) {
    REQUIRE(out[i] == Approx(std::copysign(sum / 300, static_cast<double>(values[i]))));
  }
}

TEST_CASE("values and results of different lengths are refused, and nothing is no error",
          "[kernels]") {
  Floats three(3), two(2);
  CHECK_THROWS_WITH(fake_quantize(three, two, {}), Catch::Contains("3 values into 2"));
  CHECK_THROWS_WITH(fake_quantize(three, three, {.bits = 25}),
                    Catch::Contains("bits is 25, expected 1 to 24"));
  CHECK_THROWS_AS(fake_quantize(three, three, {.groups = 0}), ConfigError);
  CHECK_THROWS_AS(fake_quantize(three, three, {.groups = -3}), ConfigError);
  CHECK_NOTHROW(fake_quantize({}, {}, {}));
  std::vector<int8_t> q(3);
  CHECK_THROWS_WITH(quantize_int(two, 4, IntRange::kSymmetric, q),
                    Catch::Contains("2 values into 3"));
  for (const int bits : {1, 9}) {
    CHECK_THROWS_WITH(quantize_int(three, bits, IntRange::kSymmetric, q),
                      Catch::Contains("expected 2 to 8"));
  }
  CHECK_THROWS_WITH(dequantize_int(q, {}, two), Catch::Contains("3 values into 2"));
  CHECK(quantize_int({}, 4, IntRange::kAsymmetric, {}).scale == 1);
}

TEST_CASE("integer codes stay in their range and give back what they stand for", "[kernels]") {
  for (const IntRange range : {IntRange::kSymmetric, IntRange::kAsymmetric}) {
    for (int bits = 2; bits <= 8; ++bits) {
      for (const float shift : {0.0F, 3.0F, -40.0F}) {
        Floats values = normals(static_cast<uint64_t>(bits), 200, 2);
        for (float& value : values) value += shift;
        std::vector<int8_t> q(values.size());
        const IntScale scale = quantize_int(values, bits, range, q);
        Floats back(values.size());
        dequantize_int(q, scale, back);
        const int limit = 1 << (bits - 1);
        for (size_t i = 0; i < values.size(); ++i) {
          REQUIRE(q[i] >= -limit);
          REQUIRE(q[i] < limit);
          CAPTURE(bits, shift, values[i], back[i]);
          // The largest value rounds to a code that does not exist and loses a whole level.
          REQUIRE(std::abs(back[i] - values[i]) <= 1.001F / scale.scale + 1e-4F);
        }
      }
    }
  }
}

TEST_CASE("groups of one value come back as they were", "[kernels]") {
  for (const IntRange range : {IntRange::kSymmetric, IntRange::kAsymmetric}) {
    for (const float value : {0.0F, 2.5F, -7.0F}) {
      const Floats same(5, value);
      std::vector<int8_t> q(5);
      Floats back(5);
      dequantize_int(q, quantize_int(same, 8, range, q), back);
      // Symmetric ranges lose a level at the top; the others have their minimum as a code.
      const float allowed = range == IntRange::kSymmetric ? std::abs(value) / 128 : 0.5F;
      for (const float got : back) CHECK(std::abs(got - value) <= allowed);
    }
  }
}

TEST_CASE("a mask keeps as many of the largest as the share asks, rounded up", "[kernels]") {
  const Floats values = normals(3, 40);
  for (int kept = 0; kept <= 40; ++kept) {
    const double share = (kept - 0.5) / 40;
    if (share < 0) continue;
    const std::vector<uint8_t> mask = largest_mask(values, share);
    CHECK(std::ranges::count(mask, 1) == kept);
    float smallest_kept = INFINITY, largest_dropped = -INFINITY;
    for (size_t i = 0; i < values.size(); ++i) {
      if (mask[i] == 1) smallest_kept = std::min(smallest_kept, values[i]);
      if (mask[i] == 0) largest_dropped = std::max(largest_dropped, values[i]);
    }
    CHECK(largest_dropped <= smallest_kept);
  }
  CHECK(largest_mask(Floats(5, 1.0F), 0.4) == std::vector<uint8_t>{1, 1, 0, 0, 0});
  CHECK(largest_mask({}, 1).empty());
  for (const double share : {-0.01, 1.01, std::nan("")}) {
    CHECK_THROWS_WITH(largest_mask(values, share), Catch::Contains("expected 0 to 1"));
  }
}

TEST_CASE("weights in groups are numbered as the shape of the groups says", "[kernels]") {
  const GroupQuant rows{.rows = 4, .columns = 6, .group_size = 2, .group_axis = 0};
  CHECK(rows.group_count() == 12);
  CHECK(rows.group_of(0, 5) == 5);
  CHECK(rows.group_of(1, 5) == 5);
  CHECK(rows.group_of(2, 0) == 6);
  const GroupQuant columns{.rows = 4, .columns = 6, .group_size = 3, .group_axis = 1};
  CHECK(columns.group_count() == 8);
  CHECK(columns.group_of(0, 2) == 0);
  CHECK(columns.group_of(0, 3) == 1);
  CHECK(columns.group_of(1, 0) == 2);
  for (const GroupQuant& how : {rows, columns}) {
    std::vector<int> members(static_cast<size_t>(how.group_count()), 0);
    for (int64_t r = 0; r < how.rows; ++r) {
      for (int64_t c = 0; c < how.columns; ++c) ++members[static_cast<size_t>(how.group_of(r, c))];
    }
    for (const int count : members) CHECK(count == how.group_size);
  }
  const std::vector<std::pair<GroupQuant, const char*>> refused{
      {{.bits = 5, .rows = 4, .columns = 6}, "num_bits is 5, expected 4 or 8"},
      {{.rows = 4, .columns = 6, .group_axis = 2}, "group_dim is 2, expected 0 or 1"},
      {{.rows = 4, .columns = 6, .group_size = 0}, "group_size 0 does not divide the 6 entries"},
      {{.rows = 4, .columns = 6, .group_size = 3, .group_axis = 0},
       "group_size 3 does not divide the 4 entries of axis 0"},
      {{.bits = 4, .rows = 4, .columns = 3}, "3 columns cannot be packed two to a byte"}};
  for (const auto& [how, message] : refused) {
    CHECK_THROWS_WITH(how.check(), Catch::Contains(message));
  }
  CHECK_THROWS_WITH(quantize_groups(Floats(23), rows), Catch::Contains("23 values for 4 x 6"));
}

TEST_CASE("weights that are quantized twice are what they were after the first time", "[kernels]") {
  for (const int bits : {4, 8}) {
    const GroupQuant how{.bits = bits, .rows = 8, .columns = 16, .group_size = 8};
    const Floats once = dequantize_groups(quantize_groups(normals(6, 128), how), how);
    const GroupQuantized second = quantize_groups(once, how);
    const Floats twice = dequantize_groups(second, how);
    for (size_t i = 0; i < once.size(); ++i) CHECK(twice[i] == Approx(once[i]).margin(1e-5));
  }
}

TEST_CASE("a schedule of bits stops at its target and doubles its period at every bit",
          "[kernels]") {
  BitSchedule schedule(6, 3, 2);
  std::vector<int64_t> dropped_at;
  int before = 6;
  for (int64_t step = 1; step <= 100; ++step) {
    const BitSchedule::State& state = schedule.step();
    CHECK(state.bits >= 3);
    if (state.bits != before) dropped_at.push_back(step);
    before = state.bits;
  }
  CHECK(dropped_at == std::vector<int64_t>{2, 4, 8});
  CHECK(schedule.state().steps == 100);
  BitSchedule resumed(6, 3, 2);
  for (int i = 0; i < 3; ++i) resumed.step();
  const BitSchedule::State saved = resumed.state();
  BitSchedule other(6, 3, 2);
  other.restore(saved);
  for (int i = 0; i < 20; ++i) {
    const BitSchedule::State& a = resumed.step();
    const BitSchedule::State& b = other.step();
    CHECK(a.bits == b.bits);
    CHECK(a.period == b.period);
    CHECK(a.full_precision_share == b.full_precision_share);
  }
  CHECK_THROWS_WITH(BitSchedule(4, 0, 1), Catch::Contains("from 4 to 0 bits"));
  CHECK_THROWS_WITH(BitSchedule(4, 3, 1, 0), Catch::Contains("factor 0, expected at least 1"));
}

TEST_CASE("signs and scale give back what is right, and the error what is missing", "[kernels]") {
  for (size_t n = 1; n < 40; ++n) {
    const Floats values = normals(n, n);
    Floats error = normals(n + 100, n, 0.1F);
    Floats sought(n);
    for (size_t i = 0; i < n; ++i) sought[i] = values[i] + error[i];
    std::vector<uint8_t> packed(sign_bytes(n), 0xff);  // what was there before must not show
    const float scale = compress_signs(values, error, packed);
    Floats sent(n, 99.0F);
    expand_signs(packed, scale, sent);
    double squares = 0;
    for (const float value : sought) squares += static_cast<double>(value) * value;
    CHECK(scale == Approx(std::sqrt(squares / static_cast<double>(n))));
    for (size_t i = 0; i < n; ++i) {
      REQUIRE(std::signbit(sent[i]) == (sought[i] < 0));
      REQUIRE(sent[i] + error[i] == Approx(sought[i]).margin(1e-6));
    }
    // The tail of the last byte is zero.
    if (n % 8 != 0) REQUIRE((packed.back() & (0xff >> (n % 8))) == 0);
    Floats sum(n, 1.0F);
    add_signs(packed, scale, sum);
    for (size_t i = 0; i < n; ++i) REQUIRE(sum[i] == 1.0F + sent[i]);
  }
}

TEST_CASE("a padded buffer is the smallest whose chunks are whole bytes", "[kernels]") {
  for (int64_t ranks = 1; ranks <= 12; ++ranks) {
    for (const int64_t n : {0, 1, 7, 8, 9, 100, 1000}) {
      const int64_t padded = onebit_padded_numel(n, ranks);
      CAPTURE(ranks, n, padded);
      CHECK(padded >= n);
      CHECK(padded % ranks == 0);
      CHECK(padded / ranks % 8 == 0);
      CHECK_NOTHROW(OneBitErrors::zeros(padded, ranks));
      if (n == 0) CHECK(padded == 0);
    }
  }
  CHECK_THROWS_AS(onebit_padded_numel(-1, 2), InternalError);
  CHECK_THROWS_AS(onebit_padded_numel(1, 0), InternalError);
  Floats eight(8), nine(9);
  std::vector<uint8_t> byte(1);
  CHECK_THROWS_WITH(compress_signs(nine, nine, byte), Catch::Contains("9 values"));
  CHECK_THROWS_WITH(compress_signs(eight, nine, byte), Catch::Contains("8 values, 9 errors"));
  CHECK_THROWS_WITH(expand_signs(byte, 1, nine), Catch::Contains("1 bytes for 9 numbers"));
  CHECK_THROWS_WITH(add_signs(byte, 1, nine), Catch::Contains("1 bytes for 9 numbers"));
}

}  // namespace
}  // namespace ds::kernels
