// ShmWorld: what the ranks of one launch can see of each other's memory and life, whatever groups
// they form. One implementation for ranks that are threads, one for ranks that are processes.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/memory/resource.h"

namespace ds::detail {

// Bytes shared by the ranks of one group, laid out by ShmLayout; unmapped by the destructor.
class ShmRegion {
 public:
  virtual ~ShmRegion() = default;
  virtual std::byte* base() const = 0;
};

class ShmWorld {
 public:
  virtual ~ShmWorld() = default;

  virtual int size() const = 0;
  virtual MemoryResource& memory() = 0;  // of this rank; what peers can read directly

  // A number by which peers find [data, data + bytes), or nothing when they cannot see it.
  virtual std::optional<uint64_t> locate(const std::byte* data, size_t bytes) const = 0;
  // The bytes that world rank `owner` located. Bounds are checked on each use. Throws CommError.
  virtual std::byte* resolve(int owner, uint64_t location, size_t bytes) = 0;

  // Memory that outlives its sender's interest in it: payloads of sends. The receiver disposes of
  // it (discard), or, where it lies in the sender's memory, the sender once it was received
  // (reclaim).
  virtual std::byte* make_payload(size_t bytes) = 0;
  virtual uint64_t payload_location(const std::byte* payload) const = 0;
  virtual void discard(std::byte* payload) noexcept = 0;
  virtual void reclaim(std::byte* payload) noexcept = 0;
  virtual bool payloads_outlive_sender() const = 0;

  // A zeroed region for a new group; `ticket` lets a peer open it while the creator still holds it.
  // Throws CommError when it cannot be made or opened, or has not the size expected.
  virtual std::shared_ptr<ShmRegion> create_region(size_t bytes, uint64_t& ticket) = 0;
  virtual std::shared_ptr<ShmRegion> open_region(int creator, uint64_t ticket, size_t bytes) = 0;

  // True when the process of that world rank has ended. Costs a system call.
  virtual bool is_dead(int rank) = 0;
  virtual std::string describe(int rank) const = 0;  // "rank 3 (pid 4711)"
};

}  // namespace ds::detail
