#include "zero/state/speculative_update.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "core/device/background_log.h"
#include "core/device/host_tensor.h"
#include "core/status/failpoint.h"
#include "core/values/index.h"

namespace ds {

SpeculativeUpdate::SpeculativeUpdate(AheadParts& parts, Stream& stream)
    : parts_(parts),
      stream_(stream),
      states_(to_size(parts.count())),
      worker_(stream, "fetching ahead",
              {.work = [this](int part) { work_on(part); },
               .give_up = [this](int part) { parts_.undo(part, stream_); },
               .finish_one = [this] { return parts_.finish_one(); }}) {}

bool SpeculativeUpdate::take_done(int part) {
  return std::exchange(nth(states_, part).is_done, false);
}

void SpeculativeUpdate::begin(Work work) {
  DS_CHECK(!has_begun(), "work ahead: begun twice");
  for (State& state : states_) state = {};
  ended_at_ = {};
  work_ = std::move(work);
}

void SpeculativeUpdate::add(int part, const Event& there) {
  DS_CHECK(has_begun(), "work ahead: part {} is added before anything has begun", part);
  nth(states_, part).is_added = true;
  waiting_.push_back({.part = part, .there = there});
  while (!waiting_.empty() && waiting_.front().there.ready()) {
    const Waiting first = std::move(waiting_.front());
    waiting_.pop_front();
    stream_.wait(first.there);
    worker_.give(first.part);
  }
}

void SpeculativeUpdate::hand_over() {
  while (!waiting_.empty()) {
    const Waiting first = std::move(waiting_.front());
    waiting_.pop_front();
    first.there.wait_on_host();
    worker_.give(first.part);
  }
}

void SpeculativeUpdate::work_on(int part) {
  const BackgroundSpan span(stream_, BackgroundKind::kUpdateAhead, {.what = "part", .number = part},
                            parts_.bytes(part));
  parts_.work_on(part, stream_, work_);
  nth(states_, part).is_done = true;
  DS_FAILPOINT("offload.part_updated_ahead");
}

void SpeculativeUpdate::end(Verdict verdict) {
  if (!has_begun()) return;
  if (verdict == Verdict::kKeep) hand_over();
  if (verdict == Verdict::kUndo) worker_.drop();
  const std::exception_ptr error = worker_.wait();
  waiting_.clear();
  work_ = nullptr;
  error != nullptr || verdict == Verdict::kUndo ? undo() : keep();
  ended_at_ = stream_.mark();
  if (error != nullptr && verdict == Verdict::kKeep) std::rethrow_exception(error);
}

void SpeculativeUpdate::keep() {
  for (size_t part = 0; part < states_.size(); ++part) {
    if (states_[part].is_done) parts_.keep(narrow<int>(part));
  }
}

void SpeculativeUpdate::undo() {
  for (size_t part = 0; part < states_.size(); ++part) {
    if (states_[part].is_added) parts_.undo(narrow<int>(part), stream_);
    states_[part] = {};
  }
}

KeptParts::KeptParts(std::span<const Shard> parts, Stream& stream) {
  for (const Shard& part : parts) {
    State& state = states_.emplace_back();
    state.tensors.push_back(part.master);
    std::ranges::copy(part.slots, std::back_inserter(state.tensors));
    for (const Tensor& scale : part.scales) {
      if (scale.defined()) state.tensors.push_back(scale);
    }
    for (const Tensor& tensor : state.tensors) {
      state.before.push_back(
          Tensor::empty(tensor.shape(), tensor.dtype(), stream, MemoryTag::kOptimizer));
    }
  }
}

int KeptParts::count() const { return narrow<int>(states_.size()); }

int64_t KeptParts::bytes(int part) const {
  size_t sum = 0;
  for (const Tensor& tensor : nth(states_, part).tensors) sum += tensor.bytes();
  return narrow<int64_t>(sum);
}

void KeptParts::work_on(int part, Stream& stream, const Work& work) {
  State& state = nth(states_, part);
  for (size_t i = 0; i < state.tensors.size(); ++i) {
    copy_by_threads(state.tensors[i], state.before[i], stream);
  }
  state.is_saved = true;
  DS_FAILPOINT("offload.part_saved");
  work(part, stream);
}

void KeptParts::keep(int part) { nth(states_, part).is_saved = false; }

void KeptParts::undo(int part, Stream& stream) {
  State& state = nth(states_, part);
  if (!std::exchange(state.is_saved, false)) return;
  const BackgroundSpan span(stream, BackgroundKind::kUpdate,
                            {.what = "undone of part", .number = part}, bytes(part));
  for (size_t i = 0; i < state.tensors.size(); ++i) {
    copy_by_threads(state.before[i], state.tensors[i], stream);
  }
  DS_FAILPOINT("offload.part_undone");
}

}  // namespace ds
