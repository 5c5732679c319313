// Parts of a rank's optimizer state while they are worked on.
#pragma once

#include <cstdint>
#include <functional>

#include "core/device/stream.h"
#include "optim/optimizer.h"
#include "zero/layout/state_parts.h"

namespace ds {

enum class PartAccess : uint8_t {
  kRead,    // state, which stays as it is
  kChange,  // state
  kUpdate,  // state, and the gradient that was stored last
  kSums,    // likewise, but masters and weights stay as they are
  kFill,    // state of an optimizer that has made no step; masters are undefined
};

constexpr bool takes_gradients(PartAccess access) {
  return access == PartAccess::kUpdate || access == PartAccess::kSums;
}
constexpr bool makes_weights(PartAccess access) {
  return access != PartAccess::kRead && access != PartAccess::kSums;
}

// A part while it is visited.
struct OpenPart {
  const StatePart& part;
  // grad: with kUpdate and kSums alone. copy: the place for the weights in their own dtype;
  // undefined where the master is the weight, and where they stay as they are.
  Shard& shard;
  Stream& stream;  // who works on it
  // With kUpdate: all that it asks for but the copy has been done ahead. Of the shard there may be
  // the copy and the master alone, and that as the weights have it.
  bool is_ahead = false;
};
using PartWork = std::function<void(OpenPart&)>;

}  // namespace ds
