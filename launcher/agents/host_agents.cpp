#include "launcher/agents/host_agents.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>

#include "core/files/poll_time.h"
#include "launcher/process/addresses.h"
#include "proto/build_info.h"

namespace ds {
namespace {

using Clock = HostLink::Clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kResolveLimit{5};
constexpr seconds kLeaveLimit{5};
constexpr int kMostStarts = 4;  // of one command

// Four descriptors for each host: more than the usual soft limit allows for a large cluster.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

// Open MPI clears away the folder of a user's sessions where it finds that empty as it starts, also
// when another mpirun has made it a moment ago and is about to use it. All hosts' agents are
// started at once, by an mpirun each, so this happens; the one that it happens to has done nothing
// yet.
bool has_lost_its_session(const HostLink& link) {
  return link.lost().find("session_dir failed") != std::string::npos;
}

void refuse_if_any(const std::vector<std::string>& hosts,
                   const std::map<std::string, std::string>& problems) {
  if (!problems.empty()) {
    std::vector<std::string> names;
    std::ranges::transform(problems, std::back_inserter(names),
                           [](const auto& entry) { return entry.first; });
    throw HostsUnusable(unusable_text(hosts, problems), names);
  }
}

// Loopback means something else on every host, so it will do only where all of them are one
// machine.
void replace_loopback(std::vector<std::string>& addresses) {
  const auto remote = std::ranges::find_if(addresses, [](const std::string& address) {
    return !address.empty() && !is_loopback_address(address);
  });
  if (remote == addresses.end()) {
    return;
  }
  const std::string ours = local_address_towards(*remote);
  for (std::string& address : addresses) {
    if (!address.empty() && is_loopback_address(address)) {
      address = ours;
    }
  }
}

}  // namespace

std::string advice_for(std::string_view failure) {
  constexpr std::array<std::array<std::string_view, 2>, 8> kAdvice{{
      {"Host key verification failed",
       "its host key is unknown or has changed; log in once by hand, or fix known_hosts"},
      {"Permission denied", "ssh needs a key that works without a prompt"},
      {"Could not resolve hostname", "check the name in the hostfile"},
      {"Connection refused", "no sshd listens there; check --ssh-port"},
      {"No route to host", "the host or its network is down"},
      {"exited with code 127", "dslaunch has to be at the same path on every host"},
      {"command not found", "dslaunch has to be at the same path on every host"},
      {"No such file or directory", "dslaunch has to be at the same path on every host"},
  }};
  for (const auto& [sign, advice] : kAdvice) {
    if (failure.find(sign) != std::string_view::npos) {
      return std::string(advice);
    }
  }
  return "";
}

std::string unusable_text(const std::vector<std::string>& hosts,
                          const std::map<std::string, std::string>& problems) {
  std::string text = fmt::format("{} of {} hosts cannot be used:", problems.size(), hosts.size());
  for (const std::string& host : hosts) {
    if (const auto problem = problems.find(host); problem != problems.end()) {
      const std::string advice = advice_for(problem->second);
      text += fmt::format("\n  {}: {}{}", host, problem->second,
                          advice.empty() ? "" : fmt::format(" ({})", advice));
    }
  }
  return text;
}

HostAgents::HostAgents(Options options) : options_(std::move(options)) { raise_descriptor_limit(); }

HostAgents::~HostAgents() {
  const auto deadline = Clock::now() + kLeaveLimit;
  while (!links_.empty() && Clock::now() < deadline) {
    std::erase_if(links_, [this](const auto& entry) {
      return entry.second->leave(Clock::now(), exit_code_);
    });
    std::vector<pollfd> watched;
    for (const auto& [host, link] : links_) {
      link->add_poll_descriptors(watched);
    }
    poll(watched.data(), watched.size(), watched.empty() ? 0 : 100);
  }
}

std::vector<ReachedHost> HostAgents::reach(const std::vector<std::string>& hosts) {
  Outcome outcome = try_reach(hosts);
  refuse_if_any(hosts, outcome.problems);
  return std::move(outcome.hosts);
}

HostAgents::Outcome HostAgents::try_reach(const std::vector<std::string>& hosts) {
  failed_.clear();
  for (const std::string& host : hosts) {
    candidates_.erase(host);
    waiting_.erase(host);
  }
  for (const std::string& host : hosts) {
    starts_.erase(host);
    connect(host);
  }
  wait_until_settled(hosts);
  const auto start_some_again = [&] {
    return std::ranges::count_if(hosts, [&](const auto& host) { return start_again(host); }) > 0;
  };
  while (start_some_again()) wait_until_settled(hosts);
  Outcome out;
  out.problems = failed_;
  for (const std::string& host : hosts) {
    const auto link = links_.find(host);
    const std::string problem = link == links_.end() ? "" : problem_of(*link->second);
    if (!problem.empty()) {
      out.problems[host] = problem;
      links_.erase(link);
    }
  }
  find_addresses(hosts, out);
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (out.problems.contains(hosts[i])) continue;
    out.hosts[i].link = links_.at(hosts[i]).get();
    out.hosts[i].coordinator_address = options_.coordinator_address
                                           ? *options_.coordinator_address
                                           : local_address_towards(out.hosts[i].data_address);
  }
  return out;
}

void HostAgents::seek(const std::string& host) {
  failed_.erase(host);
  starts_.erase(host);
  connect(host);
  candidates_[host] = Clock::now() + options_.deadline;
}

std::vector<CandidateHost> HostAgents::take_candidates() {
  std::vector<CandidateHost> out;
  const auto gone = [&](const std::string& host) {
    const auto link = links_.find(host);
    if (link == links_.end())
      return failed_.contains(host) ? failed_[host] : std::string("it is gone");
    link->second->pump(Clock::now(), [](const agent::FromAgent&) {});
    return link->second->lost();
  };
  for (auto at = candidates_.begin(); at != candidates_.end();) {
    const std::string& host = at->first;
    std::string problem = gone(host);
    if (start_again(host)) problem.clear();
    const bool ready = problem.empty() && links_.at(host)->ready().has_value();
    if (problem.empty() && !ready && Clock::now() < at->second) {
      ++at;
      continue;
    }
    if (problem.empty()) problem = problem_of(*links_.at(host));
    if (problem.empty()) {
      waiting_.insert(host);
    } else {
      links_.erase(host);
    }
    out.push_back({host, problem});
    at = candidates_.erase(at);
  }
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const std::string problem = gone(*at);
    if (problem.empty()) {
      ++at;
      continue;
    }
    links_.erase(*at);
    out.push_back({*at, problem});
    at = waiting_.erase(at);
  }
  return out;
}

void HostAgents::add_poll_descriptors(std::vector<pollfd>& out) const {
  for (const auto& [host, deadline] : candidates_) {
    if (const auto link = links_.find(host); link != links_.end())
      link->second->add_poll_descriptors(out);
  }
}

void HostAgents::tend() {
  for (const auto& [host, link] : links_) {
    link->pump(Clock::now(), [](const agent::FromAgent&) {});
  }
}

void HostAgents::connect(const std::string& host) {
  const auto old = links_.find(host);
  if (old != links_.end() && old->second->lost().empty()) {
    return;
  }
  if (adopted_.contains(host)) {
    failed_[host] = old == links_.end() ? "its dslaunch is gone" : old->second->lost();
    if (old != links_.end()) links_.erase(old);
    return;
  }
  const std::vector<std::string> argv = agent_command(options_.kind, host, options_.runner);
  try {
    links_[host] = std::make_unique<HostLink>(host, argv, options_.environment, options_.path);
  } catch (const Error& error) {
    links_.erase(host);
    failed_[host] = error.what();
  }
}

// Whether it was worth another start of the command, which it then has.
bool HostAgents::start_again(const std::string& host) {
  const auto link = links_.find(host);
  if (link == links_.end() || !has_lost_its_session(*link->second)) return false;
  if (++starts_[host] >= kMostStarts) return false;
  if (options_.tell) {
    options_.tell(fmt::format("{}: {}; it is started again", host, link->second->lost()));
  }
  connect(host);
  return links_.contains(host);
}

void HostAgents::adopt(std::unique_ptr<HostLink> link) {
  const std::string host = link->host();
  adopted_.insert(host);
  links_[host] = std::move(link);
}

void HostAgents::wait_until_settled(const std::vector<std::string>& hosts) {
  const auto deadline = Clock::now() + options_.deadline;
  for (;;) {
    std::vector<pollfd> watched;
    if (options_.interrupt_fd >= 0) {
      watched.push_back({options_.interrupt_fd, POLLIN, 0});
    }
    const size_t others = watched.size();
    for (const std::string& host : hosts) {
      const auto link = links_.find(host);
      if (link != links_.end() && link->second->lost().empty() && !link->second->ready()) {
        link->second->add_poll_descriptors(watched);
      }
    }
    if (watched.size() == others || Clock::now() >= deadline) {
      return;
    }
    poll(watched.data(), watched.size(), poll_time_until(deadline));
    if (options_.interrupt_fd >= 0 && watched.front().revents != 0) {
      throw HostsUnusable("stopped while the hosts were being reached; nothing was started", hosts);
    }
    tend();
  }
}

std::string HostAgents::problem_of(HostLink& link) const {
  if (!link.lost().empty()) {
    return link.lost();
  }
  if (!link.ready()) {
    // Its last words are kept: they may say what it waits for.
    link.abandon(fmt::format("no answer within {} s", options_.deadline.count()));
    return link.lost();
  }
  if (link.ready()->build_id() != build_id()) {
    return fmt::format("has another build of dslaunch: {} there, {} here", link.ready()->build_id(),
                       build_id());
  }
  return "";
}

// The address of this machine by which those that dialled us reach it.
std::string HostAgents::address_beside_adopted() const {
  for (const std::string& host : adopted_) {
    if (const auto link = links_.find(host); link != links_.end()) {
      return local_address_towards(link->second->ready()->address());
    }
  }
  return "127.0.0.1";  // nobody else is left
}

void HostAgents::find_addresses(const std::vector<std::string>& hosts, Outcome& out) const {
  const auto known_of = [&](const std::string& host) {
    const auto link = links_.find(host);
    if (link == links_.end()) return std::string();
    const bool beside =
        !adopted_.empty() && !adopted_.contains(host);  // ours, among those that dialled
    return beside ? address_beside_adopted() : link->second->ready()->address();
  };
  std::vector<std::string> unknown;
  for (const std::string& host : hosts) {
    if (!out.problems.contains(host) && known_of(host).empty()) unknown.push_back(host);
  }
  const std::vector<ResolvedHost> resolved =
      unknown.empty() ? std::vector<ResolvedHost>{} : resolve_hosts(unknown, kResolveLimit);
  std::vector<std::string> addresses;
  for (const std::string& host : hosts) {
    // What ssh told the host is the way that is known to work, aliases and all.
    std::string address = known_of(host);
    const auto asked = std::ranges::find(unknown, host);
    if (asked != unknown.end()) {
      const ResolvedHost& answer = resolved[static_cast<size_t>(asked - unknown.begin())];
      address = answer.address;
      if (address.empty()) out.problems[host] = answer.error;
    }
    addresses.push_back(address);
  }
  replace_loopback(addresses);
  for (const std::string& address : addresses) out.hosts.push_back({nullptr, address, ""});
}

}  // namespace ds
