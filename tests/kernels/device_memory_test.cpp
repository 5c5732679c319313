// Memory of the tested device, and pinned memory: one block each, of which parts are handed out.
// The CPU has neither.
#include "core/cuda/memory.h"
#include "core/status/error.h"
#include "tests/suites/memory_suite.h"
#include "tests/support/test_device.h"

namespace ds {
namespace {

using testing::Contents;
using testing::MemorySuite;

Device device() { return testing::test_device().device; }
bool has_none() { return device() == Device::cpu(); }

TEST_CASE("memory of a device and pinned memory keep blocks apart and aligned", "[device]") {
  if (has_none()) return;
  const auto memory = make_device_memory(device(), size_t{100} << 20);
  const auto pinned = make_pinned_memory(size_t{100} << 20);
  for (const uint64_t seed : {1, 2, 3}) {
    MemorySuite(*memory, Contents::kAddressesOnly).run(seed);
    MemorySuite(*pinned, Contents::kBytes).run(seed);
  }
}

TEST_CASE("a device that has less memory than the plan wants says so at once", "[device]") {
  if (has_none()) return;
  constexpr size_t kTooMuch = size_t{1} << 46;
  CHECK_THROWS_AS(make_device_memory(device(), kTooMuch), OutOfMemory);
  CHECK_THROWS_WITH(make_device_memory(device(), kTooMuch),
                    Catch::Contains("memory of cuda:") &&
                        Catch::Contains("70368744177664 bytes are wanted in one block") &&
                        Catch::Contains("bytes are free") && Catch::Contains("micro-batch"));
  CHECK_THROWS_AS(make_pinned_memory(kTooMuch), OutOfMemory);
  CHECK_NOTHROW(make_device_memory(device(), 1 << 20));
}

void refuses_what_lies_apart(MemoryResource& memory, const std::string& name) {
  std::vector<void*> parts;
  for (int i = 0; i < 4; ++i) parts.push_back(memory.allocate(1000, MemoryTag::kScratch));
  CHECK_THROWS_AS(memory.allocate(1, MemoryTag::kScratch), OutOfMemory);
  for (const size_t i : {0, 2}) memory.deallocate(parts[i], 1000, MemoryTag::kScratch);
  CHECK_THROWS_WITH(memory.allocate(1025, MemoryTag::kActivations),
                    Catch::Contains(name) &&
                        Catch::Contains("1025 bytes for activations are wanted") &&
                        Catch::Contains("2048 of 4096 bytes are free, in 2 runs of which the "
                                        "longest has 1024"));
  for (const size_t i : {1, 3}) memory.deallocate(parts[i], 1000, MemoryTag::kScratch);
  void* const whole = memory.allocate(4096, MemoryTag::kScratch);
  memory.deallocate(whole, 4096, MemoryTag::kScratch);
}

TEST_CASE("what a slab cannot hand out is told with its longest run", "[device]") {
  if (has_none()) return;
  refuses_what_lies_apart(*make_device_memory(device(), 4096 - 17), "memory of cuda:");
  refuses_what_lies_apart(*make_pinned_memory(4096 - 17), "pinned memory");
}

TEST_CASE("what one resource has of a device another cannot have, until it is gone", "[device]") {
  if (has_none()) return;
  // The most that there is, by powers of two: it cannot be there twice.
  size_t most = size_t{1} << 40;
  std::unique_ptr<MemoryResource> first;
  while (first == nullptr) {
    try {
      first = make_device_memory(device(), most);
    } catch (const OutOfMemory&) {
      most /= 2;
    }
  }
  CHECK_THROWS_AS(make_device_memory(device(), most), OutOfMemory);
  first = nullptr;
  CHECK_NOTHROW(make_device_memory(device(), most));
}

}  // namespace
}  // namespace ds
