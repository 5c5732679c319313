// AsyncIo: reads and writes of any offset, length and address, under way while the caller computes.
// A request is cut into blocks; threads, one per engine, keep each engine's queue full. Whole pages
// go past the page cache where the file can; what is left of a request at its ends goes through it,
// so nothing outside of the asked range is read and written back. Memory that is not aligned for
// the device passes through a block of AsyncIo's own.
//
// Every completion is looked at: short transfers are continued, EIO is tried once more, and what
// remains is one error with file, offset and length. Nothing is silent.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/status/error.h"
#include "offload/async_io/io_engine.h"
#include "offload/async_io/io_figures.h"
#include "offload/async_io/io_file.h"
#include "offload/async_io/io_options.h"

namespace ds {

// A block took longer than IoOptions::timeout_ms. The kernel may still move its bytes: the memory
// has to stay until the AsyncIo is destroyed, whose destructor waits for that.
class IoTimeout : public IoError {
 public:
  explicit IoTimeout(const std::string& m) : IoError(m) {}
};

// A request that is under way. Each is waited for once, by wait() or by wait_all().
struct Ticket {
  uint64_t id = 0;
};

// Thread-safe. Requests that are under way at once complete in any order; the caller does not let a
// write overlap another request. Two requests may share a page of the file, not a byte.
class AsyncIo {
 public:
  // What choose_engine() takes, thread_count times; the line it gives is logged.
  explicit AsyncIo(const IoOptions& options);
  // One thread for each engine; thread_count and use_gds are ignored.
  AsyncIo(std::vector<std::unique_ptr<IoEngine>> engines, const IoOptions& options);
  // Drops blocks that have not begun; waits for those under way, however long, and says so by the
  // log.
  ~AsyncIo();
  AsyncIo(const AsyncIo&) = delete;  // owns threads
  AsyncIo& operator=(const AsyncIo&) = delete;

  // Begins to fill `into` from `offset`, or to write `from` there, growing the file as needed.
  // Neither waits for a transfer. The memory must stay, and the file stay open, until the wait;
  // what is read is undefined before. Zero bytes are done at once.
  Ticket read(const IoFile& file, int64_t offset, std::span<std::byte> into);
  Ticket write(const IoFile& file, int64_t offset, std::span<const std::byte> from);

  // Returns when nothing of the request is under way any more. IoError (DiskFull where there is no
  // room, IoTimeout) with what failed first in the file: operation, path, offset, length, reason.
  // Reading past the end of the file is an error. When it ended.
  std::chrono::steady_clock::time_point wait(Ticket ticket);
  // Waits for everything nobody has waited for; then throws the error of the oldest that failed.
  void wait_all();

  // While it lives, transfers of this file, or to and from this memory, are cheaper (IoEngine). It
  // may die only when none of them is under way, before the file or memory, and before the AsyncIo.
  class Registration;
  [[nodiscard]] Registration register_file(const IoFile& file);
  [[nodiscard]] Registration register_memory(std::span<std::byte> memory);

  IoFigures figures() const;
  std::string engine_name() const;

 private:
  class Lanes;
  std::unique_ptr<Lanes> lanes_;
};

class AsyncIo::Registration {
 public:
  Registration() = default;
  ~Registration();
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&& other) noexcept;
  Registration(const Registration&) = delete;  // unregisters once
  Registration& operator=(const Registration&) = delete;

 private:
  friend class AsyncIo;
  std::vector<std::function<void()>> undo_;
};

}  // namespace ds
