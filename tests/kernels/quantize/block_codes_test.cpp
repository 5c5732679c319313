// Frozen weights in blocks against bitsandbytes and numpy (tests/golden/quantize) and against plain
// loops over levels, to the bit: in each table and with each kind of scale, on blocks smaller and
// larger than a vector and a chunk, and that what is unpacked packs to the same bytes.
#include "kernels/quantize/block_codes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <sstream>

#include "core/device/trace.h"
#include "core/status/error.h"
#include "tests/support/arguments.h"
#include "tests/support/catch.h"
#include "tests/support/floats.h"
#include "tests/support/golden.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;
using testing::Arguments;
using Bytes = std::vector<uint8_t>;

const std::vector<BlockCode>& all_codes() {
  static const std::vector<BlockCode> codes{
      {.table = BlockTable::kNf4, .scale = BlockScale::kFp32},
      {.table = BlockTable::kNf4, .scale = BlockScale::kFp8},
      {.table = BlockTable::kInt8, .scale = BlockScale::kFp32},
      {.table = BlockTable::kInt8, .scale = BlockScale::kFp8},
      {.table = BlockTable::kFp8, .scale = BlockScale::kFp32},
      {.table = BlockTable::kFp8, .scale = BlockScale::kFp8}};
  return codes;
}

Bytes octets_of(const Tensor& tensor) {
  Bytes octets;
  for (const std::byte b : bytes_of(tensor)) octets.push_back(static_cast<uint8_t>(b));
  return octets;
}

Tensor room_for(const BlockCode& how, int64_t numel, Stream& stream) {
  return Tensor::empty({how.bytes(numel)}, DType::kU8, stream);
}

Tensor packed_of(const Tensor& weights, const BlockCode& how, Stream& stream) {
  const Tensor packed = room_for(how, weights.numel(), stream);
  pack_blocks(stream, weights, how, packed, Tensor::zeros({1}, DType::kI32, stream));
  return packed;
}

Tensor unpacked_of(const Tensor& packed, const BlockCode& how, int64_t numel, DType dtype,
                   Stream& stream) {
  Tensor weights = Tensor::empty({numel}, dtype, stream);
  unpack_blocks(stream, packed, how, weights);
  return weights;
}

// How many blocks do not fit, of so many numbers as this.
int32_t unfit_of(const Floats& values, const BlockCode& how, Stream& stream, int32_t before = 0) {
  const Tensor unfit = testing::upload(std::vector<int32_t>{before}, {1}, stream);
  const Tensor weights = numbers(values, DType::kF32, stream);
  pack_blocks(stream, weights, how, room_for(how, weights.numel(), stream), unfit);
  return *testing::host_copy(unfit).data<int32_t>();
}

uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

std::vector<uint32_t> bits_of(const Floats& values) {
  std::vector<uint32_t> bits;
  for (const float x : values) bits.push_back(bits_of(x));
  return bits;
}

// ---- golden file

template <class T>
Tensor tensor_of_bits(const std::vector<uint32_t>& bits, Stream& stream) {
  std::vector<T> elements;
  for (const uint32_t of_one : bits) {
    if constexpr (sizeof(T) == 4) {
      elements.push_back(std::bit_cast<T>(of_one));
    } else {
      elements.push_back(std::bit_cast<T>(static_cast<uint16_t>(of_one)));
    }
  }
  return testing::upload(elements, {static_cast<int64_t>(bits.size())}, stream);
}

Tensor weights_of(const Arguments& args, Stream& stream) {
  std::vector<uint32_t> bits;
  std::istringstream in(args.text("x"));
  for (std::string word; std::getline(in, word, ',');) {
    bits.push_back(static_cast<uint32_t>(std::stoul(word, nullptr, 16)));
  }
  switch (parse_dtype(args.text("dtype"))) {
    case DType::kBF16:
      return tensor_of_bits<BF16>(bits, stream);
    case DType::kF16:
      return tensor_of_bits<F16>(bits, stream);
    default:
      return tensor_of_bits<float>(bits, stream);
  }
}

std::string bits_text(const Tensor& weights) {
  const Bytes octets = octets_of(weights);
  const size_t each = size_of(weights.dtype());
  std::vector<std::string> words;
  for (size_t i = 0; i < octets.size(); i += each) {
    uint32_t bits = 0;
    for (size_t k = each; k-- > 0;) bits = bits << 8 | octets[i + k];
    words.push_back(fmt::format("{:x}", bits));
  }
  return fmt::format("{}", fmt::join(words, ","));
}

BlockCode code_of(const Arguments& args) {
  BlockCode how{.block = args.integer("block")};
  how.table = args.verb == "nf4" ? BlockTable::kNf4
                                 : (args.verb == "int8" ? BlockTable::kInt8 : BlockTable::kFp8);
  how.scale = args.text("scale") == "fp8" ? BlockScale::kFp8 : BlockScale::kFp32;
  return how;
}

TEST_CASE("packed blocks are bitsandbytes', and numpy's, to the bit", "[kernels][device]") {
  TestStream s;
  testing::run_golden("quantize/blocks.txt", [&](const std::string& command) {
    const Arguments args(command);
    const BlockCode how = code_of(args);
    const Tensor weights = weights_of(args, s.stream);
    const int64_t numel = weights.numel();
    const Tensor packed = room_for(how, numel, s.stream);
    const Tensor unfit = Tensor::zeros({1}, DType::kI32, s.stream);
    pack_blocks(s.stream, weights, how, packed, unfit);
    const Bytes octets = octets_of(packed);
    const auto codes = octets.begin() + how.code_bytes(numel);
    const Tensor back = unpacked_of(packed, how, numel, weights.dtype(), s.stream);
    return fmt::format("codes {:02x}\nscales {:02x}\nunfit {}\nweights {}\n",
                       fmt::join(octets.begin(), codes, ""), fmt::join(codes, octets.end(), ""),
                       *testing::host_copy(unfit).data<int32_t>(), bits_text(back));
  });
}

// ---- tables and scales

TEST_CASE("tables hold levels from -1 to 1, in order, each once", "[kernels]") {
  for (const BlockTable table : {BlockTable::kNf4, BlockTable::kInt8, BlockTable::kFp8}) {
    const BlockLevels& levels = block_levels(table);
    const int count = table == BlockTable::kNf4 ? 16 : (table == BlockTable::kInt8 ? 255 : 253);
    CAPTURE(static_cast<int>(table));
    CHECK(levels.level[levels.code[0]] == -1);
    CHECK(levels.level[levels.code[count - 1]] == 1);
    for (int rank = 0; rank < count; ++rank) {
      const float level = levels.level[levels.code[rank]];
      CAPTURE(rank);
      REQUIRE(level_rank(levels.midpoint, levels.first_step, level) == rank);
      if (rank == 0) continue;
      const float below = levels.level[levels.code[rank - 1]], midpoint = levels.midpoint[rank - 1];
      REQUIRE(below < midpoint);
      REQUIRE(midpoint < level);
      REQUIRE(level_rank(levels.midpoint, levels.first_step, midpoint) == rank - 1);
      REQUIRE(level_rank(levels.midpoint, levels.first_step, std::nextafter(midpoint, 2.0F)) ==
              rank);
    }
    CHECK(levels.code[level_rank(levels.midpoint, levels.first_step, kNan)] ==
          levels.code[count - 1]);
  }
}

TEST_CASE("codes of 8 bits are those of integers and of floats", "[kernels]") {
  const BlockLevels& ints = block_levels(BlockTable::kInt8);
  const BlockLevels& floats = block_levels(BlockTable::kFp8);
  for (int k = -127; k <= 127; ++k) {
    CHECK(ints.code[k + 127] == (k & 255));
    CHECK(bits_of(ints.level[k & 255]) == bits_of(static_cast<float>(k) / 127.0F));
  }
  CHECK(floats.level[0x7e] == 1);
  CHECK(floats.level[0xfe] == -1);
  CHECK(floats.level[0x38] == 1.0F / 448);
  CHECK(floats.level[0x01] == 0x1p-9F / 448);
  CHECK(floats.level[0x08] == 0x1p-6F / 448);
  CHECK(floats.code[126] == 0x00);  // the zero without a sign
  CHECK(std::isnan(floats.level[0x7f]));
}

TEST_CASE("a scale of 8 bits is the nearest one, and of halves the even one", "[kernels]") {
  CHECK(scale_value(0) == 0);
  CHECK(scale_value(1) == 0x1p-13F);
  CHECK(scale_value(16) == 0x1p-9F);
  CHECK(scale_value(255) == 62);
  for (int code = 0; code < 256; ++code) {
    const float value = scale_value(static_cast<uint8_t>(code));
    CAPTURE(code);
    REQUIRE(scale_code(value) == code);
    if (code == 0) continue;
    const float below = scale_value(static_cast<uint8_t>(code - 1)), half = (below + value) / 2;
    REQUIRE(below < value);
    REQUIRE(scale_code(half) == (code % 2 == 0 || code == 1 ? code : code - 1));
    REQUIRE(scale_code(std::nextafter(half, 100.0F)) == code);
    REQUIRE(scale_code(std::nextafter(half, 0.0F)) == std::max(code - 1, 1));
  }
  CHECK(scale_code(std::numeric_limits<float>::denorm_min()) == 1);
  CHECK(scale_fits(BlockScale::kFp8, std::nextafter(63.0F, 0.0F)));
  CHECK_FALSE(scale_fits(BlockScale::kFp8, 63));
  CHECK_FALSE(scale_fits(BlockScale::kFp8, kNan));
  CHECK(saturated_scale_code(63) == 255);
  CHECK(saturated_scale_code(kNan) == 255);
}

// ---- blocks

struct Naive {
  Bytes packed;
  Floats weights;
};

// The formulas, without a search.
Naive naive_of(const Floats& x, const BlockCode& how) {
  Naive naive;
  Bytes scales, ranks;
  const BlockLevels& levels = block_levels(how.table);
  for (size_t first = 0; first < x.size(); first += static_cast<size_t>(how.block)) {
    const size_t end = first + static_cast<size_t>(how.block);
    float absmax = 0;
    for (size_t i = first; i < end; ++i) absmax = std::max(absmax, std::abs(x[i]));
    float scale = absmax;
    if (how.scale == BlockScale::kFp8) {
      scales.push_back(static_cast<uint8_t>(scale_code(absmax)));
      scale = scale_value(scales.back());
    } else {
      for (int i = 0; i < 4; ++i) scales.push_back(static_cast<uint8_t>(bits_of(absmax) >> 8 * i));
    }
    for (size_t i = first; i < end; ++i) {
      const float scaled = std::clamp(x[i] * (1.0F / std::max(absmax, 1e-38F)), -1.0F, 1.0F);
      const auto below =
          std::ranges::count_if(levels.midpoint, [&](float m) { return m < scaled; });
      const uint8_t code = levels.code[below];
      ranks.push_back(code);
      naive.weights.push_back(levels.level[code] * scale);
    }
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (how.table != BlockTable::kNf4) naive.packed.push_back(ranks[i]);
    if (how.table == BlockTable::kNf4 && i % 2 == 0) {
      naive.packed.push_back(static_cast<uint8_t>(ranks[i] * 16 + ranks[i + 1]));
    }
  }
  naive.packed.insert(naive.packed.end(), scales.begin(), scales.end());
  return naive;
}

TEST_CASE("blocks of any size hold each weight's nearest level", "[kernels][device]") {
  TestStream s;
  for (BlockCode how : all_codes()) {
    for (const DType dtype : float_dtypes()) {
      for (const int64_t block : {2, 6, 64, 100, 514, 4096, 8206}) {
        how.block = block;
        const int64_t numel = block * (block < 100 ? 67 : 3);
        CAPTURE(static_cast<int>(how.table), static_cast<int>(how.scale), name_of(dtype), block);
        const Tensor x = random_tensor({numel}, dtype, 11, s.stream, 0.3);
        const Naive naive = naive_of(floats_of(x), how);
        const Tensor packed = packed_of(x, how, s.stream);
        REQUIRE(octets_of(packed) == naive.packed);
        for (const DType to : float_dtypes()) {
          const Tensor back = unpacked_of(packed, how, numel, to, s.stream);
          REQUIRE(octets_of(back) == octets_of(numbers(naive.weights, to, s.stream)));
        }
      }
    }
  }
}

TEST_CASE("weights that lie at midpoints have the lower level's code, in every place",
          "[kernels][device]") {
  TestStream s;
  for (BlockCode how : all_codes()) {
    how.block = 6;  // less than a vector
    const BlockLevels& levels = block_levels(how.table);
    const int64_t count = how.table == BlockTable::kNf4 ? 15 : 252;
    for (const bool is_wide : {false, true}) {
      if (is_wide) how.block = 6 * ((count + 5) / 6);
      Floats values;
      for (int64_t i = 0; i < count; ++i) {
        if (i % 5 == 0) values.push_back(1);  // the absmax
        values.push_back(levels.midpoint[i]);
      }
      while (static_cast<int64_t>(values.size()) % how.block != 0) values.push_back(1);
      const Tensor packed = packed_of(numbers(values, DType::kF32, s.stream), how, s.stream);
      CAPTURE(static_cast<int>(how.table), static_cast<int>(how.scale), how.block);
      CHECK(octets_of(packed) == naive_of(values, how).packed);
    }
  }
}

TEST_CASE("blocks may begin anywhere", "[kernels][device]") {
  TestStream s;
  const int64_t numel = 64;
  for (BlockCode how : all_codes()) {
    how.block = 16;
    for (const DType dtype : float_dtypes()) {
      CAPTURE(static_cast<int>(how.table), static_cast<int>(how.scale), name_of(dtype));
      const Tensor x = random_tensor({numel + 3}, dtype, 3, s.stream).narrow(3, numel);
      const Naive naive = naive_of(floats_of(x), how);
      const int64_t bytes = how.bytes(numel);
      const Tensor room = Tensor::zeros({bytes + 2}, DType::kU8, s.stream);
      const Tensor packed = room.narrow(1, bytes);
      pack_blocks(s.stream, x, how, packed, Tensor::zeros({1}, DType::kI32, s.stream));
      REQUIRE(octets_of(packed) == naive.packed);
      CHECK(octets_of(room).front() == 0);
      CHECK(octets_of(room).back() == 0);
      const Tensor to = Tensor::zeros({numel + 2}, dtype, s.stream);
      Tensor back = to.narrow(1, numel);
      unpack_blocks(s.stream, packed, how, back);
      CHECK(octets_of(back) == octets_of(numbers(naive.weights, dtype, s.stream)));
      CHECK(floats_of(to).front() == 0);
      CHECK(floats_of(to).back() == 0);
    }
  }
}

// Weights of all sizes there are, in blocks of 8.
Floats of_all_sizes() {
  Floats values;
  const Rng rng(5, "blocks");
  std::vector<float> sizes{0, -0.0F, 0.02F, 1, 61, 0x1p-14F, 1e-30F, 1e30F};
  for (const float tiny : {1e-37F, 1.1e-38F, 1.0000001e-38F, 0.9e-38F, 1e-40F, 1e-44F}) {
    sizes.push_back(tiny);
  }
  sizes.push_back(std::numeric_limits<float>::denorm_min());
  sizes.push_back(std::numeric_limits<float>::max());
  for (const float size : sizes) {
    for (int i = 0; i < 64; ++i) {
      const auto index = static_cast<uint64_t>(values.size());
      values.push_back(size * (2 * rng.uniform(index) - 1));
    }
    values[values.size() - 3] = size;
    values[values.size() - 9] = -size;
  }
  return values;
}

TEST_CASE("what is unpacked packs to the same bytes", "[kernels][device]") {
  TestStream s;
  const Floats values = of_all_sizes();
  const Tensor x = numbers(values, DType::kF32, s.stream);
  for (BlockCode how : all_codes()) {
    for (const int64_t block : {2, 8, 64, 256}) {
      how.block = block;
      CAPTURE(static_cast<int>(how.table), static_cast<int>(how.scale), block);
      const Tensor packed = packed_of(x, how, s.stream);
      const Tensor back = unpacked_of(packed, how, x.numel(), DType::kF32, s.stream);
      REQUIRE(octets_of(packed_of(back, how, s.stream)) == octets_of(packed));
    }
  }
}

TEST_CASE("of a block of weights below 1e-38 nothing is left", "[kernels][device]") {
  TestStream s;
  for (BlockCode how : all_codes()) {
    how.block = 4;
    const Tensor x = numbers({0.9e-38F, -0.9e-38F, 1e-40F, 0, -0.0F, 0, -0.0F, 0, 1e-38F, 0, 0, 0},
                             DType::kF32, s.stream);
    const Tensor packed = packed_of(x, how, s.stream);
    const Floats back = floats_of(unpacked_of(packed, how, 12, DType::kF32, s.stream));
    const float kept = how.scale == BlockScale::kFp8 ? 0x1p-13F : 1e-38F;  // never 0
    CHECK(bits_of(back) == bits_of(Floats{0, 0, 0, 0, 0, 0, 0, 0, kept, 0, 0, 0}));
  }
}

TEST_CASE("blocks whose scale does not fit are counted", "[kernels][device]") {
  TestStream s;
  const Floats values{1, 2, 62.9F, -1, 1, -63, kInfinity, 1, 1, -kInfinity, kNan, 0, 1e38F, 0};
  for (BlockCode how : all_codes()) {
    how.block = 2;
    const bool is_narrow = how.scale == BlockScale::kFp8;
    CAPTURE(static_cast<int>(how.table), static_cast<int>(how.scale));
    CHECK(unfit_of(values, how, s.stream) == (is_narrow ? 5 : 3));
    CHECK(unfit_of(values, how, s.stream, 7) == (is_narrow ? 12 : 10));
    CHECK(unfit_of({1, 2}, how, s.stream, 7) == 7);
    const Tensor packed = packed_of(numbers(values, DType::kF32, s.stream), how, s.stream);
    const Floats back = floats_of(unpacked_of(packed, how, 14, DType::kF32, s.stream));
    CHECK(back[1] == 2);
    if (is_narrow) {
      CHECK(back[2] == 62);
      CHECK(back[5] == -62);
      CHECK(back[6] == 62);
      CHECK(back[10] == 62);
      CHECK(back[12] == 62);
    } else {
      CHECK(back[5] == -63);
      CHECK(back[6] == kInfinity);
      CHECK(std::isnan(back[10]));
    }
  }
  // More blocks than a grid has at once.
  Floats many(9000, 1.0F);
  for (size_t i = 0; i < many.size(); i += 5) many[i] = 100;
  CHECK(unfit_of(many, {.scale = BlockScale::kFp8, .block = 2}, s.stream) == 1800);
}

TEST_CASE("blocks say how many bytes they take", "[kernels]") {
  const BlockCode nf4{.block = 64}, int8{.table = BlockTable::kInt8, .block = 32};
  CHECK(nf4.code_bytes(128) == 64);
  CHECK(nf4.scale_bytes(128) == 8);
  CHECK(nf4.bytes(128) == 72);
  CHECK(int8.code_bytes(128) == 128);
  CHECK(int8.bytes(128) == 144);
  CHECK(BlockCode{.scale = BlockScale::kFp8, .block = 64}.bytes(128) == 66);
  CHECK_FALSE(nf4 == int8);
}

TEST_CASE("blocks refuse operands that do not fit", "[kernels][device]") {
  TestStream s;
  const BlockCode how{.block = 8};
  const Tensor x = Tensor::zeros({16}, DType::kF32, s.stream);
  const Tensor packed = room_for(how, 16, s.stream);
  const Tensor unfit = Tensor::zeros({1}, DType::kI32, s.stream);
  const auto pack = [&](const Tensor& weights, const Tensor& to, const Tensor& count) {
    pack_blocks(s.stream, weights, how, to, count);
  };
  const Tensor none, five = x.narrow(0, 5), whole = Tensor::zeros({16}, DType::kI32, s.stream);
  CHECK_THROWS_WITH(pack(none, packed, unfit),
                    Catch::Contains("pack_blocks: weights is undefined"));
  CHECK_THROWS_WITH(pack(five, packed, unfit),
                    Catch::Contains("weights has 5 elements, expected blocks of 8"));
  CHECK_THROWS_WITH(pack(whole, packed, unfit), Catch::Contains("weights is int32, expected fp32"));
  CHECK_THROWS_WITH(pack(x, packed.narrow(0, 15), unfit),
                    Catch::Contains("packed has shape [15] (15 elements), expected 16 elements"));
  CHECK_THROWS_WITH(pack(x, Tensor::zeros({16}, DType::kI8, s.stream), unfit),
                    Catch::Contains("packed is int8, expected uint8"));
  CHECK_THROWS_WITH(pack(x, packed, x.narrow(0, 1)), Catch::Contains("unfit is fp32"));
  CHECK_THROWS_WITH(pack(x, packed, whole), Catch::Contains("unfit has shape [16]"));
  CHECK_THROWS_AS(pack(x, none, unfit), InternalError);
  Tensor back = Tensor::zeros({8}, DType::kF32, s.stream);
  CHECK_THROWS_WITH(unpack_blocks(s.stream, packed, how, back),
                    Catch::Contains("unpack_blocks: packed has shape [16]"));
  for (const int64_t block : {0, -2, 1, 63}) {
    CHECK_THROWS_AS((BlockCode{.block = block}.check()), ConfigError);
    CHECK_THROWS_AS(pack_blocks(s.stream, x, {.block = block}, packed, unfit), ConfigError);
  }
  CHECK_THROWS_WITH((BlockCode{.block = 63}.check()),
                    Catch::Contains("a block has 63 weights, expected an even number"));
  CHECK_NOTHROW(BlockCode{.block = 2}.check());
}

struct Costs final : Trace {
  void on_op(std::string_view name, const OpCost& cost) override {
    if (!name.ends_with("_blocks")) return;  // zeros of operands
    log.push_back(fmt::format("{} {} {}", name, cost.flops, cost.bytes));
  }
  std::vector<std::string> log;
};

void run_blocks(Stream& stream, int64_t numel) {
  const BlockCode how{.block = 64};
  const Tensor packed = Tensor::zeros({how.bytes(numel)}, DType::kU8, stream);
  Tensor weights = Tensor::zeros({numel}, DType::kBF16, stream);
  pack_blocks(stream, weights, how, packed, Tensor::zeros({1}, DType::kI32, stream));
  unpack_blocks(stream, packed, how, weights);
}

TEST_CASE("blocks on meta report what they do on a device, and of none there is nothing to do",
          "[kernels][device]") {
  Costs on_device, on_meta;
  TestStream s(2, size_t{16} << 20, &on_device);
  MetaMemory nothing;
  Stream meta({.device = Device::meta(),
               .memory = &nothing,
               .trace = &on_meta,
               .stands_for = s.stream.device()});
  for (const int64_t numel : {128, 0}) {
    run_blocks(s.stream, numel);
    run_blocks(meta, numel);
  }
  CHECK(on_device.log == on_meta.log);
  CHECK(on_device.log == std::vector<std::string>{"pack_blocks 768 584", "unpack_blocks 128 328",
                                                  "pack_blocks 0 0", "unpack_blocks 0 0"});
}

}  // namespace
}  // namespace ds::kernels
