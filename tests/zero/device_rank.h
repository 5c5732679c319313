// What a rank computes with on the device that the program was told to test: a stream there and a
// group for its tensors, which on a CPU is the group that was given, and elsewhere goes through the
// host's memory over it, so that ranks share the device.
#pragma once

#include <optional>

#include "comm/staged_comm.h"
#include "core/values/index.h"
#include "kernels/matmul/matmul.h"
#include "tests/support/test_stream.h"

namespace ds::testing {

// Confined to the thread that made it.
class DeviceRank {
 public:
  explicit DeviceRank(Communicator& world, int threads = 1)
      : own_(threads, device_bytes()), comm_(&world) {
    if (!is_on_device()) return;
    comm_ = &staged_.emplace(
        world, StagedOptions{
                   .memory = own_.memory.get(), .pool = &own_.pool, .pinned_bytes = kPinnedBytes});
  }

  Communicator& comm() { return *comm_; }
  Stream& stream() { return own_.stream; }

 private:
  static size_t device_bytes() {
    return (size_t{8} << 20) + to_size(kernels::matmul_scratch_bytes(test_device().device));
  }
  static constexpr size_t kPinnedBytes = size_t{64} << 10;

  TestStream own_;
  std::optional<StagedComm> staged_;
  Communicator* comm_;
};

}  // namespace ds::testing
