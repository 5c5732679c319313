// Transfer: a request under way, between the thread that waits for it and the lanes that move its
// pieces. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "offload/async_io/io_engine.h"
#include "offload/async_io/io_file.h"

namespace ds {

struct TransferFailure {
  int64_t offset = 0;    // in the file, of the piece that failed
  int error_number = 0;  // 0: `message` says all
  std::string message;   // all but the reason
};

class Transfer {
 public:
  struct Place {
    IoKind kind = IoKind::kRead;
    int fd = -1;
    int direct_fd = -1;
    DirectAlignment alignment;
    std::string path;
  };

  Transfer(Place place, int64_t pieces) : place_(std::move(place)), pieces_left_(pieces) {}

  const Place& place() const { return place_; }

  // Keeps the failure that is first in the file. What has not begun is dropped from then on.
  void fail(TransferFailure failure);
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  // Nothing of `pieces` pieces is under way any more. The transfer may be gone when this returns.
  void end_of_pieces(int64_t pieces);

  // True when nothing is left to wait for.
  bool wait_until(std::chrono::steady_clock::time_point deadline) const;
  void throw_failure() const;                              // if there is one
  std::chrono::steady_clock::time_point ended_at() const;  // once nothing is left to wait for

 private:
  const Place place_;
  mutable std::mutex state_mutex_;
  mutable std::condition_variable ended_;
  int64_t pieces_left_;
  // Nothing ends as soon as it is asked for.
  std::chrono::steady_clock::time_point ended_at_ = std::chrono::steady_clock::now();
  std::optional<TransferFailure> failure_;
  std::atomic<bool> failed_ = false;  // asked for each piece
};

// "read of 4096 bytes at offset 0 of /file"
std::string words_of(const Transfer::Place& place, int64_t offset, int64_t bytes);

}  // namespace ds
