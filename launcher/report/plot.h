// loss.svg (pure): the loss over the steps, and that of the validation data, as a small stand-alone
// picture.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/text/line_plot.h"
#include "launcher/report/metrics_file.h"

namespace ds {

// Losses that are not finite leave gaps. Long runs are thinned to the mean of equal stretches.
std::string loss_plot(std::string_view title, const std::vector<MetricsFile::Point>& points);

// Marks where another generation of ranks goes on, after a fault or in another launch. Each point
// has the generation of a step; points may be means.
std::vector<PlotMark> restart_marks(const std::vector<PlotPoint>& generations);

// A picture has about one for each pixel.
inline constexpr size_t kMostPlotPoints = 600;
// Returns the means of equal stretches, at most `most`.
std::vector<PlotPoint> thinned(const std::vector<PlotPoint>& points, size_t most = kMostPlotPoints);

}  // namespace ds
