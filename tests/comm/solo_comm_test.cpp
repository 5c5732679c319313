// The group of one rank, on the CPU and on a device.
#include "comm/solo_comm.h"

#include "tests/suites/communicator_suite.h"
#include "tests/suites/on_device_comm.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace ds::test {
namespace {

using testing::RankDevice;

TEST_CASE("a rank alone conforms", "[comm]") {
  HostMemory heap;
  for (const CommunicatorCase& suite_case : communicator_cases()) {
    DYNAMIC_SECTION(suite_case.name) {
      SoloComm comm(heap);
      CHECK_NOTHROW(suite_case.body(comm));
    }
  }
}

TEST_CASE("a rank alone conforms with tensors of a device", "[comm][device]") {
  if (testing::has_no_device()) return;
  for (const CommunicatorCase& suite_case : communicator_cases()) {
    DYNAMIC_SECTION(suite_case.name) {
      const auto device = std::make_shared<RankDevice>();
      OnDeviceComm comm(device, std::make_unique<SoloComm>(*device->memory));
      CHECK_NOTHROW(suite_case.body(comm));
    }
  }
}

TEST_CASE("a rank alone gets the bits of any group of one", "[comm]") {
  HostMemory heap;
  SoloComm comm(heap);
  run_ranks(1, [&](Communicator& threads) {
    CHECK(result_digest(comm, heap) == result_digest(threads, heap));
  });
}

TEST_CASE("a rank alone refuses calls after abort", "[comm]") {
  HostMemory heap;
  SoloComm comm(heap);
  const auto group = comm.split(3, 0);
  comm.abort();
  CHECK_THROWS_AS(comm.barrier(), CommError);
  CHECK_THROWS_WITH(comm.split(0, 0), Catch::Contains("split: rank 0 called abort()"));
  CHECK_NOTHROW(group->barrier());
}

}  // namespace
}  // namespace ds::test
