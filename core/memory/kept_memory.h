// KeptMemory: a resource that gives nothing back before it ends, for those who go on using what was
// freed: a graph works where its work was recorded. What is freed is given to later allocations, as
// the work of a recording is done in the order in which it was recorded. Confined to one thread.
#pragma once

#include <algorithm>
#include <vector>

#include "core/memory/resource.h"

namespace ds {

class KeptMemory final : public MemoryResource {
 public:
  explicit KeptMemory(MemoryResource& upstream) : upstream_(upstream) {}
  ~KeptMemory() override {
    for (const Block& block : blocks_) upstream_.deallocate(block.data, block.bytes, block.tag);
  }
  KeptMemory(const KeptMemory&) = delete;  // owns what it allocated
  KeptMemory& operator=(const KeptMemory&) = delete;

  // The smallest free block that has room; a new one of upstream if none has.
  void* allocate(size_t bytes, MemoryTag tag) override {
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
  void deallocate(void* pointer, size_t /*bytes*/, MemoryTag /*tag*/) noexcept override {
    const auto block = std::ranges::find(blocks_, pointer, &Block::data);
    if (block != blocks_.end()) block->is_free = true;
  }

 private:
  struct Block {
    void* data;
    size_t bytes;
    MemoryTag tag;
    bool is_free = false;
  };
  MemoryResource& upstream_;
  std::vector<Block> blocks_;
};

}  // namespace ds
