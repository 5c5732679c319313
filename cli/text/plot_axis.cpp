#include "cli/text/plot_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ds {
namespace {

static_assert(std::numeric_limits<long double>::max_exponent10 >= 616,
              "spans and steps between doubles have to fit");

constexpr int kSteps = 6;  // about so many from end to end

// 1, 2 or 5 times a power of ten, so that about kSteps of them cover `span`.
struct Step {
  int power = 0;  // of ten, that divides it
  long double width = 1;
};

Step step_for(long double span) {
  const long double raw = span / kSteps;
  const int power = static_cast<int>(std::floor(std::log10(raw)));
  const long double unit = std::pow(10.0L, power);
  const long double lead = raw / unit;
  if (lead > 5) return {power + 1, std::pow(10.0L, power + 1)};
  return {power, unit * (lead <= 1 ? 1 : lead <= 2 ? 2 : 5)};
}

// How far apart the ends are at least, in parts of the larger one: labels of steps have as many
// digits as there is room for.
constexpr long double kLeastReal = 1e-4L;
constexpr long double kLeastWhole = 1e-12L;

constexpr double kDecade = 10;
constexpr double kLogFrom = 100;  // times the low end

bool spans(double low, double high, double factor) { return low > 0 && high / factor >= low; }

// "1e-5", not "1e-05".
std::string short_exponent(std::string text) {
  const size_t at = text.find('e');
  if (at == std::string::npos) return text;
  const size_t digits = at + 2;  // behind the sign
  text.erase(digits, text.find_first_not_of('0', digits) - digits);
  return text;
}

}  // namespace

PlotTicks ticks_for(double low, double high) {
  return spans(low, high, kLogFrom) ? PlotTicks::kLog : PlotTicks::kReal;
}

PlotAxis::PlotAxis(double low, double high, PlotTicks kind) : low_(low), high_(high), kind_(kind) {
  if (kind == PlotTicks::kLog) {
    if (spans(low, high, kDecade)) {
      low_ = std::log10(low_);
      high_ = std::log10(high_);
      return;
    }
    kind_ = PlotTicks::kReal;
  }
  const long double largest = std::max(std::abs(low_), std::abs(high_));
  const bool is_whole = kind == PlotTicks::kWhole;
  if (is_whole) high_ = std::max(high_, low_ + 1);
  if (high_ - low_ > largest * (is_whole ? kLeastWhole : kLeastReal)) return;
  // A flat line lies in the middle, half of its height from each end.
  const long double middle = low_ + (high_ - low_) / 2;
  const long double half = largest > 0 ? largest / 2 : 0.5L;
  constexpr long double kMost = std::numeric_limits<double>::max();
  low_ = std::max(middle - half, -kMost);
  high_ = std::min(middle + half, kMost);
}

double PlotAxis::share(long double value) const {
  if (kind_ == PlotTicks::kLog) value = std::log10(value);
  return static_cast<double>((value - low_) / (high_ - low_));
}

// 1, 2 and 5 of each decade where they are few, else powers of ten, as many decades apart as that
// takes.
std::vector<PlotTick> PlotAxis::decades() const {
  const auto first = static_cast<int>(std::floor(low_));
  const auto last = static_cast<int>(std::ceil(high_));
  const long double within =
      (high_ - low_) * 1e-10L;  // by which a round end may seem to lie outside
  const auto marks = [&](std::initializer_list<int> leads, int stride) {
    std::vector<PlotTick> out;
    for (int power = first; power <= last; ++power) {
      if (power % stride != 0) continue;
      for (const int lead : leads) {
        const long double at = power + std::log10(static_cast<long double>(lead));
        if (at < low_ - within || at > high_ + within) continue;
        const long double value = lead * std::pow(10.0L, power);
        out.push_back({static_cast<double>((at - low_) / (high_ - low_)),
                       short_exponent(fmt::format("{:g}", value))});
      }
    }
    return out;
  };
  std::vector<PlotTick> out = marks({1, 2, 5}, 1);
  for (int stride = 1; out.size() > kMostTicks; ++stride) out = marks({1}, stride);
  return out;
}

std::vector<PlotTick> PlotAxis::ticks() const {
  if (kind_ == PlotTicks::kLog) return decades();
  Step step = step_for(high_ - low_);
  if (kind_ == PlotTicks::kWhole && step.power < 0) step = {0, 1};
  const long double largest = std::max(std::abs(low_), std::abs(high_));
  // From the first digit of the largest to that of a step; four are never too many.
  const int digits =
      std::max(4, static_cast<int>(std::floor(std::log10(largest))) - step.power + 1);
  constexpr long double kMostInFull = 1e7L;  // of numbers that may have a fraction
  const bool in_full =
      kind_ == PlotTicks::kWhole ? largest < 1e15L : step.power >= 0 && largest < kMostInFull;
  std::vector<PlotTick> out;
  const long double first = std::ceil(low_ / step.width);
  const long double last = std::floor(high_ / step.width);
  for (int i = 0; i < kMostTicks && first + i <= last; ++i) {
    const long double at = (first + i) * step.width;
    const long double value = at + 0.0L;  // no -0
    out.push_back({static_cast<double>((at - low_) / (high_ - low_)),
                   in_full ? fmt::format("{:.0f}", value)
                           : short_exponent(fmt::format("{:.{}g}", value, digits))});
  }
  return out;
}

}  // namespace ds
