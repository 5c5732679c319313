// The free list of key/value cache blocks (pure): text generation takes blocks for growing
// sequences and gives them back. Last freed is first reused. Confined to its owner's thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ds {

class KvBlockList {
 public:
  explicit KvBlockList(int64_t blocks);  // ConfigError below 1; all are free, 0 first

  // The numbers of `count` blocks. Throws OutOfMemory when fewer are free; nothing changes then.
  std::vector<int64_t> allocate(int64_t count);
  // Gives blocks back. DS_CHECKs that every one exists, is in use and is named once; nothing
  // changes when one is not.
  void free(std::span<const int64_t> blocks);

  int64_t free_blocks() const { return static_cast<int64_t>(free_.size()); }

 private:
  std::vector<int64_t> free_;  // the next one to hand out is last
  std::vector<uint8_t> used_;
};

}  // namespace ds
