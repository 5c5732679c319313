#include "train/step/results.h"

#include "core/error.h"
#include "core/index.h"

namespace ds {

StepResults::StepResults(int late) : late_(late) {
  DS_CHECK(late >= 0 && late < kMost, "step results: {} steps late, expected 0 to {}", late,
           kMost - 1);
}

void StepResults::require_room() const {
  DS_CHECK(count_ < kMost, "begin step: {} steps are under way, take the result of step {} first",
           count_, nth(ring_, oldest_).step);
}

void StepResults::add(int64_t step, double lr, const StepScalars& scalars) {
  require_room();
  Entry& entry = nth(ring_, (oldest_ + count_) % kMost);
  entry = {.step = step, .lr = lr};
  entry.copied = scalars.copy_outcome(entry.outcome);
  ++count_;
}

std::optional<StepResults::Entry> StepResults::take(Wait wait) {
  if (count_ == 0) return std::nullopt;
  const Entry& entry = nth(ring_, oldest_);
  if (wait == Wait::kNo && (count_ <= late_ || !entry.copied.ready())) return std::nullopt;
  entry.copied.wait_on_host();
  oldest_ = (oldest_ + 1) % kMost;
  --count_;
  return entry;
}

void StepResults::drop_all() {
  while (take(Wait::kYes)) continue;
}

}  // namespace ds
