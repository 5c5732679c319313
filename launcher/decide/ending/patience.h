// When a process that does not heed is to be ended (pure): signals that ask for its end and that
// nobody takes, and work that takes longer than it may. Time counts as far as somebody looked:
// whoever stood still as a whole (SIGSTOP, a machine that slept) could not heed either.
#pragma once

#include <optional>
#include <string>

#include "launcher/decide/text/clock_time.h"

namespace ds {

inline constexpr Time kUnheededSignal = std::chrono::seconds(10);

// Work that has a bound.
struct BoundedWork {
  std::string what;  // "ending the control server"
  Time longest{};
  int exit_code = 0;  // of the process, where it takes longer
};

class Patience {
 public:
  struct Verdict {
    int exit_code = 0;
    std::string why;
  };
  // `signal`: one that waits to be taken; `work`: what is under way, and `number` tells it from
  // other work. A verdict ends the process.
  std::optional<Verdict> look(Time now, std::optional<int> signal,
                              const std::optional<BoundedWork>& work, int number);

 private:
  std::optional<Time> looked_;
  Time unheeded_{};
  Time worked_{};
  int number_ = 0;
};

}  // namespace ds
