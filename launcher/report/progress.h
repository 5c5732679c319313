// The progress of a run in words (pure): one line per step, when to print it, how long it still
// takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/values/step_metrics.h"
#include "launcher/decide/text/amounts.h"
#include "launcher/decide/watch/hang_watch.h"
#include "launcher/decide/watch/membership.h"

namespace ds {

std::string format_bytes(int64_t bytes);     // "412 MiB"
std::string format_rate(double per_second);  // "12.3k"

// "loss 3.412", "lr 3.00e-04", "12.3k tok/s": what is known of a step, the most important first.
std::vector<std::string> metric_words(const StepMetrics& metrics);
// As many of them as fit, two blanks between.
std::string figures_within(const StepMetrics& metrics, size_t columns);

// "step 120/2000  loss 3.412  lr 3.00e-04  norm 1.23  12.3k tok/s  mem 412 MiB  ETA 3m12s"
std::string step_line(const StepMetrics& metrics, std::optional<Time> left);

// The same in so many columns: words are left out from the end, the time that is left stays.
std::string step_line_within(const StepMetrics& metrics, std::optional<Time> left, size_t columns);

// What stays on a terminal when the run is over: its last step, and the newest validation loss
// where that is of an earlier one.
std::string last_line(const StepMetrics& last, const std::optional<StepMetrics>& validated);

// "step 400/2000  evaluating, batch 12": what a terminal shows of a rank that makes no steps just
// now; nothing while it trains.
std::optional<std::string> phase_line(const RankProgress& progress,
                                      const std::optional<StepMetrics>& last);

// Time to the end from the pace of the newer half of the steps since the start: saves count with
// the share that they have, evaluations one by one, as soon as one has shown how long it takes, and
// several reports may come at once.
class PaceEstimate {
 public:
  // The time left after this step; nothing while there is no pace yet. `evaluation`: how long the
  // one after this step took; nothing: there was none.
  std::optional<Time> update(Time now, int64_t step, int64_t total_steps,
                             std::optional<Time> evaluation = std::nullopt);

 private:
  struct Mark {
    Time at{};  // without evaluations
    int64_t step = 0;
  };
  Time of_evaluations(int64_t step, int64_t total_steps) const;

  std::vector<Mark> marks_;  // the first step, some between, the newest
  Time evaluated_{};         // since the start
  Time evaluation_{};        // the newest
  int64_t evaluated_step_ = 0;
  int64_t evaluated_every_ = 0;  // steps; 0: there was none yet
};

// Which steps a batch log shows: the first, the last, every n-th, and one at least every 10 s.
class PrintPolicy {
 public:
  explicit PrintPolicy(int64_t steps_per_print) : steps_per_print_(steps_per_print) {}
  bool wants(Time now, int64_t step, int64_t total_steps);

 private:
  const int64_t steps_per_print_;
  std::optional<Time> last_;
};

}  // namespace ds
