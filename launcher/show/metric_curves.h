// metrics.jsonl as curves over the steps (pure).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/line_plot.h"

namespace ds {

// By the names of the metrics. Numbers that are not finite are gaps; a line that is not whole (it
// is being written) is none.
using MetricCurves = std::map<std::string, std::vector<PlotPoint>>;
MetricCurves metric_curves(std::string_view lines);

}  // namespace ds
