// One axis of a plot (pure): where values lie on it, and which round numbers are marked. Whatever
// finite numbers it spans, 0 and one-bit steps and the largest of all among them, the marks are few
// and their labels differ. Refuses to know pixels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ds {

// What an axis counts: things, of which no fraction is shown, or any number.
enum class PlotTicks : uint8_t { kWhole, kReal };

struct PlotTick {
  double share = 0;  // of the way from the low end to the high one
  std::string label;
};

class PlotAxis {
 public:
  // Finite ends, low <= high. They move apart where labels of a few digits could not tell them from
  // each other.
  PlotAxis(double low, double high, PlotTicks kind);

  double share(long double value) const;  // 0 at the low end, 1 at the high one
  std::vector<PlotTick> ticks() const;
  static constexpr int kMostTicks = 8;

 private:
  // Wider than double, so that neither spans nor steps overflow or vanish.
  long double low_;
  long double high_;
  PlotTicks kind_;
};

}  // namespace ds
