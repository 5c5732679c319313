// Which connections from the network may stay (pure; clock injected). A connection proves itself
// when its rank is let in by token. Until then it is a stranger's: there are at most so many of
// them, each for so long, and a host whose strangers keep failing is not listened to for a while.
// Connections that have proved themselves are never cut here.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/membership.h"

namespace ds {

class ConnectionRules {
 public:
  struct Options {
    size_t max_strangers = 256;
    Time proof_deadline = std::chrono::seconds(10);
    Time farewell = std::chrono::seconds(1);  // for the answer to reach one who was refused
    size_t max_failures = 5;                  // per host within `failure_window`
    Time failure_window = std::chrono::seconds(1);
  };

  explicit ConnectionRules(const Options& options) : options_(options) {}

  // False: the host has failed too often just now, drop it unread. Otherwise it is a stranger until
  // proven(); `id` must be greater than any before.
  bool arrived(Time now, uint64_t id, const std::string& host);
  void proven(uint64_t id);
  // It showed a wrong token or certificate.
  void refused(Time now, uint64_t id);
  // The connection is closed; a stranger's counts as a failure of its host.
  void ended(Time now, uint64_t id);

  // Strangers whose time is over, and the oldest ones beyond the limit: whoever holds many
  // connections open pushes out their own first. Cut them, then say ended().
  std::vector<uint64_t> to_cut(Time now) const;
  std::optional<Time> next_deadline() const;

  size_t strangers() const { return strangers_.size(); }
  uint64_t failures() const { return total_failures_; }

 private:
  struct Stranger {
    Time cut_at{};
    std::string host;
    bool counted = false;  // as a failure
  };

  void forget_old_failures(Time now);
  void count_failure(Time now, Stranger& stranger);

  const Options options_;
  std::map<uint64_t, Stranger> strangers_;  // oldest first
  std::map<std::string, std::deque<Time>> failures_;
  uint64_t total_failures_ = 0;
};

}  // namespace ds
