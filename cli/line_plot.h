// Lines over a number as a small stand-alone picture, an SVG (pure).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

// What x is: a count, of which no fraction is shown, or any number.
enum class PlotTicks : uint8_t { kWhole, kReal };

// The first curve is the widest; names are shown where there are several.
std::string line_plot(std::string_view title, std::string_view x_name,
                      const std::vector<PlotCurve>& curves, PlotTicks x_ticks = PlotTicks::kWhole);

}  // namespace ds
