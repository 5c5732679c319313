// wall_clock_breakdown: the parts of a step in milliseconds under DeepSpeed's names, means over the
// steps since the last lines, those of one micro-step too; and over the ranks the shortest, the
// mean and the longest, with whose that was. memory_breakdown: bytes by tier and by what they are
// for, at the same steps and before the first; over the ranks likewise. Every rank has one: the
// figures are gathered.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "comm/contract/host_exchange.h"
#include "train/measure/step_timer.h"
#include "train/settings/run_reports.h"
#include "train/workspace.h"

namespace ds {

// In the order of the lines: forward, backward, its inner part, its reduction, the update, batches,
// and what is left of the step.
inline constexpr std::array<std::string_view, 7> kBreakdownNames = {
    "fwd", "bwd", "bwd_inner", "bwd_allreduce", "step", "load", "rest"};
using Breakdown = std::array<double, kBreakdownNames.size()>;  // seconds
Breakdown breakdown_of(const StepTimes& times, double step_seconds);

// "time (ms) | fwd: 1.25 | bwd: ..."
std::string breakdown_line(const Breakdown& mean);
// The same of one micro-step, without what a step has once.
std::string micro_step_line(const Breakdown& mean, double micro_steps);
// "ranks, least/mean/most (ms) | fwd: 1.20/1.25/1.40 rank 1 on node-2 | ...": by rank.
std::string ranks_line(const std::vector<Breakdown>& of_ranks,
                       const std::vector<std::string>& hosts);
// "ranks, least/mean/most memory | device: 1.2 GiB/1.3 GiB/1.4 GiB rank 1 on node-2 | ...": what
// ranks had at most of each tier, by rank.
using TierPeaks = std::array<int64_t, kTiers>;
std::string memory_ranks_line(const std::vector<TierPeaks>& of_ranks,
                              const std::vector<std::string>& hosts);
// "memory | host: now 1.2 GiB, most 1.5 GiB (parameters 412 MiB, ...) | ..."
std::string memory_line(const TierUsage& usage);

class StepBreakdown final : public StepObserver {
 public:
  struct Options {
    bool times = true;
    bool memory = false;
    int64_t every = 0;  // steps between lines; 0: after the last step only
    int64_t last_step = 0;
  };
  // Collective: hosts are gathered.
  StepBreakdown(StepTimer& timer, HostExchange& host, const Workspace& workspace,
                RunReports& reports, const Options& options);

  void after_load(const std::string& note) override;
  void after_step(const StepReport& report) override;

 private:
  void report_step(int64_t step);

  StepTimer& timer_;
  HostExchange& host_;
  const Workspace& workspace_;
  RunReports& reports_;
  const Options options_;
  std::vector<std::string> hosts_;  // by rank
  Breakdown sum_{};
  int64_t steps_ = 0;  // in the sum
  int64_t micro_steps_ = 0;
};

}  // namespace ds
