#include "comm/ledger.h"

namespace ds {

Ledger::Ledger(size_t capacity, const Clock& clock) : clock_(clock), ring_(capacity) {
  DS_CHECK(capacity > 0, "ledger: capacity 0");
}

uint64_t Ledger::enter(std::string_view group, uint64_t sequence, CommOp op, int64_t bytes,
                       std::string_view label) {
  const int64_t now = clock_.now_ns();
  const std::lock_guard lock(ring_mutex_);
  const uint64_t number = ++entered_;
  LedgerEntry& entry = ring_[number % ring_.size()];  // its strings' memory is reused
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
  LedgerEntry& entry = ring_[number % ring_.size()];
  if (entry.number == number) entry.exit_ns = now;  // else the ring has gone round meanwhile
}

std::optional<LedgerEntry> Ledger::newest() const {
  const std::lock_guard lock(ring_mutex_);
  return entered_ == 0 ? std::nullopt : std::optional(ring_[entered_ % ring_.size()]);
}

std::vector<LedgerEntry> Ledger::entries() const {
  const std::lock_guard lock(ring_mutex_);
  std::vector<LedgerEntry> result;
  const uint64_t kept = std::min<uint64_t>(entered_, ring_.size());
  for (uint64_t number = entered_ - kept + 1; number <= entered_; ++number) {
    result.push_back(ring_[number % ring_.size()]);
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
