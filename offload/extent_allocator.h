// ExtentAllocator (pure): which parts of a file of planned size are in use. It is the slab of
// core/memory with the bytes of a file in place of memory: first fit, and what is free side by side
// is one run. The file never grows: what has no room is refused, with what there is instead.
#pragma once

#include <cstdint>

#include "core/memory/slab.h"

namespace ds {

struct Extent {
  int64_t offset = 0;  // bytes from the start of what is divided; a multiple of the alignment
  int64_t bytes = 0;   // as asked for
  bool operator==(const Extent&) const = default;
};

// Confined to one thread at a time.
class ExtentAllocator {
 public:
  // It has the bytes [0, bytes), less what is left over of the last unit of `alignment`.
  ExtentAllocator(int64_t bytes, int64_t alignment);

  // OutOfMemory, saying what was asked for, what is free and what the longest free run is.
  Extent take(int64_t bytes);
  // What take() returned, once; everything else is InternalError.
  void give_back(const Extent& extent);

  int64_t bytes() const;
  int64_t bytes_free() const;
  int64_t longest_run() const;

 private:
  int64_t alignment_;
  Slab slab_;
};

}  // namespace ds
