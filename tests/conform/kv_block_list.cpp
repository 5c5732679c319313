// The free list of key/value cache blocks.
#include "tests/conform/kv_block_list.h"

#include "core/status/error.h"

namespace ds {

KvBlockList::KvBlockList(int64_t blocks) {
  if (blocks < 1) {
    throw ConfigError(fmt::format("kv cache: {} blocks, expected at least 1", blocks));
  }
  for (int64_t block = blocks; block-- > 0;) free_.push_back(block);
  used_.assign(static_cast<size_t>(blocks), 0);
}

std::vector<int64_t> KvBlockList::allocate(int64_t count) {
  DS_CHECK(count >= 0, "kv cache: {} blocks asked for", count);
  if (count > free_blocks()) {
    throw OutOfMemory(
        fmt::format("kv cache: {} blocks asked for, {} are free", count, free_blocks()));
  }
  std::vector<int64_t> blocks(free_.rbegin(), free_.rbegin() + count);
  free_.resize(free_.size() - static_cast<size_t>(count));
  for (const int64_t block : blocks) used_[static_cast<size_t>(block)] = 1;
  return blocks;
}

void KvBlockList::free(std::span<const int64_t> blocks) {
  std::vector<uint8_t> left = used_;
  for (const int64_t block : blocks) {
    DS_CHECK(block >= 0 && block < static_cast<int64_t>(used_.size()),
             "kv cache: block {} freed, there are {}", block, used_.size());
    DS_CHECK(left[static_cast<size_t>(block)] != 0, "kv cache: block {} is free already", block);
    left[static_cast<size_t>(block)] = 0;
  }
  used_ = std::move(left);
  free_.insert(free_.end(), blocks.begin(), blocks.end());
}

}  // namespace ds
