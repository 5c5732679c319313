// Decorators over a MemoryResource: books per tag with a hard limit, reuse of freed blocks.
// Stack them where the stream is made. All are thread-safe, so that several streams of a rank may
// share one.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "core/memory/resource.h"

namespace ds {

struct MemoryUsage {
  size_t bytes_now = 0;
  size_t bytes_peak = 0;  // highest total ever
  std::array<size_t, kMemoryTags> tag_bytes_now{};
  std::array<size_t, kMemoryTags> tag_bytes_at_peak{};  // breakdown at the moment of bytes_peak
};

using TierUsage = std::array<MemoryUsage, kTiers>;

inline constexpr size_t kNoLimit = SIZE_MAX;  // bytes

// What one rank may take.
struct MemoryLimits {
  size_t device = kNoLimit;
  size_t host = kNoLimit;
  bool operator==(const MemoryLimits&) const = default;
};

// The books of one rank on one tier, and what it may take there: several TrackingMemory adaptors
// may write into one account, so that peak and limit are those of their sum.
class MemoryAccount {
 public:
  // `name` is what the message of a refusal calls it.
  explicit MemoryAccount(size_t limit = kNoLimit, std::string name = "memory")
      : limit_(limit), name_(std::move(name)) {}

  // Throws OutOfMemory, naming size, tag and what is left, once more than the limit would be out.
  void add(size_t bytes, MemoryTag tag);
  void remove(size_t bytes, MemoryTag tag) noexcept;
  MemoryUsage usage() const;

 private:
  const size_t limit_;
  const std::string name_;
  mutable std::mutex usage_mutex_;
  MemoryUsage usage_;
};

class TrackingMemory final : public MemoryResource {
 public:
  TrackingMemory(MemoryResource& upstream, MemoryAccount& account)
      : upstream_(upstream), account_(account) {}
  void* allocate(size_t bytes, MemoryTag tag) override;
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override;

 private:
  MemoryResource& upstream_;
  MemoryAccount& account_;
};

// Plans one block for what the upstream gives: it goes through all of it, and says how large a
// block would have had room. For a dry run whose host writes to the memory that it plans.
class PlanningMemory final : public MemoryResource {
 public:
  explicit PlanningMemory(MemoryResource& upstream) : upstream_(upstream) {}
  void* allocate(size_t bytes, MemoryTag tag) override;
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override;
  size_t block_bytes() const;

 private:
  MemoryResource& upstream_;
  mutable std::mutex planned_mutex_;
  MetaMemory planned_;
  std::map<void*, void*> places_;  // in planned_
};

// Keeps freed blocks for the next request of equal size, so that buckets which come and go every
// step do not cost fresh, zeroed pages each time. What it holds, handed out or kept, never exceeds
// the highest number of bytes that were handed out at once: a plan's peak stays the process's peak.
class RecyclingMemory final : public MemoryResource {
 public:
  explicit RecyclingMemory(MemoryResource& upstream) : upstream_(upstream) {}
  RecyclingMemory(const RecyclingMemory&) = delete;  // owns what it keeps
  RecyclingMemory& operator=(const RecyclingMemory&) = delete;
  ~RecyclingMemory() override;
  void* allocate(size_t bytes, MemoryTag tag) override;
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override;

 private:
  void drop_one();

  MemoryResource& upstream_;
  std::mutex blocks_mutex_;
  std::multimap<size_t, void*> kept_;  // by size in bytes
  size_t bytes_out_ = 0;
  size_t bytes_kept_ = 0;
  size_t bytes_out_peak_ = 0;
};

}  // namespace ds
