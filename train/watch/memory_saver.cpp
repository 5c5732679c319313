#include "train/watch/memory_saver.h"

#include <chrono>

#include "core/status/error.h"
#include "core/tasks/clock.h"
#include "train/measure/step_note.h"

namespace ds {

// The step alone decides: ranks may see differently whether a checkpoint was saved if one fails.
bool MemorySaver::needs_edge(int64_t steps_done) const {
  return (steps_done % options_.every == 0 || put_off_) && steps_done < options_.last_step;
}

void MemorySaver::at_edge(int64_t steps_done) {
  if (!needs_edge(steps_done)) return;
  put_off_ = !memory_.is_progress();
  if (put_off_) return;
  reports_.report_progress({.step = steps_done, .micro_step = 0, .phase = "save"});
  const auto start = std::chrono::steady_clock::now();
  try {
    memory_.set_note(options_.rank == 0 ? to_notes(reports_.untaken_steps()) : "");
    memory_.save(steps_done % options_.copy_every == 0 ? MemoryTier::Replica::kPeerHost
                                                       : MemoryTier::Replica::kOwnHost);
    failures_ = 0;
    seconds_ += seconds_since(start);
    ++saves_;
  } catch (const IoError& failure) {
    const bool tell = failures_++ == 0 && options_.rank == 0;
    if (tell) reports_.report_text(fmt::format("warning: {}", failure.what()));
  }
}

void MemorySaver::measure(Measured& measured) const {
  if (saves_ == 0) return;
  measured.results["seconds_per_memory_save"] = seconds_ / static_cast<double>(saves_);
}

}  // namespace ds
