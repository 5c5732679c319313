// Elements for the host, whatever the device: parts in order, rooms that are not used too early.
#include "core/device/host_copy.h"

#include <numeric>

#include "core/status/error.h"
#include "tests/suites/rank_device.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"

namespace ds {
namespace {

using testing::CpuStream;
using testing::has_no_device;
using testing::RankDevice;

std::vector<int32_t> counting(int64_t numel, int32_t first) {
  std::vector<int32_t> values(to_size(numel));
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST_CASE("a tensor of the host is handed on as it is", "[core]") {
  CpuStream cpu;
  HostCopy through(cpu.stream, 8);
  const Tensor t = Tensor::zeros({2, 5}, DType::kI32, cpu.stream);
  int calls = 0;
  through.up(t, [&](int64_t first, Tensor& part) {
    CHECK(first == 0);
    CHECK(part.shape() == Shape{10});
    CHECK(part.aliases(t));
    part.data<int32_t>()[9] = 7;
    ++calls;
  });
  through.down(t, [&](int64_t first, const Tensor& part) {
    CHECK(first == 0);
    CHECK(part.data<int32_t>()[9] == 7);
    ++calls;
  });
  CHECK(calls == 2);
  CHECK_THROWS_WITH(HostCopy(cpu.stream, 12), Catch::Contains("parts of 12 bytes"));
  CHECK_THROWS_WITH(HostCopy(cpu.stream, 0), Catch::Contains("parts of 0 bytes"));
}

TEST_CASE("a tensor of a device passes in parts of bounded size", "[core][device]") {
  if (has_no_device()) return;
  constexpr int64_t kOfPart = 8;
  RankDevice device;
  HostCopy through(device.stream, kOfPart * sizeof(int32_t));
  for (const int64_t numel : {0, 1, 7, 8, 9, 16, 17, 1000}) {
    CAPTURE(numel);
    const Tensor t = Tensor::empty({numel}, DType::kI32, device.stream);
    int64_t next = 0;
    through.up(t, [&](int64_t first, Tensor& part) {
      CHECK(first == next);
      CHECK(part.numel() == std::min(kOfPart, numel - first));
      std::iota(part.data<int32_t>(), part.data<int32_t>() + part.numel(), int32_t(first));
      next += part.numel();
    });
    CHECK(next == numel);
    CHECK(device.down<int32_t>(t) == counting(numel, 0));
    std::vector<int32_t> read;
    through.down(t, [&](int64_t first, const Tensor& part) {
      CHECK(first == std::ssize(read));
      read.insert(read.end(), part.data<int32_t>(), part.data<int32_t>() + part.numel());
    });
    CHECK(read == counting(numel, 0));
  }
}

TEST_CASE("what the host gets is what the stream had been given before", "[core][device]") {
  if (has_no_device()) return;
  RankDevice device;
  const Tensor t = device.up(counting(100, 5));
  {
    HostCopy through(device.stream, 64);
    device.stream.fill_bytes(t.narrow(0, 50).address(), 0, 50 * sizeof(int32_t));
    through.up(t.narrow(10, 20), [](int64_t /*first*/, Tensor& part) {
      std::fill_n(part.data<int32_t>(), part.numel(), -1);
    });
    device.stream.fill_bytes(t.narrow(29, 1).address(), 0, sizeof(int32_t));
    through.down(t, [&](int64_t first, const Tensor& part) {
      for (int64_t i = first; i < first + part.numel(); ++i) {
        const int32_t expected = i >= 50 ? int32_t(i + 5) : i >= 10 && i < 29 ? -1 : 0;
        CHECK(part.data<int32_t>()[i - first] == expected);
      }
    });
    through.up(t, [](int64_t /*first*/, Tensor& part) {
      std::fill_n(part.data<int32_t>(), part.numel(), 3);
    });
  }  // which waits for the last copies
  CHECK(device.down<int32_t>(t) == std::vector<int32_t>(100, 3));
}

TEST_CASE("a tensor of another device than the stream's is refused", "[core][device]") {
  if (has_no_device()) return;
  CpuStream cpu;
  HostCopy through(cpu.stream);
  RankDevice device;
  const Tensor t = device.up(counting(1, 0));
  CHECK_THROWS_WITH(
      through.down(t, [](int64_t, const Tensor&) {}),
      Catch::Contains("a tensor of cuda:") && Catch::Contains("the stream is of cpu"));
}

TEST_CASE("nobody is called for a tensor without bytes", "[core]") {
  MetaMemory memory;
  Stream meta({.device = Device::meta(), .memory = &memory});
  HostCopy through(meta);
  const Tensor t = Tensor::empty({8}, DType::kF32, meta);
  int calls = 0;
  through.down(t, [&](int64_t, const Tensor&) { ++calls; });
  through.up(t, [&](int64_t, Tensor&) { ++calls; });
  CHECK(calls == 0);
}

}  // namespace
}  // namespace ds
