#include "comm/nccl/end.h"

#include <algorithm>
#include <thread>

#include "comm/contract/host_exchange.h"

namespace ds::detail {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kGoodbye{5'000};  // groups of the dead are not waited for
// A call that holds the handle for longer waits for the device, and returns when the kernels end.
constexpr milliseconds kCallsReturn{500};
constexpr std::chrono::microseconds kBetweenQuestions{100};

double seconds(milliseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

void NcclEnd::check() const {
  if (place_.parent) place_.parent->check();
  if (!has_failed_) return;
  const std::lock_guard lock(state_mutex_);
  throw CommError(fmt::format("NCCL, {}: the group has failed: {}", place_.words, failure_));
}

// NCCL may write it from a thread of its own.
NcclHandle* NcclEnd::handle() { return std::atomic_ref(handle_).load(); }

NcclResult NcclEnd::state() {
  NcclResult state = NcclResult::kInProgress;
  if (handle() == nullptr) return state;
  const NcclResult asked = nccl_.ncclCommGetAsyncError(handle(), &state);
  return asked == NcclResult::kSuccess ? state : asked;
}

std::string NcclEnd::words_of(NcclResult result) {
  const char* const last = nccl_.ncclGetLastError(handle());
  const std::string more = last != nullptr && *last != '\0' ? fmt::format(" ({})", last) : "";
  return fmt::format("NCCL says: {}{}", nccl_.ncclGetErrorString(result), more);
}

void NcclEnd::call(const std::string& what, const Call& call) {
  std::string error;
  {
    const std::lock_guard held(handle_mutex_);
    check();
    {
      const std::lock_guard lock(state_mutex_);
      newest_ = what;
    }
    const NcclResult result = call(handle());
    if (result == NcclResult::kSuccess) return check();
    if (result != NcclResult::kInProgress) error = words_of(result);
  }
  if (!error.empty()) fail(fmt::format("{}: {}", what, error));
  await(what);
}

void NcclEnd::await(const std::string& what) {
  const TimePoint deadline = SteadyClock::now() + place_.timeout;
  while (true) {
    std::string error;
    {
      const std::lock_guard held(handle_mutex_);
      check();
      const NcclResult result = state();
      if (result == NcclResult::kSuccess) return;
      if (result != NcclResult::kInProgress) error = words_of(result);
    }
    if (error.empty()) error = failure_of([&] { place_.hosts->check(); });
    if (error.empty() && SteadyClock::now() >= deadline) {
      error = fmt::format("NCCL is not through with it within {:.1f} s; it waits for other ranks",
                          seconds(place_.timeout));
    }
    if (!error.empty()) fail(fmt::format("{}: {}", what, error));  // which check() throws
    std::this_thread::sleep_for(kBetweenQuestions);
  }
}

void NcclEnd::follow(const std::string& what, const Stream& stream, Event begin, Event done) {
  const std::lock_guard lock(state_mutex_);
  if (has_failed_) return;
  followed_[stream.queue().native()].push_back({what, std::move(begin), std::move(done)});
}

void NcclEnd::fail(const std::string& why) noexcept {
  try {
    const std::lock_guard lock(state_mutex_);
    if (has_failed_) return;
    has_failed_ = true;
    followed_.clear();
    failure_ = why;
  } catch (const std::exception&) {
    // Out of memory: it has failed without words.
  }
  place_.hosts->abort();
  const bool held = handle_mutex_.try_lock_for(kCallsReturn);
  if (NcclHandle* const handle = std::atomic_ref(handle_).exchange(nullptr)) {
    nccl_.ncclCommAbort(handle);
  }
  if (held) handle_mutex_.unlock();
}

std::string NcclEnd::awaited() const {
  const std::lock_guard lock(state_mutex_);
  for (const auto& [stream, calls] : followed_) {
    const auto first =
        std::ranges::find_if(calls, [](const auto& each) { return !each.done.ready(); });
    if (first != calls.end() && first->begin.ready()) return first->what;
  }
  return newest_;
}

void NcclEnd::look_at_nccl() {
  std::string error;
  {
    const std::unique_lock held(handle_mutex_, std::try_to_lock);
    if (!held.owns_lock() || handle() == nullptr) return;
    const NcclResult result = state();
    if (result == NcclResult::kSuccess || result == NcclResult::kInProgress) return;
    error = words_of(result);
  }
  fail(fmt::format("{}: {}", awaited(), error));
}

void NcclEnd::look_at_streams(TimePoint now) {
  std::string late;
  {
    const std::lock_guard lock(state_mutex_);
    for (auto& [stream, calls] : followed_) {
      while (!calls.empty() && calls.front().done.ready()) calls.pop_front();
      if (calls.empty()) continue;
      Followed& first = calls.front();
      if (first.begun == TimePoint{} && first.begin.ready()) first.begun = now;
      if (first.begun != TimePoint{} && now - first.begun >= place_.timeout) late = first.what;
    }
  }
  if (late.empty()) return;
  fail(
      fmt::format("{}: the device is not through with it within {:.1f} s; it waits for other ranks",
                  late, seconds(place_.timeout)));
}

void NcclEnd::look(TimePoint now) noexcept {
  if (has_failed_) return;
  try {
    if (place_.parent) place_.parent->check();
    look_at_nccl();
    look_at_streams(now);
    if (!has_failed_) place_.hosts->check();
  } catch (const std::exception& error) {
    try {
      fail(fmt::format("{}: {}", awaited(), error.what()));
    } catch (const std::exception&) {
      fail("");  // out of memory
    }
  }
}

void NcclEnd::close() noexcept {
  const std::lock_guard held(handle_mutex_);
  NcclHandle* const mine = std::atomic_ref(handle_).exchange(nullptr);
  if (mine == nullptr) return;
  NcclResult result = has_failed_ ? NcclResult::kRemoteError : nccl_.ncclCommFinalize(mine);
  const TimePoint deadline = SteadyClock::now() + std::min(place_.timeout, kGoodbye);
  while (result == NcclResult::kInProgress && SteadyClock::now() < deadline) {
    std::this_thread::sleep_for(kBetweenQuestions);
    if (nccl_.ncclCommGetAsyncError(mine, &result) != NcclResult::kSuccess) break;
  }
  if (result == NcclResult::kSuccess) {
    nccl_.ncclCommDestroy(mine);
  } else {
    nccl_.ncclCommAbort(mine);
  }
}

}  // namespace ds::detail
