// Ranks that are threads: one heap, so every address is visible and nobody dies alone.
#include <sys/mman.h>

#include <map>
#include <mutex>

#include "comm/shm/group.h"
#include "core/memory/adaptors.h"

namespace ds {
namespace {

class AnonymousRegion final : public detail::ShmRegion {
 public:
  explicit AnonymousRegion(size_t bytes) : bytes_(bytes) {
    // Fresh zero pages that cost memory only where touched; shared, so that futexes are keyed
    // alike.
    base_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) {
      throw OutOfMemory(
          fmt::format("communicator: {} bytes for a group of threads refused", bytes));
    }
  }
  ~AnonymousRegion() override { munmap(base_, bytes_); }
  AnonymousRegion(const AnonymousRegion&) = delete;  // owns a mapping
  AnonymousRegion& operator=(const AnonymousRegion&) = delete;
  std::byte* base() const override { return static_cast<std::byte*>(base_); }

 private:
  const size_t bytes_;
  void* base_;
};

class ThreadWorld final : public detail::ShmWorld {
 public:
  explicit ThreadWorld(int size) : size_(size) {}

  int size() const override { return size_; }
  MemoryResource& memory() override { return memory_; }
  std::optional<uint64_t> locate(const std::byte* data, size_t /*bytes*/) const override {
    return reinterpret_cast<uint64_t>(data);
  }
  std::byte* resolve(int /*owner*/, uint64_t location, size_t /*bytes*/) override {
    return reinterpret_cast<std::byte*>(location);  // NOLINT(performance-no-int-to-ptr)
  }

  std::byte* make_payload(size_t bytes) override {
    auto payload = std::make_unique<std::byte[]>(bytes);
    std::byte* const data = payload.get();
    const std::lock_guard lock(payloads_mutex_);
    payloads_.emplace(data, std::move(payload));
    return data;
  }
  uint64_t payload_location(const std::byte* payload) const override {
    return reinterpret_cast<uint64_t>(payload);
  }
  void discard(std::byte* payload) noexcept override {
    const std::lock_guard lock(payloads_mutex_);
    payloads_.erase(payload);
  }
  void reclaim(std::byte* /*payload*/) noexcept override {}
  bool payloads_outlive_sender() const override { return true; }

  std::shared_ptr<detail::ShmRegion> create_region(size_t bytes, uint64_t& ticket) override {
    auto region = std::make_shared<AnonymousRegion>(bytes);
    const std::lock_guard lock(payloads_mutex_);
    ticket = ++last_ticket_;
    regions_[ticket] = region;
    return region;
  }
  std::shared_ptr<detail::ShmRegion> open_region(int creator, uint64_t ticket,
                                                 size_t /*bytes*/) override {
    const std::lock_guard lock(payloads_mutex_);
    auto region = regions_[ticket].lock();
    if (!region) throw CommError(fmt::format("split: rank {} gave up the new group", creator));
    return region;
  }

  bool is_dead(int /*rank*/) override { return false; }
  std::string describe(int rank) const override { return fmt::format("rank {}", rank); }

 private:
  const int size_;
  HostMemory heap_;
  RecyclingMemory memory_{heap_};
  std::mutex payloads_mutex_;  // guards everything below
  std::map<std::byte*, std::unique_ptr<std::byte[]>> payloads_;
  std::map<uint64_t, std::weak_ptr<detail::ShmRegion>> regions_;
  uint64_t last_ticket_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_group(int size, const ShmOptions& options) {
  DS_CHECK(size > 0, "make_thread_group: {} ranks, expected at least 1", size);
  const auto world = std::make_shared<ThreadWorld>(size);
  const auto region = std::make_shared<AnonymousRegion>(detail::ShmLayout(size).bytes);
  std::vector<int> members;
  for (int r = 0; r < size; ++r) members.push_back(r);
  std::vector<std::unique_ptr<Communicator>> group;
  for (int r = 0; r < size; ++r) {
    group.push_back(std::make_unique<detail::ShmComm>(
        detail::ShmComm::Group{world, region, members, r, options, nullptr}));
  }
  return group;
}

}  // namespace ds
