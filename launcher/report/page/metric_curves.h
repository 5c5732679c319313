// metrics.jsonl as curves over the steps (pure). Files of many millions of lines make curves of a
// bounded size.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/text/line_plot.h"

namespace ds {

// The curves are indexed by the names of the metrics. Numbers that are not finite are gaps.
using MetricCurves = std::map<std::string, std::vector<PlotPoint>>;

// Takes the lines one by one. A line that is none of ours (it is being written), and what is no
// metric in it, is passed over.
class MetricLines {
 public:
  // Up to this many steps a curve has each of them; beyond, points are means of neighbours, but for
  // the first and the last.
  static constexpr size_t kMostPoints = size_t{1} << 18;

  void add(std::string_view line);
  MetricCurves finish() const;

 private:
  struct Curve {
    PlotPoint first;
    PlotPoint last;
    std::vector<PlotPoint> means;  // of `steps_each` steps
    int64_t steps_each = 1;
    PlotPoint sum;  // of the last `summed` steps, fewer than `steps_each`
    int64_t summed = 0;
    int64_t steps = 0;
    void add(const PlotPoint& point);
    std::vector<PlotPoint> points() const;
  };
  std::map<std::string, Curve, std::less<>> curves_;
};

MetricCurves metric_curves(std::string_view lines);

}  // namespace ds
