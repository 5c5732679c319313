#include "core/device/tensor.h"

#include <cmath>

#include "core/memory/adaptors.h"
#include "core/values/rng.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

TEST_CASE("a view shares the bytes of its tensor and checks its range", "[core]") {
  HostMemory memory;
  ThreadPool pool(1);
  Stream stream({.memory = &memory, .pool = &pool});
  Tensor x = Tensor::zeros({4, 3}, DType::kF32, stream);
  Tensor view = x.narrow(3, 6);
  view.data<float>()[0] = 7.0F;
  CHECK(x.data<float>()[3] == 7.0F);
  CHECK(view.reshape({2, 3}).shape() == Shape{2, 3});
  CHECK_THROWS_WITH(x.narrow(8, 5),
                    Catch::Contains("5 elements from element 8 of a tensor of 12 elements"));
  CHECK_THROWS_WITH(x.reshape({5, 3}), Catch::Contains("[4, 3] to [5, 3]"));
  CHECK_THROWS_WITH(x.data<int32_t>(), Catch::Contains("data<int32>() of a fp32 tensor"));
}

TEST_CASE("neighbours in one buffer join to one view; others do not", "[core]") {
  HostMemory memory;
  ThreadPool pool(1);
  Stream stream({.memory = &memory, .pool = &pool});
  const Tensor x = Tensor::zeros({4, 3}, DType::kF32, stream);
  const Tensor joined = x.narrow(2, 4).reshape({2, 2}).joined_with(x.narrow(6, 3));
  REQUIRE(joined.defined());
  CHECK(joined.shape() == Shape{7});
  CHECK(joined.bytes() == 28);
  CHECK(joined.aliases(x.narrow(2, 1)));
  CHECK_FALSE(x.narrow(2, 3).joined_with(x.narrow(6, 3)).defined());  // a gap
  CHECK_FALSE(x.narrow(6, 3).joined_with(x.narrow(2, 4)).defined());  // the other way round
  CHECK_FALSE(x.narrow(2, 4)
                  .joined_with(x.narrow(6, 3).reinterpret(DType::kBF16))
                  .defined());  // another dtype
}

TEST_CASE("neighbours by address of two buffers do not join", "[core]") {
  float values[8] = {};
  const auto borrow = [&](int first, std::shared_ptr<void> owner) {
    return Tensor::borrow(values + first, {4}, DType::kF32, Device::cpu(), std::move(owner));
  };
  const auto one = std::make_shared<int>(1);
  CHECK(borrow(0, one).joined_with(borrow(4, one)).defined());
  CHECK_FALSE(borrow(0, one).joined_with(borrow(4, std::make_shared<int>(2))).defined());
  CHECK_FALSE(borrow(0, nullptr).joined_with(borrow(4, nullptr)).defined());
}

TEST_CASE("a meta tensor has a shape and is accounted for, but has no bytes", "[core]") {
  MetaMemory meta;
  MemoryAccount account;
  TrackingMemory tracking(meta, account);
  Stream stream({.device = Device::meta(), .memory = &tracking});
  {
    const Tensor x = Tensor::empty({1 << 20, 1 << 10}, DType::kBF16, stream, MemoryTag::kBuckets);
    CHECK(account.usage().tag_bytes_now[static_cast<size_t>(MemoryTag::kBuckets)] == 1ULL << 31);
    CHECK_THROWS_WITH(x.raw(), Catch::Contains("no bytes"));
  }
  CHECK(account.usage().bytes_now == 0);
  CHECK(account.usage().bytes_peak == 1ULL << 31);
}

TEST_CASE("a memory limit refuses with size, purpose and what is left", "[core]") {
  HostMemory host;
  MemoryAccount account(1000);
  TrackingMemory limited(host, account);
  void* block = limited.allocate(900, MemoryTag::kScratch);
  CHECK_THROWS_WITH(limited.allocate(200, MemoryTag::kGradients),
                    Catch::Contains("200 bytes for gradients") && Catch::Contains("100 of 1000"));
  limited.deallocate(block, 900, MemoryTag::kScratch);
  limited.deallocate(limited.allocate(1000, MemoryTag::kScratch), 1000, MemoryTag::kScratch);
}

TEST_CASE("16-bit floats round to nearest even and keep the special values", "[core]") {
  CHECK(static_cast<float>(BF16(1.0F)) == 1.0F);
  CHECK(BF16(1.00390625F).bits == 0x3f80);  // half way: to even
  CHECK(BF16(1.01171875F).bits == 0x3f82);
  CHECK(std::isnan(static_cast<float>(BF16(NAN))));
  CHECK(static_cast<float>(F16(65504.0F)) == 65504.0F);
  CHECK(std::isinf(static_cast<float>(F16(65520.0F))));
  CHECK(static_cast<float>(F16(0x1p-24F)) == 0x1p-24F);
  CHECK(F16(0x1p-26F).bits == 0);
  for (uint32_t bits = 0; bits < 0x7c00;
       ++bits) {  // every finite positive half is its own rounding
    F16 half;
    half.bits = static_cast<uint16_t>(bits);
    REQUIRE(F16(static_cast<float>(half)).bits == bits);
  }
}

TEST_CASE("philox gives the published numbers", "[core]") {
  // Known answer test of the Random123 distribution for philox4x32-10, counter and key zero.
  const auto words = philox4x32({0, 0, 0, 0}, {0, 0});
  CHECK(words[0] == 0x6627e8d5U);
  CHECK(words[1] == 0xe169c58dU);
  CHECK(words[2] == 0xbc57ac4cU);
  CHECK(words[3] == 0x9b00dbd8U);
}

TEST_CASE("streams of random numbers differ by name and repeat by index", "[core]") {
  const Rng a(1234, "init");
  const Rng b(1234, "dropout");
  CHECK(a.bits(5) != b.bits(5));
  CHECK(a.bits(5) == Rng(1234, "init").bits(5));
  CHECK(a.derive(1).bits(0) != a.derive(2).bits(0));
  double sum = 0;
  double squares = 0;
  for (uint64_t i = 0; i < 20000; ++i) {
    const double x = a.normal(i);
    sum += x;
    squares += x * x;
  }
  CHECK(std::abs(sum / 20000) < 0.03);
  CHECK(std::abs(squares / 20000 - 1.0) < 0.03);
}

TEST_CASE("normals of a range are those of its indices", "[core]") {
  const Rng rng(7, "range");
  std::vector<float> all(37);
  rng.normals(0, all);
  for (size_t first = 0; first < 6; ++first) {
    std::vector<float> part(all.size() - first);
    rng.normals(first, part);
    CHECK(std::equal(part.begin(), part.end(), all.begin() + static_cast<std::ptrdiff_t>(first)));
    CHECK(rng.normal(first) == all[first]);
  }
}

TEST_CASE("the two normals of a pair are independent", "[core]") {
  const Rng rng(7, "pair");
  double product = 0;
  for (uint64_t i = 0; i < 20000; i += 2)
    product += double{rng.normal(i)} * double{rng.normal(i + 1)};
  CHECK(std::abs(product / 10000) < 0.04);
}

}  // namespace
}  // namespace ds
