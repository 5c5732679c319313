// Which connections from the network may stay (pure; clock injected). A connection proves itself
// when its rank is let in by token. Until then it is a stranger's, or, once it has shown the name
// that only those who hold this job's orders know, an acquaintance's. Of each kind there are at
// most so many, each for so long, and a host is judged by its failures of that kind alone: what
// others do on a rank's host costs the rank nothing. The name may have been overheard, so that
// acquaintances have limits, too. Connections that have proved themselves are never cut here.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/decide/watch/membership.h"

namespace ds {

class ConnectionRules {
 public:
  struct Options {
    size_t max_strangers = 256;
    size_t max_acquaintances = 64;
    Time proof_deadline = std::chrono::seconds(10);
    Time farewell = std::chrono::seconds(1);  // for the answer to reach one who was refused
    // Per host within `failure_window`.
    size_t max_stranger_failures = 5;
    size_t max_acquaintance_failures = 64;
    Time failure_window = std::chrono::seconds(1);
  };
  enum class Greeting { kKnowsTheName, kDoesNot };

  explicit ConnectionRules(const Options& options)
      : options_(options),
        strangers_{options.max_strangers, options.max_stranger_failures},
        acquaintances_{options.max_acquaintances, options.max_acquaintance_failures} {}

  // It is a stranger until it greets; `id` must be greater than any before.
  void arrived(Time now, uint64_t id, const std::string& host);
  // What it said first. False: others of its kind and host have failed too often just now. Cut it
  // unanswered; it is forgotten here.
  bool greeted(Time now, uint64_t id, Greeting greeting);
  void proven(uint64_t id);
  // It showed a wrong token or certificate.
  void refused(Time now, uint64_t id);
  // The connection is closed; that of somebody unproven counts as a failure of its host.
  void ended(Time now, uint64_t id);

  // Those unproven whose time is over, and those beyond the limits: of the host that holds most,
  // the oldest first. Cut them, then say ended().
  std::vector<uint64_t> to_cut(Time now) const;
  std::optional<Time> next_deadline() const;

  size_t unproven() const { return strangers_.clients.size() + acquaintances_.clients.size(); }
  uint64_t failures() const { return total_failures_; }

 private:
  struct Client {
    Time cut_at{};
    std::string host;
    bool counted = false;  // as a failure
  };
  struct Circle {
    size_t max_clients;
    size_t max_failures;
    std::map<uint64_t, Client> clients = {};                // oldest first
    std::map<std::string, std::deque<Time>> failures = {};  // by host

    bool is_barred(const std::string& host, Time since) const;
    void add_to_cut(Time now, std::vector<uint64_t>& out) const;
  };

  void forget_old_failures(Time now);
  void count_failure(Time now, Circle& circle, Client& client);
  Circle* circle_of(uint64_t id);

  const Options options_;
  Circle strangers_;
  Circle acquaintances_;
  Time forgotten_at_{};
  uint64_t total_failures_ = 0;
};

}  // namespace ds
