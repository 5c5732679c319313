#include "rankd/control/pressure_words.h"

#include <fmt/format.h>

namespace ds {

std::string PressureWords::look(TimePoint now, const MemoryPressure& pressure) {
  if (pressure.stalled_percent < kWorthSaying || (said_at_ && now - *said_at_ < kApart)) return "";
  said_at_ = now;
  const bool throttled = pressure.high && pressure.high_events.value_or(0) > 0;
  return fmt::format(
      "memory is short: in the last 10 s nothing of {} ran for {:.0f} % of the time, waiting for "
      "memory{}; the run goes "
      "on, as slowly as that. {}, or use a smaller micro-batch, a higher ZeRO stage or more ranks",
      pressure.whose, pressure.stalled_percent,
      throttled ? fmt::format(" (its memory.high of {} bytes was exceeded {} times)",
                              *pressure.high, *pressure.high_events)
                : "",
      throttled ? "Raise memory.high" : "End what else uses memory there");
}

}  // namespace ds
