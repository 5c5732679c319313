// report.html (pure): one page about a run, which needs nothing beside itself: curves, where the
// time went, how ranks compare, restarts, what was planned beside what was measured, and what is
// trained how.
#pragma once

#include <string>
#include <string_view>

#include "launcher/report/page/metric_curves.h"

namespace ds {

// What files of the run directory say; empty where there are none yet.
struct RunFiles {
  std::string name{};      // of the run, for people
  MetricCurves metrics{};  // of metrics.jsonl
  std::string report{};    // the text of report.json
  std::string plan{};      // the text of plan.json
  std::string config{};    // the text of config.json
};
// DataError where a text is not what its name says.
std::string report_page(const RunFiles& files);

}  // namespace ds
