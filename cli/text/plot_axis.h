// One axis of a plot (pure): where values lie on it, and which round numbers are marked. Whatever
// finite numbers it spans, 0 and one-bit steps and the largest of all among them, the marks are few
// and their labels differ. Refuses to know pixels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ds {

// What an axis counts: things, of which no fraction is shown; any number; or numbers above 0 by
// their logarithm, so that equal factors lie equally far apart.
enum class PlotTicks : uint8_t { kWhole, kReal, kLog };

// kLog for numbers above 0 that span decades, of which another axis would show the largest alone;
// else kReal.
PlotTicks ticks_for(double low, double high);

struct PlotTick {
  double share = 0;  // of the way from the low end to the high one
  std::string label;
};

class PlotAxis {
 public:
  // Finite ends, low <= high. They move apart where labels of a few digits could not tell them from
  // each other. kLog is kReal for ends that are less than a decade apart, or not above 0.
  PlotAxis(double low, double high, PlotTicks kind);

  double share(long double value) const;  // 0 at the low end, 1 at the high one
  std::vector<PlotTick> ticks() const;
  static constexpr int kMostTicks = 8;

 private:
  std::vector<PlotTick> decades() const;

  // Wider than double, so that neither spans nor steps overflow or vanish.
  long double low_;  // where it is kLog, these are logarithms to base 10
  long double high_;
  PlotTicks kind_;
};

}  // namespace ds
