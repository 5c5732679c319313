// Lines over a number as a small stand-alone picture, an SVG (pure).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/plot_axis.h"

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

// `x_ticks`: what x is. Names are shown where there are several curves.
std::string line_plot(std::string_view title, std::string_view x_name,
                      const std::vector<PlotCurve>& curves, PlotTicks x_ticks = PlotTicks::kWhole);

}  // namespace ds
