// (pure) Where the tensors of a part of swapped state lie in its buffer, in bytes: master, slots
// with their scales, gradient.
#pragma once

#include <cstddef>
#include <cstdint>

#include "zero/state/optimizer_state_store.h"

namespace ds {

class PartFrame {
 public:
  // The options outlive it.
  PartFrame(const StateOptions& options, int64_t numel);

  int64_t state_bytes() const { return state_bytes_; }
  int64_t grad_at() const;
  int64_t grad_bytes() const;
  int64_t bytes() const { return grad_at() + grad_bytes(); }

  Tensor grad(std::byte* buffer, Device device) const;
  // All but the gradient.
  Shard shard(std::byte* buffer, Device device) const;

 private:
  const StateOptions& options_;
  const int64_t numel_;
  int64_t state_bytes_ = 0;
};

}  // namespace ds
