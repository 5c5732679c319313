#include "launcher/decide/watch/growth.h"

#include <algorithm>

namespace ds {

void Growth::lost(Time now, const std::string& host) {
  Host& entry = hosts_[host];
  // One that came back and is gone again makes us wary: it has cost two starts.
  if (entry.came_back) {
    apart_ = std::min(options_.longest_apart, std::max(apart_, options_.apart) * 2);
    not_before_ = std::max(not_before_, now + apart_);
  }
  entry.state = Host::State::kMissing;
  entry.wait = options_.first_retry;
  entry.retry_at = now + entry.wait;
}

void Growth::promised(Time now, const std::string& host) {
  Host& entry = hosts_[host];
  if (entry.state != Host::State::kMissing) return;
  entry.wait = options_.first_retry;
  entry.retry_at = now;
}

void Growth::look_now(Time now) {
  for (auto& [name, host] : hosts_) {
    if (host.state == Host::State::kMissing) host.retry_at = now;
  }
}

std::vector<std::string> Growth::to_try(Time now) {
  std::vector<std::string> out;
  for (auto& [name, host] : hosts_) {
    if (host.state == Host::State::kMissing && host.retry_at <= now) {
      host.state = Host::State::kTried;
      out.push_back(name);
    }
  }
  return out;
}

void Growth::missed(Time now, const std::string& host) {
  Host& entry = hosts_[host];
  entry.state = Host::State::kMissing;
  entry.wait = std::min(options_.longest_retry, std::max(entry.wait, options_.first_retry) * 2);
  entry.retry_at = now + entry.wait;
}

void Growth::found(Time now, const std::string& host) {
  Host& entry = hosts_[host];
  entry.state = Host::State::kThere;
  entry.came_back = true;
  found_at_ = now;
}

bool Growth::misses_any() const {
  return std::ranges::any_of(
      hosts_, [](const auto& entry) { return entry.second.state != Host::State::kThere; });
}

bool Growth::due(Time now) const {
  const bool somebody = std::ranges::any_of(
      hosts_, [](const auto& entry) { return entry.second.state == Host::State::kThere; });
  return somebody && now >= not_before_ && now >= found_at_ + options_.settle;
}

void Growth::grown(Time now) {
  apart_ = std::max(apart_, options_.apart);
  not_before_ = now + std::max(apart_, options_.shortest_run);
}

void Growth::begun(Time now) { not_before_ = now + options_.shortest_run; }

Time Growth::next_deadline() const {
  Time next = Time::max();
  for (const auto& [name, host] : hosts_) {
    if (host.state == Host::State::kMissing) next = std::min(next, host.retry_at);
    if (host.state == Host::State::kThere) {
      next = std::min(next, std::max(not_before_, found_at_ + options_.settle));
    }
  }
  return next;
}

}  // namespace ds
