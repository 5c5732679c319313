// What `dslaunch top` shows of a run (pure): how it goes, the newest of its loss and throughput as
// sparklines, and its ranks. Never wider or higher than the look: lines are cut, columns, lines and
// ranks left out, the least important first.
#pragma once

#include <vector>

#include "launcher/control/run_status.h"
#include "launcher/report/page/metric_curves.h"
#include "launcher/report/terminal/screen_line.h"

namespace ds {

// `recent`: the newest steps of the run; empty where nobody knows them.
std::vector<ScreenLine> top_screen(const RunStatus& status, const MetricCurves& recent,
                                   const ScreenLook& look);

}  // namespace ds
