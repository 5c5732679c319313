#include "offload/async_io/transfer.h"

#include <fmt/format.h>

#include "core/files/file.h"

namespace ds {

void Transfer::fail(TransferFailure failure) {
  const std::scoped_lock lock(state_mutex_);
  if (!failure_ || failure.offset < failure_->offset) failure_ = std::move(failure);
  failed_.store(true, std::memory_order_relaxed);
}

void Transfer::end_of_pieces(int64_t pieces) {
  const std::scoped_lock lock(state_mutex_);
  pieces_left_ -= pieces;
  if (pieces_left_ > 0) return;
  ended_at_ = std::chrono::steady_clock::now();
  ended_.notify_all();
}

bool Transfer::wait_until(std::chrono::steady_clock::time_point deadline) const {
  std::unique_lock lock(state_mutex_);
  return ended_.wait_until(lock, deadline, [&] { return pieces_left_ == 0; });
}

std::chrono::steady_clock::time_point Transfer::ended_at() const {
  const std::scoped_lock lock(state_mutex_);
  return ended_at_;
}

void Transfer::throw_failure() const {
  const std::scoped_lock lock(state_mutex_);
  if (!failure_) return;
  if (failure_->error_number == 0) throw IoError(failure_->message);
  throw_io_error(failure_->message + " of", place_.path, failure_->error_number);
}

std::string words_of(const Transfer::Place& place, int64_t offset, int64_t bytes) {
  return fmt::format("{} of {} bytes at offset {} of {}",
                     place.kind == IoKind::kRead ? "read" : "write", bytes, offset, place.path);
}

}  // namespace ds
