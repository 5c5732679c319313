// IoEngine: one queue of transfers between files and memory, with whatever the system offers for
// it. It does what it is told and nothing else: it splits, retries, continues and checks nothing
// (AsyncIo does), so that each engine is small and a test's decorator can play any fault.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ds {

enum class IoKind : uint8_t { kRead, kWrite };

// One transfer. The memory belongs to the engine until the completion is reaped.
struct IoBlock {
  IoKind kind = IoKind::kRead;
  int fd = -1;
  int64_t offset = 0;  // bytes, in the file
  std::byte* memory = nullptr;
  int64_t bytes = 0;
  uint64_t id = 0;  // the caller's, unique among those under way
};

struct IoCompletion {
  uint64_t id = 0;
  int64_t result = 0;  // bytes moved, perhaps fewer than asked for; else minus an errno
};

// Confined to the thread that begins blocks; any thread may make it, and end it when nothing is
// under way. The destructor waits for what is, because the memory of a transfer that nobody can
// stop must not be given back before.
class IoEngine {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  virtual ~IoEngine() = default;
  virtual std::string_view name() const = 0;  // "io_uring"
  virtual int queue_depth() const = 0;        // blocks that may be under way at once
  // Whether blocks by direct descriptors may have any offset, length and address, which may be a
  // GPU's.
  virtual bool aligns_by_itself() const { return false; }

  // Whether a completion counts what a file system of FUSE moved, and no more.
  virtual bool counts_on_fuse() const { return true; }

  // Begins the first blocks, as many as there is room for, and says how many. Blocks that begin may
  // complete in any order. IoError where the queue itself fails; a block's failure is a completion.
  virtual int submit(std::span<const IoBlock> blocks) = 0;
  // Waits for `least` completions (at most those under way) or the deadline, and says how many it
  // has filled in: fewer than `least` only when the deadline has passed.
  virtual int reap(std::span<IoCompletion> into, int least, Deadline deadline) = 0;

  // Tells the system beforehand of what will be used often, which makes each transfer cheaper.
  // Hints: true when the engine makes use of it. What was registered is used by blocks that name
  // the descriptor, or lie in the memory; it has to stay until it is unregistered, when nothing of
  // it may be under way.
  virtual bool register_file(int /*fd*/) { return false; }
  virtual void unregister_file(int /*fd*/) {}
  virtual bool register_memory(std::span<std::byte> /*memory*/) { return false; }
  virtual void unregister_memory(std::span<std::byte> /*memory*/) {}
};

// Each throws Unsupported, naming what is missing or refuses, where it cannot work.
// io_uring through liburing. Registers files and memory.
std::unique_ptr<IoEngine> make_uring_engine(int queue_depth);
// The kernel's older interface, by its system calls. Only direct descriptors are asynchronous:
// through the page cache submit() does the transfer itself.
std::unique_ptr<IoEngine> make_aio_engine(int queue_depth);
// A pool of `threads` threads that call pread and pwrite.
std::unique_ptr<IoEngine> make_thread_engine(int queue_depth, int threads);
// NVIDIA's cuFile, between files and memory of a GPU or of the host, by a pool of `threads`. Only
// direct descriptors. Says by the log whether the driver moves bytes without the host. Writes that
// share a page of the file must not be under way at once: cuFile reads and writes back their ends.
// `modules`: where the kernel lists its modules. cuFile 1.20 reads that, and where there is no such
// file it does so for ever: so it is not begun there.
std::unique_ptr<IoEngine> make_gds_engine(int queue_depth, int threads,
                                          const std::string& modules = "/proc/modules");

}  // namespace ds
