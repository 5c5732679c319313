// The verbs that look at a run from outside: `dslaunch
// status|top|tail|stack|ctl|report|trace [RUN_DIR]`.
#pragma once

#include "cli/verbs/reports/report.h"
#include "cli/verbs/reports/trace.h"
#include "cli/verbs/watch/ctl.h"
#include "cli/verbs/watch/stack.h"
#include "cli/verbs/watch/status.h"
#include "cli/verbs/watch/tail.h"
#include "cli/verbs/watch/top.h"
#include "launcher/report/terminal/screen_line.h"

namespace ds {

// `run` is the run that is meant, see meant_run(). Each prints to standard output and returns the
// exit code. They throw InputMissing where there is no such run, and what query_run() throws.
int run_status(const StatusOptions& options);
int run_top(const TopOptions& options, const ScreenLook& look);  // of standard output
int run_tail(const TailOptions& options);
int run_stack(const StackOptions& options);
int run_ctl(const CtlOptions& options);
int run_report(const ReportOptions& options);
int run_trace(const TraceOptions& options);

}  // namespace ds
