// Element types: their names and sizes, and the 16-bit floats against a plain search for the
// nearest value.
#include "core/values/dtype.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/device/dispatch.h"
#include "core/status/error.h"
#include "core/values/rng.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"

namespace ds {
namespace {

struct NameCase {
  DType dtype;
  size_t bytes;
  std::vector<std::string_view> names;  // the first is the one that is printed
};

const std::vector<NameCase>& name_cases() {
  static const std::vector<NameCase> cases{{DType::kF32, 4, {"fp32", "float32", "float"}},
                                           {DType::kBF16, 2, {"bf16", "bfloat16"}},
                                           {DType::kF16, 2, {"fp16", "float16", "half"}},
                                           {DType::kF64, 8, {"fp64", "float64", "double"}},
                                           {DType::kI32, 4, {"int32"}},
                                           {DType::kI64, 8, {"int64"}},
                                           {DType::kU8, 1, {"uint8"}},
                                           {DType::kI8, 1, {"int8"}}};
  return cases;
}

TEST_CASE("every element type has one printed name, a size, and is found by all its names",
          "[core]") {
  for (const NameCase& one : name_cases()) {
    CHECK(name_of(one.dtype) == one.names.front());
    CHECK(size_of(one.dtype) == one.bytes);
    for (const std::string_view name : one.names) {
      CAPTURE(name);
      CHECK(parse_dtype(name) == one.dtype);
    }
  }
}

TEST_CASE("a name of no element type is refused with the name", "[core]") {
  for (const char* name : {"", "FP32", "fp8", "int16", "float33", " fp32", "auto"}) {
    CHECK_THROWS_AS(parse_dtype(name), ConfigError);
    CHECK_THROWS_WITH(parse_dtype(name), Catch::Contains(fmt::format("\"{}\"", name)));
  }
}

TEST_CASE("only floats are dispatched as floats", "[core]") {
  const auto size = [](DType dtype) {
    return on_float(dtype, []<class T>() { return sizeof(T); });
  };
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    CHECK(size(dtype) == size_of(dtype));
  }
  for (const DType dtype : {DType::kF64, DType::kI32, DType::kI64, DType::kU8, DType::kI8}) {
    CHECK_THROWS_WITH(size(dtype), fmt::format("on_float: {} is no float type", name_of(dtype)));
  }
}

TEST_CASE("work runs on CPU streams and not on meta", "[core]") {
  int calls = 0;
  testing::CpuStream cpu;
  const auto half = [&](auto) { ++calls; };
  on_device(cpu.stream, half, half);
  CHECK(calls == 1);
  MetaMemory memory;
  const Stream meta({.device = Device::meta(), .memory = &memory});
  on_device(meta, half, half);
  CHECK(calls == 1);
}

// All finite values of a 16-bit type that are not negative, by their bits; they ascend.
template <class T>
std::vector<double> finite_values(uint32_t first_infinite) {
  std::vector<double> values;
  for (uint32_t bits = 0; bits < first_infinite; ++bits) {
    T value;
    value.bits = static_cast<uint16_t>(bits);
    values.push_back(static_cast<double>(static_cast<float>(value)));
  }
  return values;
}

// The bits of the value nearest to |x|, of two equally near the even one; `values` ends where
// rounding goes to infinity, which lies half a step beyond the last one.
uint32_t nearest_bits(const std::vector<double>& values, double x) {
  const auto count = static_cast<uint32_t>(values.size());
  const double step = values[count - 1] - values[count - 2];
  if (x >= values.back() + step / 2) return count;
  const auto above =
      static_cast<uint32_t>(std::lower_bound(values.begin(), values.end(), x) - values.begin());
  if (above == count) return count - 1;
  if (above == 0) return 0;
  const double up = values[above] - x;
  const double down = x - values[above - 1];
  if (up != down) return up < down ? above : above - 1;
  return above % 2 == 0 ? above : above - 1;
}

// Floats of every size, the 16-bit values themselves, the middles between them and the next floats
// beside those middles.
template <class Check>
void for_many_floats(const std::vector<double>& values, const Check& check) {
  const Rng rng(11, "floats");
  for (uint64_t i = 0; i < 20000; ++i) {
    const float value = std::bit_cast<float>(rng.bits(i));
    if (std::isfinite(value)) check(value);
  }
  for (size_t i = 0; i + 1 < values.size(); i += 3) {
    const auto middle = static_cast<float>((values[i] + values[i + 1]) / 2);
    check(static_cast<float>(values[i]));
    check(middle);
    check(-middle);
    check(std::nextafter(middle, 0.0F));
    check(std::nextafter(middle, std::numeric_limits<float>::infinity()));
  }
}

TEST_CASE("fp16 rounds every float to the nearest value, of two to the even one", "[core]") {
  const std::vector<double> values = finite_values<F16>(0x7c00);
  for_many_floats(values, [&](float value) {
    const uint32_t sign = std::signbit(value) ? 0x8000 : 0;
    const uint32_t expected = sign | nearest_bits(values, std::abs(static_cast<double>(value)));
    CAPTURE(value);
    REQUIRE(F16(value).bits == expected);
  });
}

TEST_CASE("bf16 rounds every float to the nearest value, of two to the even one", "[core]") {
  const std::vector<double> values = finite_values<BF16>(0x7f80);
  for_many_floats(values, [&](float value) {
    const uint32_t sign = std::signbit(value) ? 0x8000 : 0;
    const uint32_t expected = sign | nearest_bits(values, std::abs(static_cast<double>(value)));
    CAPTURE(value);
    REQUIRE(BF16(value).bits == expected);
  });
}

TEST_CASE("16-bit floats keep infinities, signed zeros and what is no number", "[core]") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(static_cast<float>(F16(infinity)) == infinity);
  CHECK(static_cast<float>(F16(-infinity)) == -infinity);
  CHECK(static_cast<float>(BF16(infinity)) == infinity);
  CHECK(static_cast<float>(BF16(-infinity)) == -infinity);
  CHECK(F16(-0.0F).bits == 0x8000);
  CHECK(BF16(-0.0F).bits == 0x8000);
  CHECK(std::signbit(static_cast<float>(F16(-0.0F))));
  // NaNs whose payload lies in the bits that are cut off must not become infinities.
  for (const uint32_t bits : {0x7f800001U, 0xff800001U, 0x7fc00000U, 0x7fffffffU}) {
    CAPTURE(bits);
    CHECK(std::isnan(static_cast<float>(F16(std::bit_cast<float>(bits)))));
    CHECK(std::isnan(static_cast<float>(BF16(std::bit_cast<float>(bits)))));
  }
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    BF16 value;
    value.bits = static_cast<uint16_t>(bits);
    const auto wide = static_cast<float>(value);
    if (!std::isnan(wide)) REQUIRE(BF16(wide).bits == bits);
  }
}

}  // namespace
}  // namespace ds
