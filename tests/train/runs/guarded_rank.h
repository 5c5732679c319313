// What one rank of a test computes with: either the product's workspace, or memory that is closed
// to the host while a step runs, as a GPU's is always.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <type_traits>

#include "comm/contract/communicator.h"
#include "tests/support/test_device.h"
#include "train/workspace.h"

namespace ds::testing {

enum class HostAccess : uint8_t {
  kAlways,
  kBetweenSteps,  // during a step only kernels, copies and collectives have it
  kNever,         // the memory is that of a device
};

class TestRank {
 public:
  virtual ~TestRank() = default;
  virtual RankResources resources() = 0;
  virtual TierUsage tiers() const = 0;
  // What a step does, or what else works where the host has no access; returns what it returns.
  template <class Step>
  auto run(const Step& step) {
    using Result = std::invoke_result_t<Step>;
    if constexpr (std::is_void_v<Result>) {
      run_closed(step);
    } else {
      std::optional<Result> result;
      run_closed([&] { result.emplace(step()); });
      return std::move(*result);
    }
  }

 private:
  virtual void run_closed(const std::function<void()>& body) { body(); }
};

enum class Devices : uint8_t {
  kShared,  // of the device that the tests were told to run on, through memory of the host
  kOwn      // counted from that one, over groups that can be recorded
};

// A rank to which the host always has access, along data.
std::unique_ptr<TestRank> plain_rank(Communicator& comm);

// Without sizes all ranks lie along data.
void with_rank(Communicator& comm, HostAccess access, const std::function<void(TestRank&)>& body,
               Devices devices = Devices::kShared,
               const std::optional<MeshSizes>& mesh = std::nullopt);

}  // namespace ds::testing
