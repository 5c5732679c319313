#include "comm/ledger.h"

namespace ds {
namespace {

// What broke a device is told by whoever waits for it.
bool is_reached(const Event& event) {
  try {
    return event.ready();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Ledger::Ledger(size_t capacity, const Clock& clock) : clock_(clock), ring_(capacity) {
  DS_CHECK(capacity > 0, "ledger: capacity 0");
}

uint64_t Ledger::enter(std::string_view group, uint64_t sequence, CommOp op, int64_t bytes,
                       std::string_view label) {
  const int64_t now = clock_.now_ns();
  const std::lock_guard lock(ring_mutex_);
  const uint64_t number = ++entered_;
  Kept& place = ring_[number % ring_.size()];
  if (place.done && !is_reached(*place.done)) overdue_.push_back(place);
  place.done.reset();
  LedgerEntry& entry = place.entry;  // its strings' memory is reused
  entry.number = number;
  entry.group = group;
  entry.sequence = sequence;
  entry.op = op;
  entry.bytes = bytes;
  entry.label = label;
  entry.enter_ns = now;
  entry.exit_ns = -1;
  return number;
}

void Ledger::exit(uint64_t number) {
  const int64_t now = clock_.now_ns();
  const std::lock_guard lock(ring_mutex_);
  LedgerEntry& entry = ring_[number % ring_.size()].entry;
  if (entry.number == number) entry.exit_ns = now;  // else the ring has gone round meanwhile
}

void Ledger::exit(uint64_t number, Event done) {
  const std::lock_guard lock(ring_mutex_);
  Kept& place = ring_[number % ring_.size()];
  if (place.entry.number == number) place.done = std::move(done);
}

void Ledger::look() const {
  const int64_t now = clock_.now_ns();
  std::erase_if(overdue_, [](const Kept& kept) { return is_reached(*kept.done); });
  for (Kept& kept : ring_) {
    if (!kept.done || !is_reached(*kept.done)) continue;
    kept.entry.exit_ns = now;
    kept.done.reset();
  }
}

std::optional<LedgerEntry> Ledger::current() const {
  const std::lock_guard lock(ring_mutex_);
  look();
  if (entered_ == 0) return std::nullopt;
  if (!overdue_.empty()) return overdue_.front().entry;
  const LedgerEntry* found = &ring_[entered_ % ring_.size()].entry;
  for (const Kept& kept : ring_) {
    if (kept.done && kept.entry.number < found->number) found = &kept.entry;
  }
  return *found;
}

std::vector<LedgerEntry> Ledger::entries() const {
  const std::lock_guard lock(ring_mutex_);
  look();
  std::vector<LedgerEntry> result;
  for (const Kept& kept : overdue_) result.push_back(kept.entry);
  const uint64_t in_ring = std::min<uint64_t>(entered_, ring_.size());
  for (uint64_t number = entered_ - in_ring + 1; number <= entered_; ++number) {
    result.push_back(ring_[number % ring_.size()].entry);
  }
  return result;
}

std::string Ledger::to_text() const {
  std::string text;
  for (const LedgerEntry& entry : entries()) {
    text += fmt::format("{} {} #{} {} bytes={} enter_ns={} ", entry.number, entry.group,
                        entry.sequence, name_of(entry.op), entry.bytes, entry.enter_ns);
    text +=
        entry.exit_ns < 0 ? "inside" : fmt::format("took_ns={}", entry.exit_ns - entry.enter_ns);
    text += entry.label.empty() ? "\n" : fmt::format(" for {}\n", entry.label);
  }
  return text;
}

}  // namespace ds
