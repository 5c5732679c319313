#include "core/memory/kept_memory.h"

#include <algorithm>

namespace ds {

KeptMemory::~KeptMemory() {
  for (const Block& block : blocks_) upstream_.deallocate(block.data, block.bytes, block.tag);
}

void* KeptMemory::allocate(size_t bytes, MemoryTag tag) {
  Block* best = nullptr;
  for (Block& block : blocks_) {
    if (!block.is_free || block.bytes < bytes) continue;
    if (best == nullptr || block.bytes < best->bytes) best = &block;
  }
  if (best == nullptr) {
    blocks_.reserve(blocks_.size() + 1);
    blocks_.push_back({.data = upstream_.allocate(bytes, tag), .bytes = bytes, .tag = tag});
    best = &blocks_.back();
  }
  best->is_free = false;
  return best->data;
}

void KeptMemory::deallocate(void* pointer, size_t /*bytes*/, MemoryTag /*tag*/) noexcept {
  const auto block = std::ranges::find(blocks_, pointer, &Block::data);
  if (block != blocks_.end()) block->is_free = true;
}

}  // namespace ds
