#include "cli/text/line_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cli/text/markup_text.h"

namespace ds {
namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 400;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 32;
constexpr double kBottom = 40;
constexpr double kLegendBegins = kWidth - kRight - 100;

// An axis and where it lies in the picture.
struct Placed {
  PlotAxis axis;
  double from;  // pixels
  double to;
  double at(double share) const { return from + share * (to - from); }
  double place(double value) const { return at(axis.share(value)); }
};

std::string ticks(const Placed& x, const Placed& y) {
  std::string out;
  for (const PlotTick& tick : x.axis.ticks()) {
    out += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>\n",
                       x.at(tick.share), kHeight - kBottom + 18, tick.label);
  }
  for (const PlotTick& tick : y.axis.ticks()) {
    const double at = y.at(tick.share);
    out +=
        fmt::format("<line x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}' stroke='#ddd' class='grid'/>\n",
                    kLeft, kWidth - kRight, at, at);
    out += fmt::format("<text x='{}' y='{:.1f}' text-anchor='end'>{}</text>\n", kLeft - 6, at + 4,
                       tick.label);
  }
  return out;
}

bool is_finite(const PlotPoint& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

std::string path_of(const PlotCurve& curve, const Placed& x, const Placed& y) {
  std::string path;
  std::string dots;  // of points that no line leads to
  bool pen_down = false;
  for (size_t i = 0; i < curve.points.size(); ++i) {
    const PlotPoint& p = curve.points[i];
    const bool here = is_finite(p);
    const bool goes_on = i + 1 < curve.points.size() && is_finite(curve.points[i + 1]);
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
  for (size_t i = 0; curves.size() > 1 && i < curves.size(); ++i) {
    const double at = kTop + 10 + 16 * static_cast<double>(i);
    out +=
        fmt::format("<line x1='{0}' x2='{1}' y1='{2}' y2='{2}' stroke='{3}' stroke-width='2'/>\n",
                    kLegendBegins, kLegendBegins + 20, at, curves[i].colour);
    out += fmt::format("<text x='{}' y='{}'>{}</text>\n", kLegendBegins + 26, at + 4,
                       markup_text(curves[i].name));
  }
  return out;
}

// The numbers that a curve reaches, none at first.
struct Reach {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  PlotAxis axis(std::optional<PlotTicks> kind) const {
    if (low > high) return PlotAxis(0, 1, PlotTicks::kReal);
    return PlotAxis(low, high, kind.value_or(ticks_for(low, high)));
  }
};

// Those that are apart by a pixel, words where there is room for them.
std::string marks_of(const std::vector<PlotMark>& marks, const Reach& over, const Placed& x) {
  constexpr double kWordWidth = 64;
  std::string out;
  double line_at = -kWidth;
  double word_at = -kWidth;
  for (const PlotMark& mark : marks) {
    if (!(mark.x >= over.low && mark.x <= over.high)) continue;
    const double at = x.place(mark.x);
    if (at < line_at + 1) continue;
    line_at = at;
    out += fmt::format(
        "<line x1='{0:.1f}' x2='{0:.1f}' y1='{1}' y2='{2}' stroke='#57606a' "
        "stroke-dasharray='4 3' class='mark'/>\n",
        at, kTop, kHeight - kBottom);
    if (at < word_at + kWordWidth || at > kLegendBegins - kWordWidth) continue;
    word_at = at;
    out += fmt::format("<text x='{:.1f}' y='{}'>{}</text>\n", at + 4, kTop + 10,
                       markup_text(mark.word));
  }
  return out;
}

}  // namespace

std::string line_plot(const LinePlot& plot) {
  Reach over;
  Reach up;
  for (const PlotCurve& curve : plot.curves) {
    for (const PlotPoint& point : curve.points) {
      if (std::isfinite(point.x)) over.take(point.x);
      if (is_finite(point)) up.take(point.y);
    }
  }
  const Placed x{over.axis(plot.x_ticks), kLeft, kWidth - kRight};
  const Placed y{up.axis(plot.y_ticks), kHeight - kBottom, kTop};
  std::string lines = marks_of(plot.marks, over, x);
  for (const PlotCurve& curve : plot.curves) lines += path_of(curve, x, y);
  return fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1}' viewBox='0 0 {0} {1}' "
      "font-family='sans-serif' font-size='12'>\n<rect width='{0}' height='{1}' fill='white' "
      "class='paper'/>\n"
      "<text x='{2}' y='20' font-size='14'>{3}</text>\n{4}{5}{6}"
      "<text x='{7}' y='{8}' text-anchor='middle'>{9}</text>\n</svg>\n",
      kWidth, kHeight, kLeft, markup_text(plot.title), ticks(x, y), lines, legend(plot.curves),
      kWidth / 2, kHeight - 6, markup_text(plot.x_name));
}

}  // namespace ds
