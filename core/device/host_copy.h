// HostCopy: elements of tensors for who reads or makes them on the host, wherever the tensors lie:
// files, initialisers, digests. What is on the host is handed on as it is; what is on a CUDA device
// passes through pinned memory in parts, of which one is copied while the host works on another. A
// meta tensor has no elements to hand on, and nobody is called for it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "core/device/tensor.h"

namespace ds {

// Confined to one thread.
class HostCopy {
 public:
  static constexpr size_t kPartBytes = size_t{16} << 20;
  // What it takes of pinned memory with parts of that size.
  static constexpr size_t pinned_bytes() { return 2 * kPartBytes; }

  // It takes pinned memory for two parts if the stream is CUDA's, else nothing. The stream has to
  // outlive it. `part_bytes`: a multiple of what an element has.
  explicit HostCopy(Stream& stream, size_t part_bytes = kPartBytes);
  ~HostCopy();                         // waits for the copies that are under way
  HostCopy(const HostCopy&) = delete;  // owns pinned memory
  HostCopy& operator=(const HostCopy&) = delete;

  // Calls take(first, part) with flat parts of the tensor, front to back: elements [first, first +
  // part.numel()) as they are after what the stream was given before. Waits for them.
  using Take = std::function<void(int64_t first, const Tensor& part)>;
  void down(const Tensor& from, const Take& take);
  // Calls make(first, part), which fills the part, and gives the stream the copies into the tensor;
  // does not wait for the last ones.
  using Make = std::function<void(int64_t first, Tensor& part)>;
  void up(const Tensor& to, const Make& make);

 private:
  struct Room {
    void* data = nullptr;
    Event last_use;  // of copies to and from it
  };
  class Parts;

  Stream& stream_;
  const size_t part_bytes_;
  std::unique_ptr<MemoryResource> pinned_;  // null: the stream's tensors are the host's
  std::array<Room, 2> rooms_;
};

}  // namespace ds
