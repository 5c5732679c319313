// Swapper: what does not fit in memory, by key, in the swap file of one rank. put() and get() begin
// a transfer and return; wait() is where errors come out, and where what was read is checked: every
// byte of it, every time, before the caller may use it. Old, foreign, damaged and missing bytes are
// told apart by the header of each extent (swap_format.h).
//
// Nothing of it survives the process: state comes back from a checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "offload/async_io/async_io.h"
#include "offload/extent_allocator.h"
#include "offload/swap_file.h"
#include "offload/swap_format.h"

namespace ds {

class BackgroundLog;  // core/device/background_log.h

struct SwapperOptions {
  std::string directory;  // exists
  SwapOwner owner;
  int64_t bytes = 0;                      // the sum of Swapper::room_for() of all that is kept
  int64_t block_bytes = kSwapBlockBytes;  // that one digest covers
  BackgroundLog* beside = nullptr;        // told of transfers, by their keys; null: nobody is
};

// Since the beginning.
struct SwapFigures {
  int64_t bytes_read = 0;     // of data, without headers
  int64_t bytes_written = 0;  // likewise
  double read_waits_s = 0;    // how long wait() stood still until what was read was there
  double write_waits_s = 0;
};

// A transfer that is under way; waited for once.
struct SwapTicket {
  uint64_t id = 0;
};

// Thread-safe. A key has at most one transfer under way.
class Swapper {
 public:
  // Takes the AsyncIo, because a transfer that timed out may go on until that is destroyed: the
  // memory of every transfer must outlive the Swapper if its wait() threw IoTimeout.
  Swapper(const SwapperOptions& options, std::unique_ptr<AsyncIo> io);
  ~Swapper();                        // waits for what is under way; removes the file
  Swapper(const Swapper&) = delete;  // owns the file
  Swapper& operator=(const Swapper&) = delete;

  // Bytes of the file that so many bytes of data take.
  static int64_t room_for(int64_t length, int64_t block_bytes = kSwapBlockBytes);

  // Begins to keep these bytes under the key, in place of what is there. They must stay as they are
  // until the wait. OutOfMemory where the file has no room; the key is forgotten then.
  SwapTicket put(std::string_view key, std::span<const std::byte> from);
  // Begins to read what the last put() of the key kept; `into` has its length.
  SwapTicket get(std::string_view key, std::span<std::byte> into);
  // Waits until the transfer is done, and of a get() until its bytes are checked. SwapCorrupt where
  // they are not those of the put; else IoError, DiskFull, IoTimeout; each is a SwapFault, too.
  // What a failed get() leaves in the memory is undefined. After a failed put() the key has to be
  // put again.
  void wait(SwapTicket ticket);

  // Forgets the key; its room is free again.
  void drop(std::string_view key);
  bool has(std::string_view key) const;
  int64_t generation(std::string_view key) const;  // of the last put(); 0: there was none
  int64_t bytes_free() const;
  SwapFigures figures() const;
  const std::string& path() const { return file_.path(); }
  AsyncIo& io() { return *io_; }  // to register memory

 private:
  struct Entry;
  struct Transfer;

  Entry& kept(std::string_view key, std::string_view for_what);
  Entry& entry_for_put(std::string_view key, int64_t length);
  SwapTicket begin(std::unique_ptr<Transfer> transfer);
  void abandon(std::unique_ptr<Transfer> transfer);
  std::string place_of(const Entry& entry) const;  // for messages
  void count(const Transfer& transfer, double waited_s);
  void report(const Transfer& transfer) const;
  void finish_put(Transfer& transfer);
  void finish_get(Transfer& transfer);

  const SwapperOptions options_;
  SwapFile file_;
  mutable std::mutex entries_mutex_;
  ExtentAllocator extents_;
  std::map<std::string, std::unique_ptr<Entry>, std::less<>> entries_;
  std::map<uint64_t, std::unique_ptr<Transfer>> under_way_;
  std::vector<std::unique_ptr<Transfer>> abandoned_;  // the kernel may still move their headers
  int64_t generation_ = 0;                            // of the last put() of any key
  SwapFigures figures_;
  uint64_t last_ticket_ = 0;
  std::unique_ptr<AsyncIo> io_;  // destroyed first: it waits for all that moves
};

}  // namespace ds
