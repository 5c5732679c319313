// KeptMemory: a resource that gives nothing back before it ends, for those who go on using what was
// freed: a graph works where its work was recorded. What is freed is given to later allocations, as
// the work of a recording is done in the order in which it was recorded; blocks stay as large as
// they were. Confined to one thread.
#pragma once

#include <vector>

#include "core/memory/resource.h"

namespace ds {

class KeptMemory final : public MemoryResource {
 public:
  explicit KeptMemory(MemoryResource& upstream) : upstream_(upstream) {}
  ~KeptMemory() override;
  KeptMemory(const KeptMemory&) = delete;  // owns what it allocated
  KeptMemory& operator=(const KeptMemory&) = delete;

  // The smallest free block that has room; a new one of upstream if none has.
  void* allocate(size_t bytes, MemoryTag tag) override;
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override;

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
