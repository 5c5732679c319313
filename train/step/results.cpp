#include "train/step/results.h"

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

StepResults::StepResults(int late, MemoryResource* pinned)
    : late_(late), outcomes_(kMost * sizeof(StepOutcome), pinned) {
  DS_CHECK(late >= 0 && late < kMost, "step results: {} steps late, expected 0 to {}", late,
           kMost - 1);
  for (int index = 0; index < kMost; ++index) new (&place(index)) StepOutcome;
}

StepResults::~StepResults() {
  for (const Entry& entry : ring_) {
    try {
      entry.copied.wait_on_host();
    } catch (const std::exception&) {  // the device failed, and nobody is left to be told
    }
  }
}

StepOutcome& StepResults::place(int index) const {
  return reinterpret_cast<StepOutcome*>(outcomes_.data())[index];
}

void StepResults::require_room() const {
  DS_CHECK(count_ < kMost, "begin step: {} steps are under way, take the result of step {} first",
           count_, nth(ring_, oldest_).step);
}

void StepResults::add(int64_t step, const StepScalars& scalars) {
  require_room();
  const int index = (oldest_ + count_) % kMost;
  place(index) = {};
  nth(ring_, index) = {.step = step, .copied = scalars.copy_outcome(place(index))};
  ++count_;
}

std::optional<StepResults::Entry> StepResults::take(Wait wait) {
  if (count_ == 0) return std::nullopt;
  Entry& entry = nth(ring_, oldest_);
  if (wait == Wait::kNo && (count_ <= late_ || !entry.copied.ready())) return std::nullopt;
  entry.copied.wait_on_host();
  entry.outcome = place(oldest_);
  oldest_ = (oldest_ + 1) % kMost;
  --count_;
  return entry;
}

void StepResults::drop_all() {
  while (take(Wait::kYes)) continue;
}

}  // namespace ds
