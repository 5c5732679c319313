#include "comm/shm/process_world.h"

#include <cstring>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds::detail {
namespace {

// A payload's size, kept in front of it.
constexpr size_t kPayloadHeader = kMemoryAlignment;

class MemoryRegion final : public ShmRegion {
 public:
  MemoryRegion(Fd fd, size_t bytes) : fd_(std::move(fd)), mapping_(fd_, bytes, "group") {}
  std::byte* base() const override { return mapping_.base(); }
  int fd() const { return fd_.get(); }

 private:
  const Fd fd_;
  const ShmMapping mapping_;
};

}  // namespace

ProcessWorld::ProcessWorld(int rank, std::unique_ptr<ShmArena> arena,
                           const std::vector<Peer>& peers)
    : rank_(rank), arena_(std::move(arena)), peers_(peers.size()) {
  for (size_t r = 0; r < peers.size(); ++r) {
    peers_[r].peer = peers[r];
    if (static_cast<int>(r) == rank) {
      peers_[r].base.store(arena_->base(), std::memory_order_relaxed);
    } else {
      peers_[r].end.emplace(end_of_process(peers[r].process, describe(static_cast<int>(r))));
    }
  }
}

std::byte* ProcessWorld::resolve(int owner, uint64_t location, size_t bytes) {
  Known& known = nth(peers_, owner);
  const size_t limit = known.peer.arena_bytes;
  if (location > limit || bytes > limit - location) {
    throw CommError(fmt::format("{} located {} bytes at {} of an arena of {}", describe(owner),
                                bytes, location, limit));
  }
  std::byte* base = known.base.load(std::memory_order_acquire);
  if (base == nullptr) base = map_arena(known, owner);
  return base + location;
}

std::byte* ProcessWorld::map_arena(Known& known, int owner) {
  const std::lock_guard lock(map_mutex_);
  if (!known.mapping) {
    const Fd fd = open_peer_memory(known.peer.process, known.peer.arena_fd, known.peer.arena_bytes,
                                   describe(owner));
    known.mapping = std::make_unique<ShmMapping>(fd, known.peer.arena_bytes, describe(owner));
    known.base.store(known.mapping->base(), std::memory_order_release);
  }
  return known.mapping->base();
}

std::byte* ProcessWorld::make_payload(size_t bytes) {
  auto* const block =
      static_cast<std::byte*>(arena_->allocate(bytes + kPayloadHeader, MemoryTag::kScratch));
  std::memcpy(block, &bytes, sizeof(bytes));
  return block + kPayloadHeader;
}

uint64_t ProcessWorld::payload_location(const std::byte* payload) const {
  return static_cast<uint64_t>(payload - arena_->base());
}

void ProcessWorld::reclaim(std::byte* payload) noexcept {
  std::byte* const block = payload - kPayloadHeader;
  size_t bytes = 0;
  std::memcpy(&bytes, block, sizeof(bytes));
  arena_->deallocate(block, bytes + kPayloadHeader, MemoryTag::kScratch);
}

std::shared_ptr<ShmRegion> ProcessWorld::create_region(size_t bytes, uint64_t& ticket) {
  Fd fd = make_sealed_memory(bytes, "split");
  commit_pages(fd, 0, bytes, "split");
  auto region = std::make_shared<MemoryRegion>(std::move(fd), bytes);
  ticket = static_cast<uint64_t>(region->fd());
  return region;
}

std::shared_ptr<ShmRegion> ProcessWorld::open_region(int creator, uint64_t ticket, size_t bytes) {
  const Known& known = nth(peers_, creator);
  return std::make_shared<MemoryRegion>(
      open_peer_memory(known.peer.process, static_cast<int>(ticket), bytes, describe(creator)),
      bytes);
}

bool ProcessWorld::is_dead(int rank) { return rank != rank_ && nth(peers_, rank).end->has_come(); }

std::string ProcessWorld::describe(int rank) const {
  return fmt::format("rank {} (pid {})", rank, nth(peers_, rank).peer.process.pid);
}

}  // namespace ds::detail
