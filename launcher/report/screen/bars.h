// Bars and sparklines of a screen (pure): block characters, or ASCII where the look has no UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/text/line_plot.h"
#include "launcher/report/terminal/screen_line.h"

namespace ds {

// Adds `columns` of which a share, 0 to 1, is filled, rounded down to an eighth of a column.
void add_bar(ScreenLine& line, double share, size_t columns, const ScreenLook& look);

// The newest points of a curve as one line of heights.
struct Sparkline {
  std::string heights{};  // at most `columns`: a blank for numbers that are not finite
  double low = 0;         // of the means that are shown
  double high = 0;
  double first_step = 0;  // of the points that are shown; the last is the newest
};
// Each column is the mean of equally many points, as many as the curve has for each column. Has no
// heights where no number is finite.
Sparkline sparkline(const std::vector<PlotPoint>& points, size_t columns, const ScreenLook& look);

}  // namespace ds
