// Ranks that are processes of one host. Each owns an arena that its peers map when they first need
// it; each watches its peers' lives. Private to comm/.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/shm/arena.h"
#include "comm/shm/world.h"
#include "core/values/index.h"

namespace ds::detail {

class ProcessWorld final : public ShmWorld {
 public:
  struct Peer {
    ProcessId process;
    int arena_fd = -1;
    size_t arena_bytes = 0;
  };
  ProcessWorld(int rank, std::unique_ptr<ShmArena> arena, const std::vector<Peer>& peers);

  int size() const override { return narrow<int>(peers_.size()); }
  MemoryResource& memory() override { return *arena_; }
  std::optional<uint64_t> locate(const std::byte* data, size_t bytes) const override {
    return arena_->offset_of(data, bytes);
  }
  std::byte* resolve(int owner, uint64_t location, size_t bytes) override;
  std::byte* make_payload(size_t bytes) override;
  uint64_t payload_location(const std::byte* payload) const override;
  void discard(std::byte* /*payload*/) noexcept override {}
  void reclaim(std::byte* payload) noexcept override;
  bool payloads_outlive_sender() const override { return false; }
  std::shared_ptr<ShmRegion> create_region(size_t bytes, uint64_t& ticket) override;
  std::shared_ptr<ShmRegion> open_region(int creator, uint64_t ticket, size_t bytes) override;
  bool is_dead(int rank) override;
  std::string describe(int rank) const override;

 private:
  struct Known {
    Peer peer;
    std::optional<ProcessEnd> end;        // none for ourselves
    std::unique_ptr<ShmMapping> mapping;  // written once, under map_mutex_
    std::atomic<std::byte*> base{nullptr};
  };
  std::byte* map_arena(Known& known, int owner);

  const int rank_;
  const std::unique_ptr<ShmArena> arena_;
  std::mutex map_mutex_;  // guards the making of mappings
  std::vector<Known> peers_;
};

}  // namespace ds::detail
