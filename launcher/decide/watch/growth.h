// When a run looks for hosts that it has lost or was promised, and when it grows onto those that
// answer (pure). A growth costs a save and a start, so that a host that comes and goes must not eat
// the run: the time between two of them doubles whenever a host is lost again. Refuses to know how
// hosts are reached and what a world is.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/decide/text/clock_time.h"

namespace ds {

class Growth {
 public:
  struct Options {
    Time first_retry = std::chrono::seconds(5);  // after a loss; doubled with every try that fails
    Time longest_retry = std::chrono::minutes(2);
    Time settle = std::chrono::seconds(2);  // hosts that come back together grow together
    // This is the least time between two growths; it doubles whenever a host is lost again.
    Time apart = std::chrono::minutes(1);
    Time longest_apart = std::chrono::minutes(30);
    Time shortest_run{};  // of a world before it grows
  };

  explicit Growth(const Options& options) : options_(options) {}

  void lost(Time now, const std::string& host);
  // It is said to be there: it is tried at once.
  void promised(Time now, const std::string& host);
  // The same for all that are missing.
  void look_now(Time now);

  // Hosts to try now, each once until missed() or found() says what came of it.
  std::vector<std::string> to_try(Time now);
  void missed(Time now, const std::string& host);
  void found(Time now, const std::string& host);

  // Whether any of them is not there now.
  bool misses_any() const;

  // Whether it is time to grow onto the hosts that were found; the caller knows whether that makes
  // a larger world.
  bool due(Time now) const;
  void grown(Time now);
  void begun(Time now);  // the first world

  Time next_deadline() const;

 private:
  struct Host {
    enum class State { kMissing, kTried, kThere } state = State::kMissing;
    Time retry_at{};
    Time wait{};
    bool came_back = false;  // once at least
  };

  const Options options_;
  std::map<std::string, Host> hosts_;  // those that were lost or promised, ever
  Time found_at_{};                    // the last one
  Time not_before_{};                  // the next growth
  Time apart_{};
};

}  // namespace ds
