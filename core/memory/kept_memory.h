// KeptMemory: a resource that gives nothing back before it ends, for those who go on using what was
// freed: a graph works where its work was recorded. Confined to one thread.
#pragma once

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

  void* allocate(size_t bytes, MemoryTag tag) override {
    blocks_.reserve(blocks_.size() + 1);
    blocks_.push_back({.data = upstream_.allocate(bytes, tag), .bytes = bytes, .tag = tag});
    return blocks_.back().data;
  }
  void deallocate(void*, size_t, MemoryTag) noexcept override {}

 private:
  struct Block {
    void* data;
    size_t bytes;
    MemoryTag tag;
  };
  MemoryResource& upstream_;
  std::vector<Block> blocks_;
};

}  // namespace ds
