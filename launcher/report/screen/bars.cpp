#include "launcher/report/screen/bars.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "cli/text/plot_axis.h"
#include "core/values/index.h"
#include "launcher/report/plot.h"

namespace ds {
namespace {

constexpr size_t kEighths = 8;

constexpr std::array<std::string_view, kEighths> kFromLeft{"",       "\u258F", "\u258E", "\u258D",
                                                           "\u258C", "\u258B", "\u258A", "\u2589"};
constexpr std::array<std::string_view, kEighths> kHeights{"\u2581", "\u2582", "\u2583", "\u2584",
                                                          "\u2585", "\u2586", "\u2587", "\u2588"};
constexpr std::array<std::string_view, kEighths> kAsciiHeights{"_", ".", ",", "-",
                                                               "=", "+", "*", "#"};

std::string repeated(std::string_view text, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += text;
  return out;
}

size_t level_of(double share) {
  const double level = std::clamp(share, 0.0, 1.0) * static_cast<double>(kEighths);
  return std::min(static_cast<size_t>(level), kEighths - 1);
}

}  // namespace

void add_bar(ScreenLine& line, double share, size_t columns, const ScreenLook& look) {
  const size_t steps = look.utf8 ? kEighths : 1;  // in which a column fills
  const double all = static_cast<double>(columns * steps);
  const auto filled = static_cast<size_t>(std::floor(std::clamp(share, 0.0, 1.0) * all));
  const size_t whole = filled / steps;
  std::string done = repeated(look.utf8 ? "\u2588" : "#", whole);
  size_t used = whole;
  if (filled % steps > 0) {
    done += kFromLeft.at(filled % steps);
    ++used;
  }
  line.add(done, Ink::kBar);
  line.add(repeated(look.utf8 ? "\u2591" : "-", columns - used));
}

Sparkline sparkline(const std::vector<PlotPoint>& points, size_t columns, const ScreenLook& look) {
  if (points.empty() || columns == 0) return {};
  const size_t each = std::max<size_t>(1, points.size() / columns);
  const size_t shown = std::min(points.size(), each * columns);
  const std::vector<PlotPoint> newest(points.end() - narrow<ptrdiff_t>(shown), points.end());
  const std::vector<PlotPoint> means = thinned(newest, columns);
  Sparkline out{.low = std::numeric_limits<double>::infinity(),
                .high = -std::numeric_limits<double>::infinity(),
                .first_step = newest.front().x};
  for (const PlotPoint& mean : means) {
    if (!std::isfinite(mean.y)) continue;
    out.low = std::min(out.low, mean.y);
    out.high = std::max(out.high, mean.y);
  }
  if (out.low > out.high) return {};
  const PlotAxis axis(out.low, out.high, ticks_for(out.low, out.high));
  for (const PlotPoint& mean : means) {
    const auto& heights = look.utf8 ? kHeights : kAsciiHeights;
    out.heights += std::isfinite(mean.y) ? heights.at(level_of(axis.share(mean.y))) : " ";
  }
  return out;
}

}  // namespace ds
