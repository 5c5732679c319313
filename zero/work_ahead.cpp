#include "zero/work_ahead.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "core/failpoint.h"
#include "core/index.h"
#include "core/memory/beside_log.h"

namespace ds {

WorkAhead::WorkAhead(std::span<const Shard> parts, Stream& stream) : stream_(stream) {
  for (const Shard& part : parts) {
    State& state = states_.emplace_back();
    state.tensors.push_back(part.master);
    std::ranges::copy(part.slots, std::back_inserter(state.tensors));
    for (const Tensor& scale : part.scales) {
      if (scale.defined()) state.tensors.push_back(scale);
    }
    for (const Tensor& tensor : state.tensors) {
      state.before.push_back(
          Tensor::empty(tensor.shape(), tensor.dtype(), stream_, MemoryTag::kOptimizer));
    }
  }
  if (!is_meta()) thread_ = std::thread([this] { run(); });
}

WorkAhead::~WorkAhead() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    given_.clear();
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

int64_t WorkAhead::State::bytes() const {
  size_t sum = 0;
  for (const Tensor& tensor : tensors) sum += tensor.bytes();
  return narrow<int64_t>(sum);
}

bool WorkAhead::take_done(int part) { return std::exchange(nth(states_, part).is_done, false); }

void WorkAhead::begin(Work work) {
  DS_CHECK(!has_begun(), "work ahead: begun twice");
  for (State& state : states_) state.is_saved = state.is_done = false;
  ended_at_ = {};
  work_ = std::move(work);
}

void WorkAhead::add(int part, const Event& there) {
  DS_CHECK(has_begun(), "work ahead: part {} is added before anything has begun", part);
  waiting_.push_back({.part = part, .there = there});
  while (!waiting_.empty() && waiting_.front().there.ready()) {
    const Waiting first = std::move(waiting_.front());
    waiting_.pop_front();
    stream_.wait(first.there);
    give(first.part);
  }
}

void WorkAhead::hand_over() {
  while (!waiting_.empty()) {
    const Waiting first = std::move(waiting_.front());
    waiting_.pop_front();
    first.there.wait_on_host();
    give(first.part);
  }
}

void WorkAhead::give(int part) {
  if (is_meta()) return work_on(part);
  {
    const std::lock_guard lock(mutex_);
    given_.push_back(part);
  }
  changed_.notify_all();
}

void WorkAhead::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || !given_.empty(); });
    if (ends_) return;
    const int part = given_.front();
    given_.pop_front();
    is_working_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      work_on(part);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    is_working_ = false;
    if (error != nullptr && error_ == nullptr) error_ = error;
    if (error_ != nullptr) given_.clear();
    changed_.notify_all();
  }
}

void WorkAhead::work_on(int part) {
  State& state = nth(states_, part);
  const BesideSpan span(stream_, BesideKind::kUpdateAhead, {.what = "part", .number = part},
                        state.bytes());
  for (size_t i = 0; i < state.tensors.size(); ++i) copy(state.tensors[i], state.before[i]);
  state.is_saved = true;
  DS_FAILPOINT("offload.part_saved");
  work_(part, stream_);
  state.is_done = true;
  DS_FAILPOINT("offload.part_updated_ahead");
}

void WorkAhead::await_thread(Verdict verdict) {
  if (is_meta()) return;
  std::unique_lock lock(mutex_);
  if (verdict == Verdict::kUndo) given_.clear();
  changed_.wait(lock, [&] { return given_.empty() && !is_working_; });
}

void WorkAhead::end(Verdict verdict) {
  if (!has_begun()) return;
  if (verdict == Verdict::kKeep) hand_over();
  await_thread(verdict);
  waiting_.clear();
  work_ = nullptr;
  const std::exception_ptr error = std::exchange(error_, nullptr);
  if (error != nullptr || verdict == Verdict::kUndo) undo();
  ended_at_ = stream_.mark();
  if (error != nullptr && verdict == Verdict::kKeep) std::rethrow_exception(error);
}

void WorkAhead::undo() {
  for (State& state : states_) {
    if (!state.is_saved) continue;
    const BesideSpan span(
        stream_, BesideKind::kUpdate,
        {.what = "undone of part", .number = narrow<int>(&state - states_.data())}, state.bytes());
    for (size_t i = 0; i < state.tensors.size(); ++i) copy(state.before[i], state.tensors[i]);
    state.is_saved = state.is_done = false;
    DS_FAILPOINT("offload.part_undone");
  }
}

// With all threads of the stream, since it is memory that it takes.
void WorkAhead::copy(const Tensor& from, const Tensor& to) {
  const auto bytes = narrow<int64_t>(from.bytes());
  stream_.report("copy", {.flops = 0, .bytes = 2.0 * static_cast<double>(bytes)});
  if (is_meta()) return;
  constexpr int64_t kGrain = 1 << 16;
  stream_.pool().parallel_for(bytes, kGrain, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<std::byte*>(to.address()) + begin,
                static_cast<const std::byte*>(from.address()) + begin, to_size(end - begin));
  });
}

}  // namespace ds
