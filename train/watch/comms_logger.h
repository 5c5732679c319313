// comms_logger: every call to peers, of the operations that were asked for, and at the end the
// tables of all of them, with what ranks waited for each other. On every rank: the tables are
// gathered.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "comm/contract/host_exchange.h"
#include "config/sections/monitor.h"
#include "train/measure/step_timer.h"
#include "train/settings/run_reports.h"
#include "train/watch/comms_table.h"

namespace ds {

// "comm op: all_reduce | time (ms): 0.12 | msg size: 4 KB | algbw (Gbps): 1.20 | busbw ..."
std::string call_line(std::string_view name, const MeasuredCall& call);

class CommsLogger final : public StepObserver {
 public:
  CommsLogger(StepTimer& timer, HostExchange& host, RunReports& reports,
              const CommsLoggerConfig& config);

  void after_step(const StepReport& report) override;
  void before_exit(RunEnd end) override;

 private:
  void add(const MeasuredCall& call);

  StepTimer& timer_;
  HostExchange& host_;
  RunReports& reports_;
  const CommsLoggerConfig config_;
  CommsTable table_;
};

}  // namespace ds
