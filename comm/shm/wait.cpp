// Waiting for peers, and what to say when they do not come.
#include <algorithm>
#include <cstring>

#include "comm/shm/group.h"
#include "core/values/index.h"

namespace ds::detail {
namespace {

using SteadyClock = std::chrono::steady_clock;

// How often a waiter looks whether its peers still live.
constexpr std::chrono::milliseconds kLookRound{50};

}  // namespace

void ShmComm::check_agreement(int peer) {
  const Call& mine = slot(rank_).calls[exchanges_ & 1];
  const Call& theirs = nth(calls_, peer);
  if (static_cast<const CollectiveCall&>(mine) == theirs) return;
  fail(disagreement(rank_, mine, peer, theirs));
}

void ShmComm::await(Flag& flag, uint32_t target, int peer, Lagging who) {
  if (!spin_until(flag, target, spins_)) await_slowly(flag, target, peer, who);
}

void ShmComm::await_slowly(Flag& flag, uint32_t target, int peer, Lagging who) {
  const auto start = SteadyClock::now();
  auto next_look = start + kLookRound;
  while (!reached(flag, target)) {
    check_failure();
    const auto now = SteadyClock::now();
    const bool look = now >= next_look;
    if (look) next_look = now + kLookRound;
    const std::vector<int> late = laggards(flag, target, peer, who);
    check_gone(late, flag, target, who, look ? Look::kAskSystem : Look::kFlagsOnly);
    const auto left = options_.timeout - (now - start);
    if (left <= std::chrono::nanoseconds::zero()) {
      if (late.empty()) continue;
      std::string names;
      for (const int r : late) {
        names += fmt::format("{}{} ({})", names.empty() ? "" : "; ",
                             world_->describe(nth(members_, r)), whereabouts(r));
      }
      fail(fmt::format("no answer within {:.1f} s from: {}",
                       static_cast<double>(options_.timeout.count()) / 1e3, names));
    }
    sleep_on(flag, target, std::min<std::chrono::nanoseconds>(left, kLookRound));
  }
}

// The ranks whose fault the wait may be. In a collective that is anyone who is behind: the peer
// whose flag we sleep on may itself be waiting for a dead one.
std::vector<int> ShmComm::laggards(const Flag& flag, uint32_t target, int peer, Lagging who) const {
  std::vector<int> late;
  if (who == Lagging::kOnePeer) {
    if (!reached(flag, target)) late.push_back(peer);
    return late;
  }
  for (int r = 0; r < size_; ++r) {
    if (r != rank_ && !reached(slot(r).phase, target)) late.push_back(r);
  }
  return late;
}

// A death is the better explanation than the leaving of those who noticed it before us.
void ShmComm::check_gone(const std::vector<int>& late, const Flag& flag, uint32_t target,
                         Lagging who, Look look) {
  const auto world_rank = [&](int r) { return nth(members_, r); };
  std::vector<int> left, died;
  for (const int r : late) {
    if (slot(r).left.load(std::memory_order_acquire) != 0) left.push_back(r);
  }
  if (left.empty() && look == Look::kFlagsOnly) return;
  for (const int r : late) {
    // In this order: a rank that closed its end did so before its process ended.
    const bool dead = world_->is_dead(world_rank(r));
    if (dead && slot(r).left.load(std::memory_order_acquire) == 0) died.push_back(r);
  }
  const auto blame = [&](int r, const char* what) {
    // It may have come just before it went.
    if (reached(who == Lagging::kOnePeer ? flag : slot(r).phase, target)) return;
    fail(fmt::format("{} {}; it was last seen {}", world_->describe(world_rank(r)), what,
                     whereabouts(r)));
  };
  for (const int r : died) blame(r, "died");
  for (const int r : left) blame(r, "left the group");
}

std::string ShmComm::whereabouts(int rank) const {
  const uint64_t doing = slot(rank).doing.load(std::memory_order_relaxed);
  if (doing == 0) return "before its first call";
  const auto op = static_cast<CommOp>((doing >> 1) & 0x7fU);
  return fmt::format("{} {} #{}", (doing & 1U) != 0 ? "in" : "after", name_of(op), doing >> 8);
}

std::string ShmComm::current_call() const {
  return fmt::format("{} #{} on {}", name_of(op_), sequence_,
                     world_->describe(nth(members_, rank_)));
}

std::string ShmComm::failure() const {
  const uint32_t state = header().failure.load(std::memory_order_acquire);
  if (state == 0 && !token_->is_aborted()) return "";
  if (state != 2) return "aborted";
  const char* text = header().failure_text;
  return {text, strnlen(text, sizeof(Header::failure_text))};
}

void ShmComm::check_failure() const {
  const std::string cause = failure();
  if (cause.empty()) return;
  throw CommError(fmt::format("{}: the group has failed: {}", current_call(), cause));
}

// Not current_call(), which the thread that calls may be changing.
void ShmComm::check() {
  const std::string cause = failure();
  if (cause.empty()) return;
  throw CommError(
      fmt::format("{}: the group has failed: {}", world_->describe(nth(members_, rank_)), cause));
}

void ShmComm::publish_failure(const std::string& text) noexcept {
  uint32_t expected = 0;
  if (header().failure.compare_exchange_strong(expected, 1, std::memory_order_acq_rel)) {
    const size_t length = std::min(text.size(), sizeof(Header::failure_text) - 1);
    std::memcpy(header().failure_text, text.data(), length);
    header().failure_text[length] = '\0';
    header().failure.store(2, std::memory_order_release);
  }
  for (int r = 0; r < size_; ++r) {
    wake_all(slot(r).phase);
    for (int peer = 0; peer < size_; ++peer) {
      wake_all(layout_.mailbox(base_, r, peer).sent);
      wake_all(layout_.mailbox(base_, r, peer).received);
    }
  }
}

void ShmComm::fail(const std::string& text) {
  const std::string message = fmt::format("{}: {}", current_call(), text);
  publish_failure(message);
  throw CommError(message);
}

}  // namespace ds::detail
