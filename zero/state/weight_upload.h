// WeightUpload: the way of updated weights from the host back to where they are used. On a CPU the
// update writes them there itself, and so it does where they are kept beside the device; towards a
// CUDA device they pass through two places of the host, of which one is copied while the other is
// written.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/device/staging_ring.h"
#include "core/device/tensor.h"
#include "core/values/index.h"
#include "zero/state/state_slice.h"

namespace ds {

// Confined to one thread.
class WeightUpload {
 public:
  // Sends the weights of parts of these slices. `pinned` is as StagingRing has it.
  WeightUpload(std::span<const StatePart> parts, std::span<const StateSlice> slices,
               Stream& compute, MemoryResource* pinned);

  // Returns where that stream of the host is to write the weights of the part.
  Tensor place(const StatePart& part, Stream& host);
  // What that stream has written there goes out, in the order of the computing stream.
  void send(const StatePart& part, Stream& host);

 private:
  struct Target {
    Tensor weights;
    OffloadedSlice elsewhere;
  };
  const Target& of(const StatePart& part) const { return nth(targets_, part.bucket); }
  Tensor there(const StatePart& part) const {
    return of(part).weights.narrow(part.begin, part.numel);
  }

  std::vector<Target> targets_;  // by bucket
  Stream& compute_;
  std::optional<StagingRing> ring_;  // nothing where the place is that of the weights
  const std::byte* written_ = nullptr;
};

}  // namespace ds
