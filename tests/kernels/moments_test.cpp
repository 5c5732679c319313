// Optimizer state in fewer bits: the numbers themselves, and that they go in and out of memory.
#include "kernels/optimizer/moments.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "kernels/optimizer/rule_update.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"
#include "tests/support/step_numbers.h"

namespace ds::kernels {
namespace {

using namespace reference;

TEST_CASE("8 bits hold 448 down to 2^-9, and stay as they are under any noise", "[kernels]") {
  for (const uint8_t scale : {uint8_t{100}, uint8_t{127}, uint8_t{140}}) {
    const float power = power_of(scale), inverse = inverse_power_of(scale);
    CHECK(power * inverse == 256);
    std::set<float> values;
    for (uint32_t code = 0; code < 256; ++code) {
      if ((code & 0x7fU) == 0x7fU) continue;  // no number
      const float value = from_mxfp8(static_cast<uint8_t>(code), power);
      values.insert(value);
      for (const uint32_t noise : {0U, 0x80000000U, 0xffffffffU}) {
        REQUIRE(to_mxfp8(value, inverse, noise) == code);
      }
    }
    CHECK(values.size() == 253);  // 0 twice
    CHECK(*values.rbegin() == 448 * power);
    CHECK(*std::next(values.find(0)) == 0x1p-9F * power);
  }
}

TEST_CASE("a block's scale fits its largest number, and is found again", "[kernels]") {
  for (float largest = 1e-30F; largest < 1e30F; largest *= 1.37F) {
    const uint8_t scale = scale_of(std::bit_cast<uint32_t>(largest));
    const float power = power_of(scale);
    CHECK(448 * power >= largest);
    CHECK(224 * power < largest);
    for (const uint32_t noise : {0U, 0xffffffffU}) {
      const float kept = from_mxfp8(to_mxfp8(largest, inverse_power_of(scale), noise), power);
      CHECK(std::abs(kept - largest) <= largest / 8);
      const uint8_t again = scale_of(std::bit_cast<uint32_t>(kept));
      CHECK(from_mxfp8(to_mxfp8(kept, inverse_power_of(again), noise), power_of(again)) == kept);
    }
  }
}

// Rounded to nearest, both would stay where they are.
TEST_CASE("an average that moves by a thousandth a step gets there", "[kernels]") {
  for (const float to : {0.1F, 3.0F}) {
    float bf16 = 1, bits8 = 1;
    double mean16 = 0, mean8 = 0;
    for (int64_t step = 1; step <= 8000; ++step) {
      const uint32_t salt = noise_salt(step, 1);
      bf16 += (to - bf16) * 1e-3F;
      bf16 = std::bit_cast<float>(uint32_t{bf16_bits(bf16, rounding_noise(bf16, salt))} << 16);
      bits8 += (to - bits8) * 1e-3F;
      const uint8_t scale = scale_of(std::bit_cast<uint32_t>(std::abs(bits8)));
      bits8 = from_mxfp8(to_mxfp8(bits8, inverse_power_of(scale), rounding_noise(bits8, salt)),
                         power_of(scale));
      if (step <= 7000) continue;
      mean16 += static_cast<double>(bf16) / 1000;
      mean8 += static_cast<double>(bits8) / 1000;
    }
    CHECK(mean16 == Approx(to).epsilon(0.03));
    CHECK(mean8 == Approx(to).epsilon(0.15));
  }
}

TEST_CASE("noise is even, and another at each step and of each slot", "[kernels]") {
  std::set<uint32_t> salts;
  double mean = 0;
  constexpr int kCount = 20000;
  for (int i = 0; i < kCount; ++i) {
    salts.insert(noise_salt(i / 3, i % 3));
    mean += rounding_noise(0.7F, noise_salt(i, 0)) / 4294967296.0 / kCount;
  }
  CHECK(salts.size() == kCount);
  CHECK(mean == Approx(0.5).margin(0.02));
}

StateTensor state_of(MomentFormat format, int64_t n, Stream& stream) {
  const bool small = format != MomentFormat::kBf16;
  return {.values = Tensor::zeros({n}, small ? DType::kU8 : DType::kBF16, stream),
          .scales = small
                        ? Tensor::zeros({(n + kMomentBlock - 1) / kMomentBlock}, DType::kU8, stream)
                        : Tensor(),
          .format = format};
}

TEST_CASE("state goes out to fp32 and back as the same numbers", "[kernels][device]") {
  TestStream s(3);
  for (const MomentFormat format :
       {MomentFormat::kBf16, MomentFormat::kMxFp8, MomentFormat::kMxFp8Root}) {
    for (const int64_t n : {1, 31, 32, 96, 2080, 4133}) {
      Values values = values_of(random_tensor({n}, DType::kF32, 1, s.stream));
      for (double& value : values) {
        value = format == MomentFormat::kMxFp8Root ? value * value : value;
      }
      const Tensor numbers = tensor_of(values, {n}, DType::kF32, s.stream);
      const StateTensor state = state_of(format, n, s.stream),
                        again = state_of(format, n, s.stream);
      pack_state(s.stream, numbers, state);
      const Tensor first = Tensor::empty({n}, DType::kF32, s.stream);
      const Tensor second = Tensor::empty({n}, DType::kF32, s.stream);
      unpack_state(s.stream, state, first);
      const Values kept = values_of(first);
      pack_state(s.stream, first, again);
      INFO("format " << static_cast<int>(format) << " n " << n);
      // A block may have half the scale and twice the codes then, but no other numbers.
      unpack_state(s.stream, again, second);
      REQUIRE(values_of(second) == kept);
      for (size_t i = 0; i < kept.size(); ++i) {
        REQUIRE(std::abs(kept[i] - values[i]) <= 0.3 * std::abs(values[i]) + 0.02);
      }
    }
  }
}

// Blocks of one magnitude and of all, subnormal numbers, zeros of both signs, a short last block.
Values numbers_of_every_size(int64_t n, bool negative) {
  Values values;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t hash = weight_noise(7, static_cast<uint32_t>(i));
    const bool alike = i / kMomentBlock % 2 == 0;
    const uint32_t bits = alike ? 0x3f000000U + (hash & 0x07ffffffU) : hash & 0x7fffffffU;
    const auto size = std::bit_cast<float>(bits);
    const float finite = std::isfinite(size) ? size : 0.0F;
    values.push_back(static_cast<double>(negative && hash % 3 == 0 ? -finite : finite));
  }
  return values;
}

TEST_CASE("state in 8 bits has the bits of its formulas, in whatever vectors",
          "[kernels][device]") {
  TestStream s(3);
  constexpr int64_t kN = 32 * 300 + 13;
  for (const MomentFormat format : {MomentFormat::kMxFp8, MomentFormat::kMxFp8Root}) {
    const bool root = format == MomentFormat::kMxFp8Root;
    const Values values = numbers_of_every_size(kN, !root);
    const StateTensor state = state_of(format, kN, s.stream);
    pack_state(s.stream, tensor_of(values, {kN}, DType::kF32, s.stream), state);
    const Tensor unpacked = Tensor::empty({kN}, DType::kF32, s.stream);
    unpack_state(s.stream, state, unpacked);
    const std::vector<std::byte> codes = bytes_of(state.values), scales = bytes_of(state.scales);
    const Values back = values_of(unpacked);
    for (int64_t begin = 0; begin < kN; begin += kMomentBlock) {
      const auto at = static_cast<size_t>(begin);
      const size_t end = std::min(at + kMomentBlock, values.size());
      std::vector<float> kept;
      uint32_t largest = 0;
      for (size_t i = at; i < end; ++i) {
        const auto value = static_cast<float>(values[i]);
        kept.push_back(root ? std::sqrt(value) : value);
        largest = std::max(largest, std::bit_cast<uint32_t>(kept.back()) & 0x7fffffffU);
      }
      const uint8_t scale = scale_of(largest);
      REQUIRE(static_cast<uint8_t>(scales[at / kMomentBlock]) == scale);
      for (size_t i = at; i < end; ++i) {
        const float number = kept[i - at];
        const uint8_t code =
            to_mxfp8(number, inverse_power_of(scale), rounding_noise(number, kPackingSalt));
        REQUIRE(static_cast<uint8_t>(codes[i]) == code);
        const float again = from_mxfp8(code, power_of(scale));
        REQUIRE(back[i] == static_cast<double>(root ? again * again : again));
      }
    }
  }
}

// A step from the same numbers, with state in fp32 and in fewer bits: weights are equal, and what
// is kept are the formulas' bits of what fp32 keeps.
template <class Rule>
void check_kept_bits(const Rule& rule, unsigned roots, bool in_8_bits, int64_t n) {
  TestStream s(3);
  INFO("8 bits " << in_8_bits << " n " << n << " states " << rule.states());
  RuleArgs wide{.master = random_tensor({n}, DType::kF32, 1, s.stream),
                .grad = random_tensor({n}, DType::kBF16, 2, s.stream)};
  RuleArgs small{.master = random_tensor({n}, DType::kF32, 1, s.stream), .grad = wide.grad};
  for (int j = 0; j < rule.states(); ++j) {
    const bool root = (roots >> j & 1U) != 0;
    Values values =
        values_of(random_tensor({n}, DType::kF32, 5 + static_cast<uint64_t>(j), s.stream));
    for (double& value : values) value = root || !in_8_bits ? value * value : value;
    small.states.push_back(state_of(!in_8_bits ? MomentFormat::kBf16
                                    : root     ? MomentFormat::kMxFp8Root
                                               : MomentFormat::kMxFp8,
                                    n, s.stream));
    wide.states.push_back({.values = Tensor::empty({n}, DType::kF32, s.stream)});
    pack_state(s.stream, tensor_of(values, {n}, DType::kF32, s.stream), small.states.back());
    unpack_state(s.stream, small.states.back(), wide.states.back().values);
  }
  const StepInputs in{
      .lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .correction1 = 0.4, .correction2 = 0.2, .step = 4};
  const StepScalars scalars = testing::scalars_of(s.stream, in, {.grad_scale = 0.5F});
  rule_update(s.stream, wide, rule, scalars);
  rule_update(s.stream, small, rule, scalars);
  REQUIRE(same_bits(small.master, wide.master));
  for (int j = 0; j < rule.states(); ++j) {
    const StateTensor& kept = small.states[static_cast<size_t>(j)];
    const Values exact = values_of(wide.states[static_cast<size_t>(j)].values);
    const std::vector<std::byte> bytes = bytes_of(kept.values);
    const uint32_t salt = noise_salt(in.step, j);
    uint32_t largest = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      auto number = static_cast<float>(exact[i]);
      if (!in_8_bits) {
        const uint16_t bits = bf16_bits(number, rounding_noise(number, salt));
        REQUIRE(std::to_integer<uint32_t>(bytes[2 * i]) == (bits & 255U));
        REQUIRE(std::to_integer<uint32_t>(bytes[2 * i + 1]) == bits >> 8U);
        continue;
      }
      const auto kept_number = [&](size_t at) {
        const auto value = static_cast<float>(exact[at]);
        return kept.format == MomentFormat::kMxFp8Root ? std::sqrt(value) : value;
      };
      if (i % kMomentBlock == 0) {
        largest = 0;
        for (size_t at = i; at < std::min(i + kMomentBlock, exact.size()); ++at) {
          largest = std::max(largest, std::bit_cast<uint32_t>(std::abs(kept_number(at))));
        }
      }
      number = kept_number(i);
      const uint8_t code =
          to_mxfp8(number, inverse_power_of(scale_of(largest)), rounding_noise(number, salt));
      REQUIRE(std::to_integer<uint8_t>(bytes[i]) == code);
    }
  }
}

TEST_CASE("a step keeps the formulas' bits of what it keeps in fp32", "[kernels][device]") {
  for (const bool in_8_bits : {false, true}) {
    for (const int64_t n : {1, 31, 32, 1000, 1056, 3111}) {
      const AdamRule adam{.weight_decay = 0.1F};
      check_kept_bits(AdamStateRule{.adam = adam}, 0b110, in_8_bits, n);
      check_kept_bits(AdamStateRule{.adam = adam, .amsgrad = true}, 0b110, in_8_bits, n);
      check_kept_bits(LionRule{.weight_decay = 0.1}, 0, in_8_bits, n);
      check_kept_bits(AdagradRule{.weight_decay = 0.1F}, 0b1, in_8_bits, n);
      check_kept_bits(SgdRule{.momentum = 0.9F}, 0, in_8_bits, n);
      check_kept_bits(RmspropRule{.momentum = 0.9F, .centered = true}, 0b1, in_8_bits, n);
    }
  }
}

TEST_CASE("rounding goes up in proportion, over elements and over steps", "[kernels]") {
  constexpr int kCount = 1 << 15;
  for (const float share : {0.002F, 0.25F, 0.5F, 0.9F}) {
    int steps16 = 0, steps8 = 0, small8 = 0, elements8 = 0;
    for (int i = 0; i < kCount; ++i) {
      const uint32_t salt = noise_salt(i, 1), same = noise_salt(3, 1);
      const float value16 = 1.0F + share / 128;
      steps16 += bf16_bits(value16, rounding_noise(value16, salt)) == 0x3f81 ? 1 : 0;
      const float inverse = inverse_power_of(127);
      const auto up = [&](float value, uint32_t of, uint8_t to) {
        return to_mxfp8(value, inverse, rounding_noise(value, of)) == to ? 1 : 0;
      };
      steps8 += up(1.0F + share / 8, salt, 0x39);
      small8 += up((3 + share) * 0x1p-9F, salt, 4);  // where codes are even
      // Elements of one share, and of other bits below what is counted.
      const float near = 1.0F + share / 8 + static_cast<float>(i) * 0x1p-23F / 8;
      elements8 += up(near, same, 0x39);
    }
    CAPTURE(share);
    const double bound = 5 * std::sqrt(share * (1 - share) / kCount) + 1e-4;
    for (const int ups : {steps16, steps8, small8}) {
      CHECK(std::abs(static_cast<double>(ups) / kCount - static_cast<double>(share)) < bound);
    }
    CHECK(std::abs(static_cast<double>(elements8) / kCount - static_cast<double>(share)) <
          bound + 0.005);
  }
}

TEST_CASE("numbers that no scale reaches are kept as the largest", "[kernels][device]") {
  TestStream s(3);
  const double infinite = std::numeric_limits<double>::infinity();
  Values values(70, 1.0);
  values[3] = infinite, values[4] = -infinite, values[5] = std::nan(""), values[66] = -3.3e38;
  const StateTensor state = state_of(MomentFormat::kMxFp8, 70, s.stream);
  pack_state(s.stream, tensor_of(values, {70}, DType::kF32, s.stream), state);
  const Tensor back = Tensor::empty({70}, DType::kF32, s.stream);
  unpack_state(s.stream, state, back);
  const Values kept = values_of(back);
  const double largest = 448 * static_cast<double>(power_of(kMostScale));
  CHECK(kept[3] == largest);
  CHECK(kept[4] == -largest);
  CHECK(std::abs(kept[5]) == largest);
  CHECK(kept[66] == -largest);
  CHECK(kept[0] == 0);
  CHECK(kept[40] == 1);  // of another block
}

// The cases have a last 32-block that is not full, views, and gradients of every dtype.
TEST_CASE("a step with state in 8 bits is near that with fp32, in every gradient dtype",
          "[kernels][device]") {
  TestStream s(3);
  const AdamStateRule rule{.adam = {.weight_decay = 0.1F}, .amsgrad = true};
  for (const DType dtype : float_dtypes()) {
    for (const int64_t n : {7, 32, 1000, 2081}) {
      RuleArgs plain{.master = random_tensor({n}, DType::kF32, 1, s.stream)};
      RuleArgs packed{.master = random_tensor({n}, DType::kF32, 1, s.stream)};
      for (int j = 0; j < 3; ++j) {
        plain.states.push_back({.values = Tensor::zeros({n}, DType::kF32, s.stream)});
        packed.states.push_back(
            state_of(j == 0 ? MomentFormat::kMxFp8 : MomentFormat::kMxFp8Root, n, s.stream));
      }
      packed.copy = Tensor::empty({n}, DType::kBF16, s.stream);
      for (int64_t step = 1; step <= 5; ++step) {
        const Tensor grad = random_tensor({n}, dtype, 10 + static_cast<uint64_t>(step), s.stream);
        plain.grad = packed.grad = grad;
        const double c1 = 1 - std::pow(0.9, step), c2 = 1 - std::pow(0.99, step);
        const StepScalars scalars = testing::scalars_of(s.stream, {.lr = 0.01,
                                                                   .beta1 = 0.9,
                                                                   .beta2 = 0.99,
                                                                   .correction1 = c1,
                                                                   .correction2 = c2,
                                                                   .step = step});
        rule_update(s.stream, plain, rule, scalars);
        rule_update(s.stream, packed, rule, scalars);
      }
      const Values a = values_of(plain.master), b = values_of(packed.master);
      double off = 0;
      for (size_t i = 0; i < a.size(); ++i) off += std::abs(a[i] - b[i]);
      CHECK(off / static_cast<double>(n) < 0.004);
      CHECK(same_bits(packed.copy, tensor_of(b, {n}, DType::kBF16, s.stream)));
    }
  }
}

}  // namespace
}  // namespace ds::kernels
