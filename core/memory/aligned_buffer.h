// AlignedBuffer: memory that transfers past the page cache begin and end in. Large buffers begin on
// a huge page and lie on such where the system has them: a disk takes a request of a few long
// pieces more than twice as fast as one of hundreds of 4 KiB pages, which fill its queue.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace ds {

// Movable; the bytes stay where they are.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;  // of no bytes
  // Begins at a multiple of kUncachedAlignment (core/files/file.h) at least; contents undefined.
  // Throws OutOfMemory.
  explicit AlignedBuffer(size_t bytes);
  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept { swap(other); }
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  AlignedBuffer(const AlignedBuffer&) = delete;  // owns its bytes
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  std::byte* data() const { return bytes_.data(); }

  // Keeps all of it in memory (mlock) for as long as it lives: 0, or the errno of the refusal.
  [[nodiscard]] int lock() noexcept;

 private:
  void swap(AlignedBuffer& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(is_locked_, other.is_locked_);
  }

  std::span<std::byte> bytes_;
  bool is_locked_ = false;
};

}  // namespace ds
