#include "offload/async_io/lane.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/status/error.h"
#include "core/tasks/task_limits.h"

namespace ds {

namespace {

using std::chrono::milliseconds;

// How soon a lane that waits for blocks sees what was added meanwhile, if it has room for it.
constexpr milliseconds kLookAround(2);
constexpr milliseconds kLookAroundWhenFull(100);

double seconds_between(std::chrono::steady_clock::time_point from,
                       std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Lane::Lane(std::unique_ptr<IoEngine> engine, const IoOptions& options)
    : options_(options),
      engine_(std::move(engine)),
      traits_{std::string(engine_->name()), engine_->aligns_by_itself(),
              engine_->counts_on_fuse()} {
  const auto depth = static_cast<size_t>(std::min(options.queue_depth, engine_->queue_depth()));
  slots_.resize(depth);
  for (size_t slot = depth; slot > 0; --slot) free_slots_.push_back(slot - 1);
  round_.completions.resize(depth);
  thread_ = start_thread(traits_.name, [this] { run(); });
}

Lane::~Lane() {
  {
    const std::scoped_lock lock(work_mutex_);
    closing_ = true;
  }
  added_.notify_one();
  thread_.join();
}

void Lane::add(Transfer& transfer, std::span<const Piece> pieces) {
  std::unique_lock lock(work_mutex_);
  if (broken_) {
    const std::string reason = *broken_;
    lock.unlock();
    transfer.fail({pieces.front().offset, 0, reason});
    transfer.end_of_pieces(std::ssize(pieces));
    return;
  }
  for (const Piece& piece : pieces) queue_.push_back({&transfer, piece, {}, false, false});
  lock.unlock();
  added_.notify_one();
}

std::optional<std::string> Lane::overdue(const Transfer& transfer) const {
  const std::scoped_lock lock(work_mutex_);
  const Work* oldest = nullptr;
  bool concerned = false;
  for (const Work& work : slots_) {
    if (work.transfer == nullptr) continue;
    concerned |= work.transfer == &transfer;
    if (oldest == nullptr || work.begun < oldest->begun) oldest = &work;
  }
  if (oldest == nullptr) return std::nullopt;
  const auto now = Clock::now();
  if (now - oldest->begun < milliseconds(options_.timeout_ms)) return std::nullopt;
  const auto is_its = [&](const Work& work) { return work.transfer == &transfer; };
  if (!concerned && std::none_of(queue_.begin(), queue_.end(), is_its)) return std::nullopt;
  return fmt::format("{} has not ended the {} within {:.1f} s", traits_.name,
                     words_of(oldest->transfer->place(), oldest->piece.offset, oldest->piece.bytes),
                     seconds_between(oldest->begun, now));
}

IoFigures Lane::figures() const {
  const std::scoped_lock lock(work_mutex_);
  return figures_;
}

bool Lane::ask(const std::function<bool(IoEngine&)>& what) {
  Errand errand{.what = what};
  std::unique_lock lock(work_mutex_);
  if (broken_) return false;
  errands_.push_back(&errand);
  added_.notify_one();
  errand_done_.wait(lock, [&] { return errand.is_done; });
  return errand.result;
}

bool Lane::register_file(int fd) {
  return ask([fd](IoEngine& engine) { return engine.register_file(fd); });
}

void Lane::unregister_file(int fd) {
  ask([fd](IoEngine& engine) {
    engine.unregister_file(fd);
    return true;
  });
}

bool Lane::register_memory(std::span<std::byte> memory) {
  return ask([memory](IoEngine& engine) { return engine.register_memory(memory); });
}

void Lane::unregister_memory(std::span<std::byte> memory) {
  ask([memory](IoEngine& engine) {
    engine.unregister_memory(memory);
    return true;
  });
}

void Lane::run() {
  try {
    serve();
  } catch (const std::exception& error) {
    give_up(error.what());
  }
}

void Lane::serve() {
  while (take_work()) {
    begin_blocks();
    if (under_way_ == 0) continue;
    const size_t count = reap();
    round_.outcomes.clear();
    for (size_t i = 0; i < count; ++i) round_.outcomes.push_back(judge(round_.completions[i]));
    settle(round_.outcomes);
  }
}

// Under the mutex.
void Lane::run_errands() {
  for (Errand* errand : errands_) {
    errand->result = engine_ != nullptr && errand->what(*engine_);
    errand->is_done = true;
  }
  if (!errands_.empty()) errand_done_.notify_all();
  errands_.clear();
}

// Waits until there is something to do; false when the lane closes and nothing is under way.
bool Lane::take_work() {
  std::unique_lock lock(work_mutex_);
  const auto is_busy = [&] { return under_way_ > 0 || !blocks_.empty(); };
  added_.wait(lock, [&] { return closing_ || !queue_.empty() || !errands_.empty() || is_busy(); });
  run_errands();
  if (closing_) {
    lock.unlock();
    drop_queue();
    say_who_is_waited_for();
    return is_busy();
  }
  if (!options_.overlap_events && is_busy()) return true;
  round_.taken.clear();
  const auto now = Clock::now();
  while (!queue_.empty() && !free_slots_.empty()) {
    Work& work = queue_.front();
    if (work.transfer->failed()) {
      work.transfer->end_of_pieces(1);
    } else {
      // What is tried again, or continued, has been under way since it began for the first time.
      if (work.begun == Clock::time_point{}) work.begun = now;
      round_.taken.push_back(free_slots_.back());
      free_slots_.pop_back();
      slots_[round_.taken.back()] = work;
    }
    queue_.pop_front();
  }
  lock.unlock();
  for (const size_t slot : round_.taken) blocks_.push_back(block_of(slot));
  return true;
}

IoBlock Lane::block_of(size_t slot) {
  const Work& work = slots_[slot];
  const Transfer::Place& place = work.transfer->place();
  const Piece& piece = work.piece;
  IoBlock block{place.kind,   piece.route == Route::kCached ? place.fd : place.direct_fd,
                piece.offset, piece.memory,
                piece.bytes,  slot};
  if (piece.route == Route::kBounced) {
    block.memory = bounce(slot);
    if (place.kind == IoKind::kWrite) {
      std::memcpy(block.memory, piece.memory, static_cast<size_t>(piece.bytes));
    }
  }
  return block;
}

// A block's memory for transfers of this slot.
std::byte* Lane::bounce(size_t slot) {
  const auto block = static_cast<size_t>(options_.block_size);
  if (bounce_memory_.bytes().empty()) {
    bounce_memory_ = AlignedBuffer(slots_.size() * block);
    engine_->register_memory(bounce_memory_.bytes());
  }
  return bounce_memory_.data() + slot * block;
}

void Lane::begin_blocks() {
  size_t begun = 0;
  while (begun < blocks_.size()) {
    const size_t at_once = options_.single_submit ? 1 : blocks_.size() - begun;
    const int taken = engine_->submit(std::span(blocks_).subspan(begun, at_once));
    under_way_ += taken;
    begun += static_cast<size_t>(taken);
    if (static_cast<size_t>(taken) < at_once) break;  // something has to end first
  }
  counted_.blocks += static_cast<int64_t>(begun);
  blocks_.erase(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(begun));
}

size_t Lane::reap() {
  const bool full = under_way_ == std::ssize(slots_);
  int least = under_way_;
  if (options_.overlap_events) {
    // A few are looked at together, to be woken less often; each that waits for that is one less
    // that is under way, and speed is in proportion.
    least = full ? std::max(under_way_ / 16, 1) : 1;
  }
  const auto deadline = Clock::now() + (full ? kLookAroundWhenFull : kLookAround);
  const int count = engine_->reap(round_.completions, least, deadline);
  under_way_ -= count;
  return static_cast<size_t>(count);
}

// Slots are written by this thread alone; others read them under the mutex.
Lane::Outcome Lane::judge(const IoCompletion& completion) {
  Outcome outcome{static_cast<size_t>(completion.id), std::nullopt};
  DS_CHECK(outcome.slot < slots_.size() && slots_[outcome.slot].transfer != nullptr,
           "{}: a completion of block {}, which is not under way", traits_.name, completion.id);
  const Work& work = slots_[outcome.slot];
  const Piece& piece = work.piece;
  const int64_t moved = completion.result;
  DS_CHECK(moved <= piece.bytes, "{}: {} bytes moved, though {} were asked for", traits_.name,
           moved, piece.bytes);
  if (moved < 0) {
    outcome.rest = judge_error(work, static_cast<int>(-moved));
    return outcome;
  }
  if (moved == 0) {
    outcome.rest = judge_nothing(work);
    return outcome;
  }
  const bool reads = work.transfer->place().kind == IoKind::kRead;
  (reads ? counted_.bytes_read : counted_.bytes_written) += moved;
  if (piece.route == Route::kBounced) {
    counted_.bytes_bounced += moved;
    if (reads) std::memcpy(piece.memory, bounce(outcome.slot), static_cast<size_t>(moved));
  }
  if (moved < piece.bytes) {
    ++counted_.continued;
    outcome.rest = work;
    outcome.rest->piece = rest_of(piece, moved, work.transfer->place().alignment);
    outcome.rest->tried_again = outcome.rest->moved_nothing = false;  // it is another place
  }
  return outcome;
}

std::optional<Lane::Work> Lane::judge_error(const Work& work, int error_number) {
  if (error_number == EINTR || error_number == EAGAIN) return work;
  if (error_number == EIO && !work.tried_again) {
    ++counted_.tried_again;
    Work again = work;
    again.tried_again = true;
    return again;
  }
  const char* attempt = work.tried_again && error_number == EIO ? "second " : "";
  const Piece& piece = work.piece;
  const bool reads = work.transfer->place().kind == IoKind::kRead;
  work.transfer->fail({piece.offset, error_number,
                       fmt::format("{}: {}{} of {} bytes at offset {}", traits_.name, attempt,
                                   reads ? "read" : "write", piece.bytes, piece.offset)});
  return std::nullopt;
}

// No byte moved: a file that ends there says so again.
std::optional<Lane::Work> Lane::judge_nothing(const Work& work) {
  if (!work.moved_nothing) {
    ++counted_.tried_again;
    Work again = work;
    again.moved_nothing = true;
    return again;
  }
  const Transfer::Place& place = work.transfer->place();
  const std::string words = words_of(place, work.piece.offset, work.piece.bytes);
  work.transfer->fail({work.piece.offset, 0,
                       fmt::format("{}: {}: {}", traits_.name, words,
                                   place.kind == IoKind::kRead ? "the file ends there"
                                                               : "twice no byte was written")});
  return std::nullopt;
}

void Lane::settle(std::span<const Outcome> outcomes) {
  round_.ended.clear();
  {
    const std::scoped_lock lock(work_mutex_);
    for (const Outcome& outcome : outcomes) {
      Work& work = slots_[outcome.slot];
      if (outcome.rest) {
        queue_.push_front(*outcome.rest);
      } else {
        note_end(*work.transfer);
      }
      work = {};
      free_slots_.push_back(outcome.slot);
    }
    figures_ += std::exchange(counted_, {});
  }
  for (const Ended& end : round_.ended) end.transfer->end_of_pieces(end.pieces);
}

// What ends together is mostly of one transfer.
void Lane::note_end(Transfer& transfer) {
  if (round_.ended.empty() || round_.ended.back().transfer != &transfer)
    round_.ended.push_back({&transfer, 0});
  ++round_.ended.back().pieces;
}

void Lane::drop_queue() {
  std::deque<Work> dropped;
  {
    const std::scoped_lock lock(work_mutex_);
    dropped.swap(queue_);
  }
  for (const Work& work : dropped) {
    work.transfer->fail({work.piece.offset, 0, "asynchronous I/O was closed before it began"});
    work.transfer->end_of_pieces(1);
  }
}

void Lane::say_who_is_waited_for() {
  if (under_way_ == 0) return;
  const auto now = Clock::now();
  if (told_ == Clock::time_point{}) told_ = now;
  if (now - told_ < milliseconds(options_.timeout_ms)) return;
  told_ = now;
  const auto busy = std::find_if(slots_.begin(), slots_.end(),
                                 [](const Work& work) { return work.transfer != nullptr; });
  spdlog::warn(
      "{}: closing waits for {} blocks, since their memory may still be used; one is the {}",
      traits_.name, under_way_,
      words_of(busy->transfer->place(), busy->piece.offset, busy->piece.bytes));
}

// The queue itself failed. Its end waits for what is under way, so that memory can be given back.
void Lane::give_up(const std::string& reason) {
  spdlog::error("{}: {}", traits_.name, reason);
  {
    const std::scoped_lock lock(work_mutex_);
    broken_ = reason;
  }
  engine_.reset();
  std::vector<Work> lost;
  {
    const std::scoped_lock lock(work_mutex_);
    run_errands();  // which nobody can any more
    lost.assign(queue_.begin(), queue_.end());
    queue_.clear();
    for (Work& work : slots_) {
      if (work.transfer != nullptr) lost.push_back(std::exchange(work, {}));
    }
  }
  for (const Work& work : lost) {
    work.transfer->fail({work.piece.offset, 0, reason});
    work.transfer->end_of_pieces(1);
  }
}

}  // namespace ds
