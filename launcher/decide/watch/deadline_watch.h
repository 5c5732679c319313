// When a job has to stop so that its last save is done before somebody ends it (pure; clock
// injected). The later the better: what it needs is learned from the saves and steps of the run.
// Refuses to know who ends the job and how it is stopped.
#pragma once

#include <optional>
#include <string_view>

#include "launcher/decide/text/clock_time.h"

namespace ds {

class DeadlineWatch {
 public:
  // The job starts `now` and is ended at `end`.
  DeadlineWatch(Time now, Time end);

  void saved(Time now, Time duration);  // a checkpoint, which took so long
  void stepped(Time now);
  void restarted();  // the next step takes more than its own time

  Time end() const { return end_; }
  // The step under way has to end, then the save, which may take half as long again as the longest
  // one so far, and then the processes. Until something has been saved, a tenth of the job is kept
  // for it, at most a minute.
  Time stop_at() const;
  bool due(Time now) const { return now >= stop_at(); }

 private:
  const Time end_;
  const Time first_guess_;
  const Time margin_;
  std::optional<Time> longest_save_;
  std::optional<Time> last_step_;
  Time longest_step_{};
};

// The time left of a job as squeue says it (%L): "59", "4:05", "1:02:03", "2-03:04:05". nullopt for
// what is no such time: UNLIMITED, NOT_SET, INVALID.
std::optional<Time> parse_slurm_time_left(std::string_view text);

}  // namespace ds
