// Lines over a number as a small stand-alone picture, an SVG (pure).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/text/plot_axis.h"

namespace ds {

struct PlotPoint {
  double x = 0;
  double y = 0;  // what is not finite leaves a gap
};

struct PlotCurve {
  std::string_view name;
  std::string_view colour;  // "#1f6feb"
  std::vector<PlotPoint> points;
};

inline constexpr std::string_view kBlue = "#1f6feb";
inline constexpr std::string_view kRed = "#d1242f";

// Something that happened at a place of x: a broken line from bottom to top with a word.
struct PlotMark {
  double x = 0;
  std::string_view word;
};

struct LinePlot {
  std::string_view title;
  std::string_view x_name;
  std::vector<PlotCurve> curves;  // their names are shown where there are several
  PlotTicks x_ticks = PlotTicks::kWhole;
  std::optional<PlotTicks> y_ticks{};  // nothing: ticks_for() the numbers that there are
  std::vector<PlotMark> marks{};
};
// Paper, grid and marks have these words as classes, so that a page can give them its colours.
std::string line_plot(const LinePlot& plot);

}  // namespace ds
