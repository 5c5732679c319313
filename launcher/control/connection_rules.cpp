#include "launcher/control/connection_rules.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace ds {

bool ConnectionRules::Circle::is_barred(const std::string& host, Time since) const {
  const auto failed = failures.find(host);
  return failed != failures.end() && std::ranges::count_if(failed->second, [&](Time time) {
                                       return time > since;
                                     }) >= static_cast<std::ptrdiff_t>(max_failures);
}

void ConnectionRules::Circle::add_to_cut(Time now, std::vector<uint64_t>& out) const {
  // How many of its host are newer; who has most of them goes first.
  std::map<std::string_view, size_t> held;
  std::vector<std::pair<size_t, uint64_t>> staying;
  const bool crowded = clients.size() > max_clients;
  for (auto at = clients.rbegin(); at != clients.rend(); ++at) {
    if (now >= at->second.cut_at) {
      out.push_back(at->first);
    } else if (crowded) {
      staying.emplace_back(held[at->second.host]++, at->first);
    }
  }
  if (staying.size() <= max_clients) return;
  std::ranges::sort(staying, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  staying.resize(staying.size() - max_clients);
  for (const auto& [newer, id] : staying) out.push_back(id);
}

// Now and then: a flood from many addresses must not pay for all of them each time.
void ConnectionRules::forget_old_failures(Time now) {
  if (now - forgotten_at_ < options_.failure_window) return;
  forgotten_at_ = now;
  for (Circle* const circle : {&strangers_, &acquaintances_}) {
    std::erase_if(circle->failures, [&](const auto& host) {
      return now - host.second.back() >= options_.failure_window;
    });
  }
}

void ConnectionRules::arrived(Time now, uint64_t id, const std::string& host) {
  forget_old_failures(now);
  strangers_.clients[id] = {now + options_.proof_deadline, host};
}

bool ConnectionRules::greeted(Time now, uint64_t id, Greeting greeting) {
  auto client = strangers_.clients.extract(id);
  if (client.empty()) return false;
  Circle& circle = greeting == Greeting::kKnowsTheName ? acquaintances_ : strangers_;
  if (circle.is_barred(client.mapped().host, now - options_.failure_window)) {
    ++total_failures_;
    return false;
  }
  circle.clients.insert(std::move(client));
  return true;
}

ConnectionRules::Circle* ConnectionRules::circle_of(uint64_t id) {
  for (Circle* const circle : {&strangers_, &acquaintances_}) {
    if (circle->clients.contains(id)) return circle;
  }
  return nullptr;
}

void ConnectionRules::proven(uint64_t id) {
  if (Circle* const circle = circle_of(id)) circle->clients.erase(id);
}

void ConnectionRules::count_failure(Time now, Circle& circle, Client& client) {
  if (std::exchange(client.counted, true)) return;
  ++total_failures_;
  std::deque<Time>& times = circle.failures[client.host];
  while (!times.empty() && now - times.front() >= options_.failure_window) times.pop_front();
  // Those that fail while the host is not heard do not lengthen that.
  if (times.size() < circle.max_failures) times.push_back(now);
}

void ConnectionRules::refused(Time now, uint64_t id) {
  if (Circle* const circle = circle_of(id)) {
    Client& client = circle->clients.at(id);
    client.cut_at = std::min(client.cut_at, now + options_.farewell);
    count_failure(now, *circle, client);
  }
}

void ConnectionRules::ended(Time now, uint64_t id) {
  if (Circle* const circle = circle_of(id)) {
    count_failure(now, *circle, circle->clients.at(id));
    circle->clients.erase(id);
  }
}

std::vector<uint64_t> ConnectionRules::to_cut(Time now) const {
  std::vector<uint64_t> out;
  strangers_.add_to_cut(now, out);
  acquaintances_.add_to_cut(now, out);
  return out;
}

std::optional<Time> ConnectionRules::next_deadline() const {
  std::optional<Time> earliest;
  for (const Circle* const circle : {&strangers_, &acquaintances_}) {
    for (const auto& [id, client] : circle->clients) {
      earliest = std::min(earliest.value_or(client.cut_at), client.cut_at);
    }
  }
  return earliest;
}

}  // namespace ds
