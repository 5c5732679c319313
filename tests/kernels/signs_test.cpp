// 1-bit compression of tensors against plain loops over numbers: signs and what is left of the
// numbers to the bit, given the scale, which is an fp64 sum.
#include "kernels/quantize/signs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/floats.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

std::vector<std::byte> packed(const Floats& x) {
  std::vector<std::byte> bytes((x.size() + 7) / 8);
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] >= 0) bytes[i / 8] |= std::byte{128} >> static_cast<int>(i % 8);
  }
  return bytes;
}

CompressSignsArgs args_for(const Tensor& values, const Tensor& error, Stream& stream) {
  const int64_t bytes = (error.numel() + 7) / 8;
  return {.values = values,
          .error = error,
          .signs = Tensor::empty({bytes}, DType::kU8, stream),
          .scale = Tensor::empty({1}, DType::kF32, stream)};
}

TEST_CASE("signs are packed, and the error keeps what they lose, to the bit", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const int64_t numel : {1, 7, 8, 9, 64, 257, 4096, 12301}) {
      for (const int64_t lead : {0, 3}) {  // elements before the first
        CAPTURE(name_of(dtype), numel, lead);
        const Tensor values = random_tensor({numel + lead}, dtype, 3, s.stream).narrow(lead, numel);
        const Tensor error =
            random_tensor({numel + lead}, DType::kF32, 4, s.stream, 0.3).narrow(lead, numel);
        const Floats x = floats_of(values), before = floats_of(error);
        Floats sum(x.size());
        double squares = 0;
        for (size_t i = 0; i < x.size(); ++i) {
          sum[i] = before[i] + x[i];
          squares += static_cast<double>(sum[i]) * static_cast<double>(sum[i]);
        }
        const CompressSignsArgs args = args_for(values, error, s.stream);
        compress_signs(s.stream, args);
        const float scale = floats_of(args.scale)[0];
        CHECK(scale == Approx(std::sqrt(squares / static_cast<double>(numel))).epsilon(1e-6));
        REQUIRE(bytes_of(args.signs) == packed(sum));
        Floats sent(x.size()), left(x.size());
        for (size_t i = 0; i < x.size(); ++i) {
          sent[i] = sum[i] >= 0 ? scale : -scale;
          left[i] = sum[i] - sent[i];
        }
        REQUIRE(floats_of(error) == left);
        Tensor y = Tensor::zeros({numel + lead}, DType::kF32, s.stream);
        Tensor view = y.narrow(lead, numel);
        expand_signs(s.stream, args.signs, args.scale, view);
        REQUIRE(floats_of(view) == sent);
        add_signs(s.stream, args.signs, args.scale, view);
        for (float& v : sent) v += v;
        REQUIRE(floats_of(view) == sent);
        for (const float v : floats_of(y.narrow(0, lead))) REQUIRE(v == 0);
      }
    }
  }
}

// Long enough that each thread has several pieces of memory, and the last of them is short.
TEST_CASE("of long buffers all signs are packed, once", "[kernels][device]") {
  TestStream s;
  constexpr int64_t kNumel = 3 * (int64_t{1} << 18) + 12301;
  const Tensor values = random_tensor({kNumel}, DType::kF32, 3, s.stream);
  const Tensor error = random_tensor({kNumel}, DType::kF32, 4, s.stream);
  const Floats x = floats_of(values);
  Floats sum = floats_of(error);
  for (size_t i = 0; i < x.size(); ++i) sum[i] += x[i];
  const CompressSignsArgs args = args_for(values, error, s.stream);
  compress_signs(s.stream, args);
  CHECK((bytes_of(args.signs) == packed(sum)));  // not to be printed
  const float scale = floats_of(args.scale)[0];
  for (float& v : sum) v -= v >= 0 ? scale : -scale;
  CHECK((floats_of(error) == sum));
}

TEST_CASE("signs expand to every dtype, and add up over ranks in their order",
          "[kernels][device]") {
  TestStream s;
  const int64_t numel = 43, bytes = 6;
  const Tensor signs = Tensor::empty({2 * bytes}, DType::kU8, s.stream);
  const Tensor scales = Tensor::empty({2}, DType::kF32, s.stream);
  Floats sums(static_cast<size_t>(numel), 1.0F);
  Tensor y = numbers(sums, DType::kF32, s.stream);
  for (int64_t rank = 0; rank < 2; ++rank) {
    const Tensor values = random_tensor({numel}, DType::kF32, 9 + rank, s.stream, 3.0);
    CompressSignsArgs args =
        args_for(values, Tensor::zeros({numel}, DType::kF32, s.stream), s.stream);
    args.signs = signs.narrow(rank * bytes, bytes);
    args.scale = scales.narrow(rank, 1);
    compress_signs(s.stream, args);
    add_signs(s.stream, args.signs, args.scale, y);
    const float scale = floats_of(args.scale)[0];
    const Floats x = floats_of(values);
    for (size_t i = 0; i < x.size(); ++i) sums[i] += x[i] >= 0 ? scale : -scale;
    for (const DType dtype : float_dtypes()) {
      Tensor wide = Tensor::empty({numel}, dtype, s.stream);
      expand_signs(s.stream, args.signs, args.scale, wide);
      Values expected;
      for (const float v : x) expected.push_back(v >= 0 ? scale : -scale);
      CHECK(same_bits(wide, tensor_of(expected, {numel}, dtype, s.stream)));
    }
  }
  CHECK(floats_of(y) == sums);
}

TEST_CASE("signs of nothing, of zeros and of numbers that are not finite", "[kernels][device]") {
  TestStream s;
  const Tensor none = Tensor::zeros({0}, DType::kF32, s.stream);
  const CompressSignsArgs empty = args_for(none, none, s.stream);
  compress_signs(s.stream, empty);
  CHECK(floats_of(empty.scale) == Floats{0});
  Tensor nothing = none;
  CHECK_NOTHROW(expand_signs(s.stream, empty.signs, empty.scale, nothing));
  CHECK_NOTHROW(add_signs(s.stream, empty.signs, empty.scale, nothing));

  const Tensor error = Tensor::zeros({9}, DType::kF32, s.stream);
  const CompressSignsArgs zeros =
      args_for(Tensor::zeros({9}, DType::kF32, s.stream), error, s.stream);
  compress_signs(s.stream, zeros);
  CHECK(floats_of(zeros.scale) == Floats{0});
  CHECK(floats_of(error) == Floats(9));
  CHECK(bytes_of(zeros.signs) == std::vector{std::byte{0xff}, std::byte{0x80}});

  // Without values: what the error has is all there is.
  const Tensor added = numbers({3, -1, 1}, DType::kF32, s.stream);
  const CompressSignsArgs alone = args_for({}, added, s.stream);
  compress_signs(s.stream, alone);
  CHECK(bytes_of(alone.signs) == packed({3, -1, 1}));
  const float scale = floats_of(alone.scale)[0];
  CHECK(scale == Approx(std::sqrt(11.0 / 3)));
  CHECK(floats_of(added) == Floats{3 - scale, -1 + scale, 1 - scale});

  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    const Tensor left = Tensor::zeros({3}, DType::kF32, s.stream);
    const CompressSignsArgs args =
        args_for(numbers({1, bad, -1}, DType::kF32, s.stream), left, s.stream);
    compress_signs(s.stream, args);
    CHECK_FALSE(std::isfinite(floats_of(args.scale)[0]));
    CHECK(std::ranges::none_of(floats_of(left), [](float v) { return std::isfinite(v); }));
    CHECK(bytes_of(args.signs) == packed({1, bad, -1}));
  }
}

TEST_CASE("1-bit compression refuses operands that do not fit", "[kernels][device]") {
  TestStream s;
  const auto make = [&](int64_t n, DType dtype) { return Tensor::zeros({n}, dtype, s.stream); };
  Tensor nine = make(9, DType::kF32), half = make(9, DType::kF16);
  const Tensor signs = make(2, DType::kU8), scale = make(1, DType::kF32);
  const auto refuses = [&](const CompressSignsArgs& args, const char* message) {
    CAPTURE(message);
    CHECK_THROWS_AS(compress_signs(s.stream, args), InternalError);
    CHECK_THROWS_WITH(compress_signs(s.stream, args), Catch::Contains(message));
  };
  refuses({nine, {}, signs, scale}, "compress_signs: the error is undefined");
  refuses({nine, make(8, DType::kF32), make(1, DType::kU8), scale},
          "compress_signs: values has shape [9] (9 elements), expected 8");
  refuses({nine, half, signs, scale}, "compress_signs: error is fp16, expected fp32");
  refuses({nine, nine, make(1, DType::kU8), scale}, "signs has shape [1] (1 elements), expected 2");
  refuses({nine, nine, make(2, DType::kI8), scale}, "signs is int8, expected uint8");
  refuses({nine, nine, signs, make(2, DType::kF32)}, "scale has shape [2]");
  refuses({nine, nine, signs, make(1, DType::kF64)}, "scale is fp64, expected fp32");
  CHECK_THROWS_WITH(add_signs(s.stream, signs, scale, half),
                    Catch::Contains("add_signs: y is fp16, expected fp32"));
  Tensor eight = make(8, DType::kF32);
  CHECK_THROWS_WITH(expand_signs(s.stream, signs, scale, eight),
                    Catch::Contains("expand_signs: signs has shape [2] (2 elements), expected 1"));
}

}  // namespace
}  // namespace ds::kernels
