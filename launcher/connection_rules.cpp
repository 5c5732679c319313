#include "launcher/connection_rules.h"

#include <algorithm>
#include <utility>

namespace ds {

void ConnectionRules::forget_old_failures(Time now) {
  for (auto host = failures_.begin(); host != failures_.end();) {
    std::deque<Time>& times = host->second;
    while (!times.empty() && now - times.front() >= options_.failure_window) {
      times.pop_front();
    }
    host = times.empty() ? failures_.erase(host) : std::next(host);
  }
}

bool ConnectionRules::arrived(Time now, uint64_t id, const std::string& host) {
  forget_old_failures(now);
  const auto failed = failures_.find(host);
  if (failed != failures_.end() && failed->second.size() >= options_.max_failures) {
    return false;
  }
  strangers_[id] = {now + options_.proof_deadline, host};
  return true;
}

void ConnectionRules::proven(uint64_t id) { strangers_.erase(id); }

void ConnectionRules::count_failure(Time now, Stranger& stranger) {
  if (std::exchange(stranger.counted, true)) {
    return;
  }
  ++total_failures_;
  std::deque<Time>& times = failures_[stranger.host];
  times.push_back(now);
  if (times.size() > options_.max_failures) {
    times.pop_front();
  }
}

void ConnectionRules::refused(Time now, uint64_t id) {
  const auto stranger = strangers_.find(id);
  if (stranger != strangers_.end()) {
    stranger->second.cut_at = std::min(stranger->second.cut_at, now + options_.farewell);
    count_failure(now, stranger->second);
  }
}

void ConnectionRules::ended(Time now, uint64_t id) {
  const auto stranger = strangers_.find(id);
  if (stranger != strangers_.end()) {
    count_failure(now, stranger->second);
    strangers_.erase(stranger);
  }
}

std::vector<uint64_t> ConnectionRules::to_cut(Time now) const {
  std::vector<uint64_t> out;
  size_t left = strangers_.size();
  for (const auto& [id, stranger] : strangers_) {
    if (now >= stranger.cut_at || left > options_.max_strangers) {
      out.push_back(id);
      --left;
    }
  }
  return out;
}

std::optional<Time> ConnectionRules::next_deadline() const {
  std::optional<Time> earliest;
  for (const auto& [id, stranger] : strangers_) {
    earliest = std::min(earliest.value_or(stranger.cut_at), stranger.cut_at);
  }
  return earliest;
}

}  // namespace ds
