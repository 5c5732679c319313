// Views and handles of tensors: which bytes they show, who owns them, and what is refused.
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "core/device/tensor.h"
#include "core/memory/adaptors.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"

namespace ds {
namespace {

TEST_CASE("an undefined tensor has nothing and is nobody's alias", "[core]") {
  const Tensor none;
  CHECK_FALSE(none.defined());
  CHECK(none.numel() == 0);
  CHECK(none.bytes() == 0);
  CHECK_FALSE(none.aliases(none));
  CHECK_FALSE(none.is_sole_owner());
}

TEST_CASE("a tensor of nothing is defined, and its views are too", "[core]") {
  testing::CpuStream cpu;
  const Tensor empty = Tensor::zeros({0, 5}, DType::kBF16, cpu.stream);
  CHECK(empty.defined());
  CHECK(empty.bytes() == 0);
  CHECK(empty.narrow(0, 0).defined());
  CHECK(empty.reshape({5, 0, 2}).numel() == 0);
  CHECK(empty.reinterpret(DType::kF64).numel() == 0);
  CHECK_THROWS_AS(empty.narrow(0, 1), InternalError);
}

TEST_CASE("a narrow view is refused wherever it would leave its tensor", "[core]") {
  testing::CpuStream cpu;
  const Tensor x = Tensor::zeros({10}, DType::kF32, cpu.stream);
  const int64_t most = std::numeric_limits<int64_t>::max();
  const std::vector<std::pair<int64_t, int64_t>> refused{
      {-1, 1}, {0, -1}, {0, 11}, {10, 1}, {11, 0}, {5, 6}, {most, 1}, {1, most}, {most, most}};
  for (const auto& [offset, numel] : refused) {
    CAPTURE(offset, numel);
    CHECK_THROWS_WITH(x.narrow(offset, numel), Catch::Contains("of a tensor of 10 elements"));
  }
  CHECK(x.narrow(10, 0).numel() == 0);
  CHECK(x.narrow(0, 10).aliases(x));
  CHECK_FALSE(x.narrow(1, 9).aliases(x));
}

TEST_CASE("views of views show the same bytes in another form", "[core]") {
  testing::CpuStream cpu;
  Tensor x = Tensor::zeros({4, 6}, DType::kF32, cpu.stream);
  for (int i = 0; i < 24; ++i) x.data<float>()[i] = static_cast<float>(i);
  const Tensor inner = x.narrow(6, 12).reshape({3, 4}).narrow(4, 4);
  CHECK(inner.data<float>()[0] == 10.0F);
  CHECK(inner.numel() == 4);
  Tensor words = inner.reinterpret(DType::kU8);
  CHECK(words.numel() == 16);
  CHECK(words.shape() == Shape{16});
  std::memset(words.raw(), 0, words.bytes());
  CHECK(x.data<float>()[9] == 9.0F);
  for (int i = 10; i < 14; ++i) CHECK(x.data<float>()[i] == 0.0F);
  CHECK(x.data<float>()[14] == 14.0F);
}

TEST_CASE("bytes that are no whole number of elements are not reinterpreted", "[core]") {
  testing::CpuStream cpu;
  const Tensor odd = Tensor::zeros({3}, DType::kF16, cpu.stream);
  CHECK_THROWS_WITH(odd.reinterpret(DType::kF32), Catch::Contains("reinterpret: 6 bytes as fp32"));
  CHECK(odd.reinterpret(DType::kBF16).numel() == 3);
  CHECK(odd.reinterpret(DType::kI8).numel() == 6);
  CHECK_THROWS_WITH(odd.reshape({2}), Catch::Contains("reshape: [3] to [2]"));
}

TEST_CASE("data of another type is refused in both words, 16-bit floats too", "[core]") {
  testing::CpuStream cpu;
  const Tensor half = Tensor::zeros({2}, DType::kF16, cpu.stream);
  CHECK_NOTHROW(half.data<F16>());
  CHECK_THROWS_WITH(half.data<BF16>(), Catch::Contains("data<bf16>() of a fp16 tensor"));
  CHECK_THROWS_WITH(half.data<float>(), Catch::Contains("data<fp32>() of a fp16 tensor"));
  const Tensor bytes = Tensor::zeros({2}, DType::kI8, cpu.stream);
  CHECK_THROWS_WITH(bytes.data<uint8_t>(), Catch::Contains("data<uint8>() of a int8 tensor"));
}

TEST_CASE("bytes are freed with the last handle, views included", "[core]") {
  HostMemory heap;
  MemoryAccount account;
  TrackingMemory tracking(heap, account);
  ThreadPool pool(1);
  Stream stream({.memory = &tracking, .pool = &pool});
  Tensor view;
  {
    const Tensor x = Tensor::empty({100}, DType::kF64, stream, MemoryTag::kOptimizer);
    CHECK(x.is_sole_owner());
    view = x.narrow(50, 10);
    CHECK_FALSE(x.is_sole_owner());
  }
  CHECK(view.is_sole_owner());
  CHECK(account.usage().bytes_now == 800);
  view = Tensor();
  CHECK(account.usage().bytes_now == 0);
}

TEST_CASE("borrowed bytes are kept alive by their owner, and never freed without one", "[core]") {
  std::vector<float> bytes{1, 2, 3};
  const Tensor borrowed = Tensor::borrow(bytes.data(), {3}, DType::kF32);
  CHECK_FALSE(borrowed.is_sole_owner());
  CHECK(borrowed.data<float>() == bytes.data());
  auto owner = std::make_shared<std::vector<float>>(5, 4.0F);
  const std::weak_ptr<std::vector<float>> watched = owner;
  Tensor owned = Tensor::borrow(owner->data(), {5}, DType::kF32, Device::cpu(), owner);
  owner.reset();
  CHECK_FALSE(watched.expired());
  CHECK(owned.data<float>()[4] == 4.0F);
  CHECK(owned.is_sole_owner());
  owned = Tensor();
  CHECK(watched.expired());
}

TEST_CASE("a tensor whose bytes 64 bits cannot count is refused before memory is asked", "[core]") {
  MetaMemory meta;
  Stream stream({.device = Device::meta(), .memory = &meta});
  const int64_t half = int64_t{1} << 31;
  CHECK_THROWS_WITH(Tensor::empty({half, half}, DType::kF64, stream),
                    Catch::Contains("[2147483648, 2147483648] overflows"));
  // What can be counted is planned as far as there are devices of that size.
  CHECK_THROWS_AS(Tensor::empty({half, half}, DType::kI8, stream), OutOfMemory);
  CHECK(Tensor::empty({half, 1 << 10}, DType::kI8, stream).bytes() == size_t{1} << 41);
}

TEST_CASE("meta tensors have addresses of their own, by which views are told apart", "[core]") {
  MetaMemory meta;
  Stream stream({.device = Device::meta(), .memory = &meta});
  const Tensor a = Tensor::zeros({8}, DType::kF32, stream);
  const Tensor b = Tensor::zeros({8}, DType::kF32, stream);
  CHECK_FALSE(a.aliases(b));
  CHECK(a.reshape({2, 4}).aliases(a));
  CHECK(a.address() != b.address());
  CHECK(a.narrow(2, 2).is_meta());
  CHECK_THROWS_WITH(a.narrow(2, 2).data<float>(), Catch::Contains("a meta tensor has no bytes"));
}

}  // namespace
}  // namespace ds
