#include "zero/state/rolling_ahead.h"

#include <algorithm>
#include <utility>

#include "core/status/failpoint.h"
#include "core/values/index.h"

namespace ds {

RollingAhead::RollingAhead(std::vector<Part> parts, Swapper& swapper)
    : swapper_(swapper), states_(parts.size()) {
  for (size_t i = 0; i < parts.size(); ++i) states_[i].part = std::move(parts[i]);
}

RollingAhead::~RollingAhead() {
  for (State& state : states_) {
    if (state.is_started) state.buffer.await_quietly(swapper_);
  }
  for (Writing& writing : writing_) writing.buffer.await_quietly(swapper_);
}

std::string RollingAhead::key_of(int part, bool other) const {
  return (other ? "other " : "") + nth(states_, part).part.key;
}

std::string RollingAhead::key(int part) const { return key_of(part, nth(states_, part).is_other); }

std::span<std::byte> RollingAhead::state_bytes(const StagedBuffer& buffer, int part) const {
  return buffer.lease.bytes().first(to_size(bytes(part)));
}

void RollingAhead::await(int part) {
  std::unique_lock lock(mutex_);
  released_.wait(lock, [&] { return !nth(states_, part).is_busy; });
}

void RollingAhead::await_all() {
  std::unique_lock lock(mutex_);
  released_.wait(lock, [&] { return std::ranges::none_of(states_, &State::is_busy); });
}

int RollingAhead::in_use() const {
  const std::lock_guard lock(mutex_);
  return in_use_;
}

void RollingAhead::start(int part, StagedBuffer buffer) {
  try {
    buffer.under_way.push_back(swapper_.get(key(part), state_bytes(buffer, part)));
  } catch (const Error&) {
    buffer.await_quietly(swapper_);
    throw;
  }
  const std::lock_guard lock(mutex_);
  State& state = nth(states_, part);
  state.buffer = std::move(buffer);
  state.is_started = state.is_busy = true;
  ++in_use_;
}

// The buffer, for who will release the part.
StagedBuffer RollingAhead::take(int part) {
  const std::lock_guard lock(mutex_);
  State& state = nth(states_, part);
  state.is_started = false;
  return std::move(state.buffer);
}

void RollingAhead::release(int part, StagedBuffer& buffer) {
  buffer.lease.give_back();
  {
    const std::lock_guard lock(mutex_);
    nth(states_, part).is_busy = false;
    --in_use_;
  }
  released_.notify_all();
}

void RollingAhead::work_on(int part, Stream& stream, const Work& work) {
  StagedBuffer buffer = take(part);
  try {
    buffer.await(swapper_);
    buffer_ = buffer.lease.bytes().data();
    work(part, stream);
    const std::string to = key_of(part, !nth(states_, part).is_other);
    buffer.under_way.push_back(swapper_.put(to, state_bytes(buffer, part)));
  } catch (...) {
    buffer.await_quietly(swapper_);
    release(part, buffer);
    throw;
  }
  writing_.push_back({.part = part, .buffer = std::move(buffer)});
}

bool RollingAhead::finish_one() {
  if (writing_.empty()) return false;
  Writing oldest = std::move(writing_.front());
  writing_.pop_front();
  try {
    oldest.buffer.await(swapper_);
  } catch (...) {
    release(oldest.part, oldest.buffer);
    throw;
  }
  release(oldest.part, oldest.buffer);
  return !writing_.empty();
}

void RollingAhead::keep(int part) {
  State& state = nth(states_, part);
  state.is_other = !state.is_other;
  DS_FAILPOINT("offload.part_kept");
}

// What was worked on is written to the other place all the same, and of no meaning there.
void RollingAhead::undo(int part, Stream& /*stream*/) {
  {
    const std::lock_guard lock(mutex_);
    if (!nth(states_, part).is_started) return;
  }
  StagedBuffer buffer = take(part);
  buffer.await_quietly(swapper_);
  release(part, buffer);
  DS_FAILPOINT("offload.part_given_up");
}

}  // namespace ds
