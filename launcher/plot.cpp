#include "launcher/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ds {
namespace {

using Point = MetricsFile::Point;

constexpr double kWidth = 720;
constexpr double kHeight = 400;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 32;
constexpr double kBottom = 40;
constexpr size_t kMaxPoints = 600;  // about one per pixel

struct Stretch {
  double step = 0;
  double loss = 0;
};

std::vector<Stretch> thinned(const std::vector<Point>& points) {
  const size_t per_stretch = (points.size() + kMaxPoints - 1) / kMaxPoints;
  std::vector<Stretch> out;
  for (size_t begin = 0; begin < points.size(); begin += per_stretch) {
    const size_t end = std::min(begin + per_stretch, points.size());
    Stretch mean;
    for (size_t i = begin; i < end; ++i) {
      mean.step += static_cast<double>(points[i].step) / static_cast<double>(end - begin);
      mean.loss += points[i].loss / static_cast<double>(end - begin);
    }
    out.push_back(mean);
  }
  return out;
}

// 1, 2 or 5 times a power of ten, so that about `count` ticks cover `span`.
double tick_width(double span, double count) {
  const double raw = span / count;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double lead = raw / power;
  return power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

struct Axis {
  double low = 0;
  double high = 1;
  double from = 0;  // pixels
  double to = 1;
  double place(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

std::string ticks(const Axis& x, const Axis& y) {
  std::string out;
  const double dx = std::max(1.0, tick_width(x.high - x.low, 6));
  for (double v = std::ceil(x.low / dx) * dx; v <= x.high; v += dx) {
    out += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{:.0f}</text>\n",
                       x.place(v), kHeight - kBottom + 18, v);
  }
  const double dy = tick_width(y.high - y.low, 6);
  for (double v = std::ceil(y.low / dy) * dy; v <= y.high; v += dy) {
    const double at = y.place(v);
    out += fmt::format("<line x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}' stroke='#ddd'/>\n", kLeft,
                       kWidth - kRight, at, at);
    out += fmt::format("<text x='{}' y='{:.1f}' text-anchor='end'>{:.4g}</text>\n", kLeft - 6,
                       at + 4, v);
  }
  return out;
}

std::string curve(const std::vector<Stretch>& line, const Axis& x, const Axis& y) {
  std::string path;
  bool pen_down = false;
  for (const Stretch& p : line) {
    if (std::isfinite(p.loss)) {
      path += fmt::format("{}{:.1f} {:.1f} ", pen_down ? 'L' : 'M', x.place(p.step),
                          y.place(p.loss));
    }
    pen_down = std::isfinite(p.loss);
  }
  return fmt::format("<path d='{}' fill='none' stroke='#1f6feb' stroke-width='1.5'/>\n", path);
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  }
  return out;
}

}  // namespace

std::string loss_plot(std::string_view title, const std::vector<Point>& points) {
  const std::vector<Stretch> line = thinned(points);
  Axis x{0, 1, kLeft, kWidth - kRight};
  Axis y{INFINITY, -INFINITY, kHeight - kBottom, kTop};
  if (!line.empty()) {
    x.low = line.front().step;
    x.high = std::max(line.back().step, x.low + 1);
  }
  for (const Stretch& p : line) {
    if (std::isfinite(p.loss)) {
      y.low = std::min(y.low, p.loss);
      y.high = std::max(y.high, p.loss);
    }
  }
  if (!(y.high > y.low)) {
    y.low = std::isfinite(y.low) ? y.low - 0.5 : 0;
    y.high = y.low + 1;
  }
  return fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1}' viewBox='0 0 {0} {1}' "
      "font-family='sans-serif' font-size='12'>\n<rect width='{0}' height='{1}' fill='white'/>\n"
      "<text x='{2}' y='20' font-size='14'>{3}</text>\n{4}{5}"
      "<text x='{6}' y='{7}' text-anchor='middle'>step</text>\n</svg>\n",
      kWidth, kHeight, kLeft, escaped(title), ticks(x, y), curve(line, x, y), kWidth / 2,
      kHeight - 6);
}

}  // namespace ds
