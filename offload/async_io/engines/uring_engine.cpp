#include <fmt/format.h>
#include <liburing.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

#include "core/status/error.h"
#include "offload/async_io/engines/deadline.h"
#include "offload/async_io/io_engine.h"

namespace ds {

namespace {

constexpr unsigned kFileSlots = 64;
constexpr unsigned kMemorySlots = 256;
constexpr size_t kSlotBytes = size_t{1} << 30;  // the kernel's limit for one registered range

// The best that the kernel knows. The first, from 6.1 on: completions wait until as many are there
// as we wait for, and wake us once; such a ring is for one thread, the one that enables it. The
// second, from 5.19 on: they are looked at when we enter the kernel, not by interrupting us.
constexpr unsigned kSetups[] = {
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_R_DISABLED,
    IORING_SETUP_COOP_TASKRUN, 0};

// Some kernels count the rings as memory that is locked.
std::string words_of_memory_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return {};
  return fmt::format(", RLIMIT_MEMLOCK is {} bytes (ulimit -l)", limit.rlim_cur);
}

// Numbers below a bound, each given out once.
class Slots {
 public:
  explicit Slots(unsigned count) {
    for (unsigned slot = count; slot > 0; --slot) free_.push_back(static_cast<int>(slot) - 1);
  }
  int take() {  // -1: none is left
    if (free_.empty()) return -1;
    const int slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give_back(int slot) { free_.push_back(slot); }

 private:
  std::vector<int> free_;
};

class UringEngine final : public IoEngine {
 public:
  explicit UringEngine(int queue_depth);
  ~UringEngine() override;
  UringEngine(const UringEngine&) = delete;  // owns the ring
  UringEngine& operator=(const UringEngine&) = delete;

  std::string_view name() const override { return "io_uring"; }
  int queue_depth() const override { return queue_depth_; }
  // Linux 6.18 gives whole blocks for done where the file system's program moved half of one.
  bool counts_on_fuse() const override { return false; }
  int submit(std::span<const IoBlock> blocks) override;
  int reap(std::span<IoCompletion> into, int least, Deadline deadline) override;
  bool register_file(int fd) override;
  void unregister_file(int fd) override;
  bool register_memory(std::span<std::byte> memory) override;
  void unregister_memory(std::span<std::byte> memory) override;

 private:
  struct Range {
    size_t bytes = 0;
    int slot = -1;
  };

  void enable();
  void prepare(io_uring_sqe* entry, const IoBlock& block);
  int slot_of(const std::byte* memory, int64_t bytes) const;
  bool register_range(std::byte* begin, size_t bytes);

  const int queue_depth_;
  io_uring ring_{};
  bool is_enabled_ = false;
  int under_way_ = 0;
  std::vector<io_uring_cqe*> entries_;  // of one reap()

  bool has_file_table_ = false;
  bool has_memory_table_ = false;
  Slots file_slots_{kFileSlots};
  Slots memory_slots_{kMemorySlots};
  std::map<int, int> files_;                  // descriptor to slot
  std::map<const std::byte*, Range> memory_;  // by where it begins; disjoint
};

UringEngine::UringEngine(int queue_depth) : queue_depth_(queue_depth) {
  DS_CHECK(queue_depth >= 1, "io_uring: queue depth {}, expected 1 at least", queue_depth);
  const auto entries = static_cast<unsigned>(queue_depth);
  int result = -EINVAL;
  for (const unsigned flags : kSetups) {
    result = io_uring_queue_init(entries, &ring_, flags);
    is_enabled_ = (flags & IORING_SETUP_R_DISABLED) == 0;
    if (result != -EINVAL) break;
  }
  if (result < 0) {
    throw Unsupported(fmt::format("io_uring: io_uring_setup({}): {}{}", queue_depth,
                                  std::strerror(-result),
                                  result == -ENOMEM ? words_of_memory_limit() : ""));
  }
  if ((ring_.features & IORING_FEAT_EXT_ARG) == 0) {
    io_uring_queue_exit(&ring_);
    throw Unsupported("io_uring: the kernel cannot wait with a timeout; 5.11 or newer can");
  }
  has_file_table_ = io_uring_register_files_sparse(&ring_, kFileSlots) == 0;
  has_memory_table_ = io_uring_register_buffers_sparse(&ring_, kMemorySlots) == 0;
  entries_.resize(entries);
}

UringEngine::~UringEngine() {
  while (under_way_ > 0) {
    io_uring_cqe* entry = nullptr;
    const int result = io_uring_wait_cqe(&ring_, &entry);
    if (result == -EINTR || result == -EAGAIN) continue;
    if (result < 0) break;  // the ring is broken, and so is whoever would wait for more of it
    io_uring_cqe_seen(&ring_, entry);
    --under_way_;
  }
  io_uring_queue_exit(&ring_);
}

void UringEngine::enable() {
  // liburing 2.3 declares io_uring_enable_rings() and does not export it.
  if (::syscall(SYS_io_uring_register, ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0) <
      0) {
    throw IoError(fmt::format("io_uring: IORING_REGISTER_ENABLE_RINGS: {}", std::strerror(errno)));
  }
  is_enabled_ = true;
}

int UringEngine::submit(std::span<const IoBlock> blocks) {
  if (!is_enabled_) enable();
  const int taken = std::min(static_cast<int>(blocks.size()), queue_depth_ - under_way_);
  for (int i = 0; i < taken; ++i) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    assert(entry != nullptr);  // it has as many as blocks may be under way
    prepare(entry, blocks[static_cast<size_t>(i)]);
  }
  // What the kernel does not take now stays in the ring, and is taken by another call.
  int left = taken;
  while (left > 0) {
    const int result = io_uring_submit(&ring_);
    if (result >= 0) {
      left -= result;
    } else if (result != -EINTR && result != -EAGAIN && result != -EBUSY) {
      throw IoError(fmt::format("io_uring: io_uring_enter: {}", std::strerror(-result)));
    }
  }
  under_way_ += taken;
  return taken;
}

void UringEngine::prepare(io_uring_sqe* entry, const IoBlock& block) {
  const auto bytes = static_cast<unsigned>(block.bytes);
  const auto offset = static_cast<uint64_t>(block.offset);
  const auto file = files_.find(block.fd);
  const int fd = file == files_.end() ? block.fd : file->second;
  const int slot = slot_of(block.memory, block.bytes);
  if (block.kind == IoKind::kRead) {
    if (slot >= 0) {
      io_uring_prep_read_fixed(entry, fd, block.memory, bytes, offset, slot);
    } else {
      io_uring_prep_read(entry, fd, block.memory, bytes, offset);
    }
  } else if (slot >= 0) {
    io_uring_prep_write_fixed(entry, fd, block.memory, bytes, offset, slot);
  } else {
    io_uring_prep_write(entry, fd, block.memory, bytes, offset);
  }
  if (file != files_.end()) entry->flags |= IOSQE_FIXED_FILE;
  io_uring_sqe_set_data64(entry, block.id);
}

int UringEngine::reap(std::span<IoCompletion> into, int least, Deadline deadline) {
  const int room = std::min(static_cast<int>(into.size()), under_way_);
  const int wanted = std::min(least, room);
  int count = 0;
  while (count < room) {
    const unsigned ready =
        io_uring_peek_batch_cqe(&ring_, entries_.data(), static_cast<unsigned>(room - count));
    for (unsigned i = 0; i < ready; ++i) {
      const io_uring_cqe& entry = *entries_[i];
      into[static_cast<size_t>(count++)] = {entry.user_data, entry.res};
    }
    io_uring_cq_advance(&ring_, ready);
    under_way_ -= static_cast<int>(ready);
    if (count >= wanted || std::chrono::steady_clock::now() >= deadline) break;
    __kernel_timespec left = time_until<__kernel_timespec>(deadline);
    io_uring_cqe* first = nullptr;
    const int result =
        io_uring_wait_cqes(&ring_, &first, static_cast<unsigned>(wanted - count), &left, nullptr);
    if (result < 0 && result != -ETIME && result != -EINTR && result != -EAGAIN) {
      throw IoError(fmt::format("io_uring: io_uring_enter: {}", std::strerror(-result)));
    }
  }
  return count;
}

bool UringEngine::register_file(int fd) {
  if (!has_file_table_ || files_.contains(fd)) return false;
  const int slot = file_slots_.take();
  if (slot < 0) return false;
  if (io_uring_register_files_update(&ring_, static_cast<unsigned>(slot), &fd, 1) != 1) {
    file_slots_.give_back(slot);
    return false;
  }
  files_[fd] = slot;
  return true;
}

void UringEngine::unregister_file(int fd) {
  const auto file = files_.find(fd);
  if (file == files_.end()) return;
  int none = -1;
  // What cannot be taken out of the table stays there, and its slot is not used again.
  if (io_uring_register_files_update(&ring_, static_cast<unsigned>(file->second), &none, 1) == 1) {
    file_slots_.give_back(file->second);
  }
  files_.erase(file);
}

bool UringEngine::register_memory(std::span<std::byte> memory) {
  const auto next = memory_.lower_bound(memory.data());
  if (next != memory_.end() && next->first < memory.data() + memory.size()) return false;
  bool all = true;
  for (size_t begin = 0; begin < memory.size(); begin += kSlotBytes) {
    all &= register_range(memory.data() + begin, std::min(kSlotBytes, memory.size() - begin));
  }
  if (!all) unregister_memory(memory);
  return all;
}

bool UringEngine::register_range(std::byte* begin, size_t bytes) {
  if (!has_memory_table_ || memory_.contains(begin)) return false;
  const int slot = memory_slots_.take();
  if (slot < 0) return false;
  const iovec range{begin, bytes};
  const auto index = static_cast<unsigned>(slot);
  if (io_uring_register_buffers_update_tag(&ring_, index, &range, nullptr, 1) != 1) {
    memory_slots_.give_back(slot);
    return false;
  }
  memory_[begin] = {bytes, slot};
  return true;
}

void UringEngine::unregister_memory(std::span<std::byte> memory) {
  auto range = memory_.lower_bound(memory.data());
  while (range != memory_.end() && range->first < memory.data() + memory.size()) {
    const iovec none{nullptr, 0};
    const auto slot = static_cast<unsigned>(range->second.slot);
    if (io_uring_register_buffers_update_tag(&ring_, slot, &none, nullptr, 1) == 1) {
      memory_slots_.give_back(range->second.slot);
    }
    range = memory_.erase(range);
  }
}

// The registered range that all of the block lies in.
int UringEngine::slot_of(const std::byte* memory, int64_t bytes) const {
  auto range = memory_.upper_bound(memory);
  if (range == memory_.begin()) return -1;
  --range;
  const bool inside = memory + bytes <= range->first + range->second.bytes;
  return inside ? range->second.slot : -1;
}

}  // namespace

std::unique_ptr<IoEngine> make_uring_engine(int queue_depth) {
  return std::make_unique<UringEngine>(queue_depth);
}

}  // namespace ds
