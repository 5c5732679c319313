#include "launcher/report/plot.h"

#include <algorithm>
#include <cmath>

namespace ds {
namespace {

using Point = MetricsFile::Point;

std::vector<PlotCurve> curves_of(const std::vector<Point>& points) {
  std::vector<PlotPoint> training;
  std::vector<PlotPoint> validation;
  for (const Point& point : points) {
    const auto step = static_cast<double>(point.step);
    training.push_back({step, point.loss});
    if (point.validation_loss) validation.push_back({step, *point.validation_loss});
  }
  std::vector<PlotCurve> curves{{"training", kBlue, thinned(training)}};
  if (!validation.empty()) curves.push_back({"validation", kRed, thinned(validation)});
  return curves;
}

}  // namespace

std::vector<PlotPoint> thinned(const std::vector<PlotPoint>& points, size_t most) {
  const size_t per_stretch = (points.size() + most - 1) / most;
  std::vector<PlotPoint> out;
  for (size_t begin = 0; begin < points.size(); begin += per_stretch) {
    const size_t end = std::min(begin + per_stretch, points.size());
    PlotPoint mean;
    for (size_t i = begin; i < end; ++i) {
      mean.x += points[i].x / static_cast<double>(end - begin);
      mean.y += points[i].y / static_cast<double>(end - begin);
    }
    out.push_back(mean);
  }
  return out;
}

std::vector<PlotMark> restart_marks(const std::vector<PlotPoint>& generations) {
  std::vector<PlotMark> out;
  if (generations.empty()) return out;
  // A mean of two generations belongs to the earlier.
  double newest = std::floor(generations.front().y);
  for (const PlotPoint& point : generations) {
    if (!(point.y >= newest + 1)) continue;
    out.push_back({point.x, "restart"});
    newest = std::floor(point.y);
  }
  return out;
}

std::string loss_plot(std::string_view title, const std::vector<Point>& points) {
  std::vector<PlotPoint> generations;
  for (const Point& point : points) {
    if (point.generation)
      generations.push_back({static_cast<double>(point.step), *point.generation});
  }
  return line_plot({.title = title,
                    .x_name = "step",
                    .curves = curves_of(points),
                    .marks = restart_marks(generations)});
}

}  // namespace ds
