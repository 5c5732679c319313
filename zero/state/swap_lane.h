// SwapLane: the way of OffloadedWeights between buffers of the host and the swap file. A run moves
// bytes by a Swapper; the dry run has a twin that tells the clock of the disk what would pass.
// Confined to one thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "core/device/stream.h"
#include "offload/staging_pool.h"
#include "offload/swapper.h"

namespace ds {

class SwapLane {
 public:
  // A transfer under way; waited for once.
  struct Passing {
    SwapTicket ticket{};
    Event passed{};  // on the clock of the disk
  };
  virtual ~SwapLane() = default;

  // How buffers of the host are pinned, where the device does not do it and this is asked for.
  virtual Pinning pinning(Pinning asked) const = 0;
  // Makes a file of so many bytes. Unsupported where the rank has none; throws what Swapper() does.
  virtual void open(int64_t bytes) = 0;
  // Whether all keys are there from the beginning: a dry run is of any later step.
  virtual bool begins_filled() const = 0;

  // Reads into the buffer, or writes it when the event is reached, after what the stream has been
  // given.
  virtual Passing get(std::string_view key, std::span<std::byte> into, Stream& by) = 0;
  virtual Passing put(std::string_view key, std::span<const std::byte> from, const Event& made,
                      Stream& by) = 0;
  // Waits for the transfer, and so does the stream. The buffer of one that timed out is abandoned.
  virtual void await(const Passing& passing, StagingPool::Lease& buffer, Stream& by) = 0;
};

// That of a run.
using SwapFileMaker = std::function<std::unique_ptr<Swapper>(int64_t bytes)>;
std::unique_ptr<SwapLane> make_swap_lane(const SwapFileMaker& open);
// Its twin. disk: whose clock is that of the swap file; null: nobody asks what it takes.
std::unique_ptr<SwapLane> make_meta_swap_lane(Stream* disk);

}  // namespace ds
