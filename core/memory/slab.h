// Slab (pure): which parts of one block of memory, or of a file, are handed out. It knows offsets
// and no pointers: whose bytes they are, and from when on what was given back may be used again, is
// for the owner of the block to say (core/cuda/slab_memory.h).
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace ds {

// Whatever is handed out begins at a multiple of so many bytes, as what cudaMalloc returns does; a
// slab of something else may have an alignment of its own.
inline constexpr size_t kSlabAlignment = 256;
// The bytes of a slab that has room for a part of so many.
constexpr size_t slab_bytes(size_t bytes) {
  return (bytes + kSlabAlignment - 1) / kSlabAlignment * kSlabAlignment;
}

class Slab {
 public:
  explicit Slab(size_t bytes, size_t alignment = kSlabAlignment)
      : alignment_(alignment), bytes_(bytes / alignment * alignment) {
    bytes_free_ = bytes_;
    if (bytes_ > 0) free_.emplace(0, bytes_);
  }

  // Takes the first free run that has room for `bytes` and returns where it begins; nothing if none
  // has. First fit leaves the far end of the slab in one piece, for what is large and comes late.
  std::optional<size_t> take(size_t bytes) {
    if (bytes > bytes_) return std::nullopt;
    const size_t wanted = rounded(bytes);
    const auto run = std::ranges::find_if(free_, [&](const auto& r) { return r.second >= wanted; });
    if (run == free_.end()) return std::nullopt;
    const size_t offset = run->first;
    taken_.emplace(offset, bytes);
    auto node = free_.extract(run);
    if (node.mapped() > wanted) {
      node.key() += wanted;
      node.mapped() -= wanted;
      free_.insert(std::move(node));
    }
    bytes_free_ -= wanted;
    return offset;
  }

  // An offset that take() returned. What is free beside it becomes one run with it.
  void give_back(size_t offset) noexcept {
    auto node = taken_.extract(offset);
    assert(!node.empty());
    size_t bytes = rounded(node.mapped());
    bytes_free_ += bytes;
    auto next = free_.lower_bound(offset);
    if (next != free_.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += bytes;
        return;
      }
    }
    node.mapped() = bytes;
    free_.insert(next, std::move(node));  // the node that there was: nothing is allocated
  }

  size_t bytes() const { return bytes_; }
  size_t bytes_free() const { return bytes_free_; }
  size_t longest_run() const {
    size_t longest = 0;
    for (const auto& [offset, bytes] : free_) longest = std::max(longest, bytes);
    return longest;
  }
  size_t runs() const { return free_.size(); }
  // What is handed out: from where, and how many bytes were asked for.
  const std::map<size_t, size_t>& taken() const { return taken_; }

 private:
  // Nothing has a place of its own, too.
  size_t rounded(size_t bytes) const {
    return (std::max<size_t>(bytes, 1) + alignment_ - 1) / alignment_ * alignment_;
  }

  size_t alignment_;
  size_t bytes_;
  size_t bytes_free_ = 0;
  std::map<size_t, size_t> free_;   // from where, how many bytes; never two side by side
  std::map<size_t, size_t> taken_;  // from where, how many bytes were asked for
};

}  // namespace ds
