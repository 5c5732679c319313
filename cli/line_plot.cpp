#include "cli/line_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ds {
namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 400;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 32;
constexpr double kBottom = 40;

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

std::string ticks(const Axis& x, const Axis& y, PlotTicks kind) {
  std::string out;
  const double least = kind == PlotTicks::kWhole ? 1.0 : 0.0;
  const double dx = std::max(least, tick_width(x.high - x.low, 6));
  for (double v = std::ceil(x.low / dx) * dx; v <= x.high; v += dx) {
    out += fmt::format(
        "<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>\n", x.place(v),
        kHeight - kBottom + 18,
        kind == PlotTicks::kWhole ? fmt::format("{:.0f}", v) : fmt::format("{:.3g}", v));
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

std::string path_of(const PlotCurve& curve, const Axis& x, const Axis& y) {
  std::string path;
  std::string dots;  // of points that no line leads to
  bool pen_down = false;
  for (size_t i = 0; i < curve.points.size(); ++i) {
    const PlotPoint& p = curve.points[i];
    const bool here = std::isfinite(p.y);
    const bool goes_on = i + 1 < curve.points.size() && std::isfinite(curve.points[i + 1].y);
    if (here)
      path += fmt::format("{}{:.1f} {:.1f} ", pen_down ? 'L' : 'M', x.place(p.x), y.place(p.y));
    if (here && !pen_down && !goes_on) {
      dots += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='2.5' fill='{}'/>\n", x.place(p.x),
                          y.place(p.y), curve.colour);
    }
    pen_down = here;
  }
  return fmt::format("<path d='{}' fill='none' stroke='{}' stroke-width='1.5'/>\n{}", path,
                     curve.colour, dots);
}

// Which line is which, in the upper right corner; one line alone needs no name.
std::string legend(const std::vector<PlotCurve>& curves) {
  std::string out;
  constexpr double kBegins = kWidth - kRight - 100;
  for (size_t i = 0; curves.size() > 1 && i < curves.size(); ++i) {
    const double at = kTop + 10 + 16 * static_cast<double>(i);
    out +=
        fmt::format("<line x1='{0}' x2='{1}' y1='{2}' y2='{2}' stroke='{3}' stroke-width='2'/>\n",
                    kBegins, kBegins + 20, at, curves[i].colour);
    out += fmt::format("<text x='{}' y='{}'>{}</text>\n", kBegins + 26, at + 4, curves[i].name);
  }
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  }
  return out;
}

}  // namespace

std::string line_plot(std::string_view title, std::string_view x_name,
                      const std::vector<PlotCurve>& curves, PlotTicks x_ticks) {
  Axis x{0, 1, kLeft, kWidth - kRight};
  Axis y{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
         kHeight - kBottom, kTop};
  if (!curves.empty() && !curves.front().points.empty()) {
    x.low = curves.front().points.front().x;
    x.high = curves.front().points.back().x;
  }
  std::string lines;
  for (const PlotCurve& curve : curves) {
    for (const PlotPoint& p : curve.points) {
      x.low = std::min(x.low, p.x);
      x.high = std::max(x.high, p.x);
      if (!std::isfinite(p.y)) continue;
      y.low = std::min(y.low, p.y);
      y.high = std::max(y.high, p.y);
    }
  }
  if (x_ticks == PlotTicks::kWhole) x.high = std::max(x.high, x.low + 1);
  if (!(x.high > x.low)) x.high = x.low + 1;
  if (!(y.high > y.low)) {
    y.low = std::isfinite(y.low) ? y.low - 0.5 : 0;
    y.high = y.low + 1;
  }
  for (const PlotCurve& curve : curves) lines += path_of(curve, x, y);
  return fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1}' viewBox='0 0 {0} {1}' "
      "font-family='sans-serif' font-size='12'>\n<rect width='{0}' height='{1}' fill='white'/>\n"
      "<text x='{2}' y='20' font-size='14'>{3}</text>\n{4}{5}{6}"
      "<text x='{7}' y='{8}' text-anchor='middle'>{9}</text>\n</svg>\n",
      kWidth, kHeight, kLeft, escaped(title), ticks(x, y, x_ticks), lines, legend(curves),
      kWidth / 2, kHeight - 6, escaped(x_name));
}

}  // namespace ds
