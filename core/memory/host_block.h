// HostBlock: bytes of the host that copies to and from a device begin and end in. Pinned memory,
// where there is some, so that such a copy does not make the host wait; else the heap.
#pragma once

#include <cstddef>

#include "core/memory/resource.h"

namespace ds {

class HostBlock {
 public:
  // `pinned` null: the heap. It must outlive the block. Contents undefined.
  HostBlock(size_t bytes, MemoryResource* pinned, MemoryTag tag = MemoryTag::kScratch)
      : bytes_(bytes),
        memory_(pinned != nullptr ? *pinned : heap_),
        tag_(tag),
        data_(static_cast<std::byte*>(memory_.allocate(bytes, tag))) {}
  ~HostBlock() { memory_.deallocate(data_, bytes_, tag_); }
  HostBlock(const HostBlock&) = delete;  // owns its bytes
  HostBlock& operator=(const HostBlock&) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  HostMemory heap_;
  const size_t bytes_;
  MemoryResource& memory_;
  const MemoryTag tag_;
  std::byte* const data_;
};

}  // namespace ds
