// The reduction over ranks against a loop that adds one element at a time: every dtype, operation,
// length and number of ranks, what does not fit a type, and what is no number.
#include "comm/contract/rank_order_reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "comm/contract/operation.h"
#include "core/values/rng.h"
#include "tests/suites/communicator_values.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"

namespace ds::detail {
namespace {

using test::with_type;

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kProduct};

using Bytes = std::vector<std::byte>;

// numel values of a rank as bytes, `offset` elements into their memory.
Bytes bytes_of(int rank, DType dtype, int64_t numel) {
  Bytes bytes(static_cast<size_t>(numel) * size_of(dtype));
  with_type(dtype, [&]<class T>() {
    for (int64_t i = 0; i < numel; ++i) {
      const T value = test::value<T>(rank, i);
      std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(T), &value, sizeof(T));
    }
  });
  return bytes;
}

// The reduction of `size` ranks, called the way that a transport does.
Bytes reduced(const ReduceTypes& types, int size, int64_t numel) {
  std::vector<Bytes> inputs;
  std::vector<const std::byte*> sources;
  for (int rank = 0; rank < size; ++rank) inputs.push_back(bytes_of(rank, types.in, numel));
  for (const Bytes& input : inputs) sources.push_back(input.data());
  Bytes out(static_cast<size_t>(numel) * size_of(types.out));
  std::byte* const target = out.data();
  reduce_in_rank_order(types, sources, std::span(&target, 1), numel);
  return out;
}

TEST_CASE("every reduction is that of one element at a time in rank order, to the bit", "[comm]") {
  for (const DType dtype : test::kDTypes) {
    for (const ReduceOp op : kOps) {
      for (const int size : {1, 2, 3, 7}) {
        for (const int64_t numel : {0, 1, 3, 15, 16, 17, 63, 64, 65, 511, 513, 2047, 2049, 5000}) {
          CAPTURE(name_of(dtype), name_of(op), size, numel);
          REQUIRE(reduced({dtype, dtype, op}, size, numel) ==
                  test::reduced(size, dtype, dtype, op, 0, numel));
        }
      }
    }
  }
}

TEST_CASE("a sum of 16-bit floats that is kept in fp32 is not rounded", "[comm]") {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const ReduceOp op : kOps) {
      for (const int64_t numel : {1, 17, 1000}) {
        CAPTURE(name_of(dtype), name_of(op), numel);
        REQUIRE(reduced({dtype, DType::kF32, op}, 5, numel) ==
                test::reduced(5, dtype, DType::kF32, op, 0, numel));
      }
    }
  }
}

TEST_CASE("a range that is reduced in pieces gives the bits of the whole", "[comm]") {
  constexpr int64_t kNumel = 700;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64, DType::kI8}) {
    const Bytes whole = reduced({dtype, dtype, ReduceOp::kAverage}, 3, kNumel);
    const std::vector<Bytes> inputs{bytes_of(0, dtype, kNumel), bytes_of(1, dtype, kNumel),
                                    bytes_of(2, dtype, kNumel)};
    const Rng rng(1, "pieces");
    Bytes pieces(whole.size());
    uint64_t draw = 0;
    for (int64_t begin = 0; begin < kNumel;) {
      const int64_t count =
          std::min<int64_t>(kNumel - begin, 1 + static_cast<int64_t>(rng.bits(draw++) % 40));
      const size_t at = static_cast<size_t>(begin) * size_of(dtype);
      const std::vector<const std::byte*> sources{inputs[0].data() + at, inputs[1].data() + at,
                                                  inputs[2].data() + at};
      std::byte* const target = pieces.data() + at;
      reduce_in_rank_order({dtype, dtype, ReduceOp::kAverage}, sources, std::span(&target, 1),
                           count);
      begin += count;
    }
    CAPTURE(name_of(dtype));
    CHECK(pieces == whole);
  }
}

TEST_CASE("every target gets the result, be it one of the sources", "[comm]") {
  constexpr int64_t kNumel = 4100;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI32}) {
    const Bytes expected = reduced({dtype, dtype, ReduceOp::kSum}, 3, kNumel);
    std::vector<Bytes> buffers{bytes_of(0, dtype, kNumel), bytes_of(1, dtype, kNumel),
                               bytes_of(2, dtype, kNumel), Bytes(expected.size())};
    const std::vector<const std::byte*> sources{buffers[0].data(), buffers[1].data(),
                                                buffers[2].data()};
    const std::vector<std::byte*> targets{buffers[1].data(), buffers[3].data(), buffers[0].data(),
                                          buffers[2].data()};
    reduce_in_rank_order({dtype, dtype, ReduceOp::kSum}, sources, targets, kNumel);
    for (const Bytes& buffer : buffers) CHECK(buffer == expected);
  }
}

template <class T>
std::vector<T> reduce_values(ReduceOp op, const std::vector<std::vector<T>>& ranks) {
  std::vector<const std::byte*> sources;
  for (const auto& values : ranks) {
    sources.push_back(reinterpret_cast<const std::byte*>(values.data()));
  }
  std::vector<T> out(ranks[0].size());
  auto* const target = reinterpret_cast<std::byte*>(out.data());
  constexpr DType kType = dtype_of<T>::value;
  reduce_in_rank_order({kType, kType, op}, sources, std::span(&target, 1),
                       static_cast<int64_t>(out.size()));
  return out;
}

TEST_CASE("sums and products of integers wrap, averages of small ones do not on the way",
          "[comm]") {
  using I32 = std::vector<int32_t>;
  using I64 = std::vector<int64_t>;
  using U8 = std::vector<uint8_t>;
  using I8 = std::vector<int8_t>;
  const int32_t most = std::numeric_limits<int32_t>::max();
  const int64_t most64 = std::numeric_limits<int64_t>::max();
  CHECK(reduce_values<int32_t>(ReduceOp::kSum, {{most}, {1}}) == I32{-most - 1});
  CHECK(reduce_values<int32_t>(ReduceOp::kAverage, {{most}, {most}, {most}}) == I32{most});
  CHECK(reduce_values<int64_t>(ReduceOp::kSum, {{most64}, {1}}) == I64{-most64 - 1});
  CHECK(reduce_values<uint8_t>(ReduceOp::kSum, {{200}, {100}}) == U8{44});
  CHECK(reduce_values<uint8_t>(ReduceOp::kAverage, {{200}, {100}}) == U8{150});
  CHECK(reduce_values<uint8_t>(ReduceOp::kMax, {{200}, {100}}) == U8{200});
  CHECK(reduce_values<int8_t>(ReduceOp::kProduct, {{100}, {3}}) == I8{44});
  CHECK(reduce_values<int8_t>(ReduceOp::kMin, {{-100}, {3}}) == I8{-100});
  // Truncated towards zero, on both sides of it.
  CHECK(reduce_values<int32_t>(ReduceOp::kAverage, {{-3, 3}, {-4, 4}}) == I32{-3, 3});
  CHECK(reduce_values<int8_t>(ReduceOp::kAverage, {{-1}, {0}}) == I8{0});
}

template <class T>
void check_nan_wins() {
  const T nan(std::numeric_limits<float>::quiet_NaN());
  const T one(1.0F), two(2.0F), infinite(std::numeric_limits<float>::infinity());
  for (const ReduceOp op : kOps) {
    // At the front of a vector, in its middle and in what is left over at the end.
    for (const size_t at : {size_t{0}, size_t{20}, size_t{36}}) {
      for (size_t poisoned = 0; poisoned < 3; ++poisoned) {
        std::vector<std::vector<T>> ranks(3, std::vector<T>(37, one));
        ranks[1] = std::vector<T>(37, two);
        ranks[poisoned][at] = nan;
        const std::vector<T> out = reduce_values<T>(op, ranks);
        for (size_t i = 0; i < out.size(); ++i) {
          REQUIRE(std::isnan(static_cast<double>(static_cast<float>(out[i]))) == (i == at));
        }
      }
    }
  }
  CHECK(static_cast<float>(reduce_values<T>(ReduceOp::kMin, {{infinite}, {one}})[0]) == 1.0F);
  CHECK(std::isinf(static_cast<float>(reduce_values<T>(ReduceOp::kMax, {{infinite}, {one}})[0])));
  CHECK(std::isinf(static_cast<float>(reduce_values<T>(ReduceOp::kSum, {{infinite}, {one}})[0])));
}

TEST_CASE("what is no number wins every reduction and touches no other element", "[comm]") {
  check_nan_wins<float>();
  check_nan_wins<BF16>();
  check_nan_wins<F16>();
  check_nan_wins<double>();
}

TEST_CASE("sums of 16-bit floats beyond their range are infinite", "[comm]") {
  const F16 large(60000.0F);
  CHECK(std::isinf(static_cast<float>(reduce_values<F16>(ReduceOp::kSum, {{large}, {large}})[0])));
  // The sum on the way is fp32, so the average is not.
  CHECK(static_cast<float>(reduce_values<F16>(ReduceOp::kAverage, {{large}, {large}})[0]) ==
        static_cast<float>(large));
}

TEST_CASE("only equal types are reduced, and 16-bit floats into fp32", "[comm]") {
  for (const DType in : test::kDTypes) {
    for (const DType out : test::kDTypes) {
      const bool narrow = in == DType::kBF16 || in == DType::kF16;
      const bool allowed = in == out || (narrow && out == DType::kF32);
      CAPTURE(name_of(in), name_of(out));
      if (allowed) {
        CHECK_NOTHROW(check_reduce_types({in, out, ReduceOp::kSum}));
      } else {
        CHECK_THROWS_WITH(
            check_reduce_types({in, out, ReduceOp::kSum}),
            Catch::Contains(fmt::format("reduce: {} into {}", name_of(in), name_of(out))));
      }
    }
  }
}

TEST_CASE("more ranks than one reduction takes, and none, are refused", "[comm]") {
  const float value = 1;
  float result = 0;
  auto* const target = reinterpret_cast<std::byte*>(&result);
  const std::vector<const std::byte*> most(1024, reinterpret_cast<const std::byte*>(&value));
  reduce_in_rank_order({}, most, std::span(&target, 1), 1);
  CHECK(result == 1024.0F);
  const std::vector<const std::byte*> more(1025, most[0]);
  CHECK_THROWS_WITH(reduce_in_rank_order({}, more, std::span(&target, 1), 1),
                    Catch::Contains("1025 ranks, expected 1 to 1024"));
  CHECK_THROWS_WITH(reduce_in_rank_order({}, {}, std::span(&target, 1), 1),
                    Catch::Contains("0 ranks"));
}

TEST_CASE("a long reduction gives the same bits by any number of threads", "[comm]") {
  constexpr int64_t kNumel = (int64_t{1} << 18) + 77;  // long enough to be shared
  const std::vector<Bytes> inputs{bytes_of(0, DType::kBF16, kNumel),
                                  bytes_of(1, DType::kBF16, kNumel)};
  const std::vector<const std::byte*> sources{inputs[0].data(), inputs[1].data()};
  const ReduceTypes types{DType::kBF16, DType::kF32, ReduceOp::kSum};
  const Bytes expected = reduced(types, 2, kNumel);
  for (const int threads : {1, 2, 3}) {
    testing::CpuStream cpu(threads);
    Bytes out(expected.size());
    std::byte* const target = out.data();
    reduce_on_pool(types, sources, std::span(&target, 1), kNumel, cpu.stream);
    CAPTURE(threads);
    CHECK(out == expected);
  }
}

}  // namespace
}  // namespace ds::detail
