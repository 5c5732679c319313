#include "launcher/agents/host_world.h"

#include <signal.h>

#include <algorithm>

#include "launcher/agents/host_survey.h"
#include "launcher/decide/devices/device_choice.h"
#include "launcher/process/devices/gpu_messages.h"
#include "launcher/process/rank_process.h"

namespace ds {
namespace {

using Clock = HostLink::Clock;
using std::chrono::seconds;

constexpr seconds kEndLimit{5};  // for the ranks of a host after they were killed
// Agents answer every second. One that is this late is not waited for when an epoch has failed.
constexpr std::chrono::milliseconds kSuspicious{4000};
// And one that is this late is lost, as a rank is whose heartbeats stay away for so long: it may
// not hear us any more although what it says still comes.
constexpr std::chrono::milliseconds kUnheard{5000};
// One that has missed an answer may be cut off or only slow.
constexpr std::chrono::milliseconds kLate{1500};

bool is_silent(const HostLink& link) { return link.silence(Clock::now()) > kSuspicious; }

// "NAME=value" of what a rank may want to know about its place, for the libraries that it loads.
std::vector<std::string> place_variables(const RankPlacement& place, int rank, int world_size,
                                         size_t node, size_t nodes) {
  return {fmt::format("RANK={}", rank),
          fmt::format("WORLD_SIZE={}", world_size),
          fmt::format("LOCAL_RANK={}", place.local_rank),
          fmt::format("LOCAL_SIZE={}", place.local_size),
          fmt::format("LOCAL_WORLD_SIZE={}", place.local_size),
          fmt::format("CROSS_RANK={}", node),
          fmt::format("CROSS_SIZE={}", nodes),
          fmt::format("GROUP_RANK={}", node)};
}

control::Bootstrap bootstrap_of(const HostWorldOptions& options, const WorldPlan& plan, int rank,
                                const RunDirectory& directory) {
  const auto index = static_cast<size_t>(rank);
  control::Bootstrap out;
  out.set_token(plan.tokens.at(index));
  out.set_rank(rank);
  out.set_world_size(static_cast<int>(plan.ranks.size()));
  out.set_epoch(plan.epoch);
  out.set_run_dir(directory.path().string());
  out.set_config_digest(options.config_digest);
  out.set_join_timeout_ms(in_milliseconds(plan.join_timeout));
  const RankCredential& credential = plan.credentials.at(index);
  out.set_ca_certificate(credential.ca_certificate);
  out.set_certificate(credential.certificate);
  out.set_private_key(credential.private_key);
  out.set_coordinator_name(plan.coordinator_name);
  return out;
}

MemoryDeath to_memory_death(const agent::DeathEvidence& in) {
  return {.looked = in.counters_read(),
          .out_of_memory = in.out_of_memory(),
          .cgroup = in.cgroup(),
          .cgroup_limit = in.cgroup_limit(),
          .kernel_line = in.kernel_line()};
}

}  // namespace

std::vector<std::string> hosts_of(const std::vector<RankPlacement>& ranks) {
  std::vector<std::string> hosts;
  for (const RankPlacement& place : ranks) {
    if (std::ranges::find(hosts, place.host) == hosts.end()) {
      hosts.push_back(place.host);
    }
  }
  return hosts;
}

HostWorld::HostWorld(const HostWorldOptions& options, const WorldPlan& plan,
                     const RunDirectory& directory, RankLog log, const Reached& reached)
    : log_(std::move(log)), epoch_(plan.epoch), gpus_(options.gpus) {
  const std::vector<std::string> names = hosts_of(plan.ranks);
  for (size_t node = 0; node < names.size(); ++node) {
    const ReachedHost& host = reached.hosts.at(names[node]);
    agent::ToAgent message;
    agent::Start& start = *message.mutable_start();
    start.set_epoch(plan.epoch);
    start.set_directory(options.directory.string());
    start.set_program(options.program);
    start.set_shm_name(plan.shm_name);
    start.set_watch_gpus(!options.gpus.empty());
    start.mutable_environment()->Add(options.environment.begin(), options.environment.end());
    start.mutable_shell_environment()->Add(options.shell_environment.begin(),
                                           options.shell_environment.end());
    for (int rank = 0; rank < static_cast<int>(plan.ranks.size()); ++rank) {
      const RankPlacement& place = plan.ranks[static_cast<size_t>(rank)];
      if (place.host != names[node]) {
        continue;
      }
      agent::RankOrders& orders = *start.add_ranks();
      *orders.mutable_bootstrap() = bootstrap_of(options, plan, rank, directory);
      if (plan.data_plane == DataPlane::kTcp) {
        orders.mutable_bootstrap()->set_data_address(host.data_address);
      }
      orders.mutable_bootstrap()->set_coordinator_address(
          reached.coordinator_endpoints.at(host.coordinator_address));
      const std::vector<std::string> variables =
          place_variables(place, rank, static_cast<int>(plan.ranks.size()), node, names.size());
      orders.mutable_environment()->Add(variables.begin(), variables.end());
      const std::vector<std::string>& slot = variables_of(options.variables, place);
      orders.mutable_environment()->Add(slot.begin(), slot.end());
      if (!options.gpus.empty()) {
        const std::vector<std::string> gpu =
            gpu_variables(options.gpus.at(static_cast<size_t>(rank)));
        orders.mutable_environment()->Add(gpu.begin(), gpu.end());
      }
      if (const auto cores = options.cores.find(place.host); cores != options.cores.end()) {
        const std::vector<int>& mine = cores->second.at(static_cast<size_t>(place.local_rank));
        orders.mutable_cores()->Add(mine.begin(), mine.end());
      }
      ranks_.push_back(
          {.link = host.link, .host = place.host, .ended = std::nullopt, .loss = "", .memory = {}});
    }
    links_.push_back(host.link);
    host.link->send(message);
    for (agent::RankOrders& orders : *start.mutable_ranks())
      wipe_secrets(*orders.mutable_bootstrap());
  }
}

HostWorld::~HostWorld() {
  kill_all();
  const auto deadline = Clock::now() + kEndLimit;
  const auto ignore = [](int, std::string_view) {};
  for (pump(ignore); !all_ended() && Clock::now() < deadline; pump(ignore)) {
    std::vector<pollfd> watched;
    add_poll_descriptors(watched);
    poll(watched.data(), watched.size(), 100);
  }
  for (const Rank& rank : ranks_) {
    if (!rank.ended) {
      rank.link->abandon(fmt::format("its ranks did not end within {} s", kEndLimit.count()));
    }
  }
}

std::string HostWorld::describe(int rank) const {
  const Rank& state = ranks_.at(static_cast<size_t>(rank));
  return state.pid == 0 ? fmt::format("starting on {}", state.host)
                        : fmt::format("pid {} on {}", state.pid, state.host);
}

void HostWorld::add_poll_descriptors(std::vector<pollfd>& out) const {
  for (const HostLink* link : links_) {
    link->add_poll_descriptors(out);
  }
}

void HostWorld::pump(const RankSink& sink) {
  for (const auto& [rank, line] : std::exchange(kept_, {})) sink(rank, line);
  pump_links(sink);
}

void HostWorld::pump_links(const RankSink& sink) {
  for (HostLink* const link : links_) {
    link->pump(Clock::now(), [&](const agent::FromAgent& message) { take(message, *link, sink); });
    if (link->lost().empty() && link->silence(Clock::now()) > kUnheard) {
      link->abandon(fmt::format("it has not answered for {} s", kUnheard.count() / 1000));
    }
    if (!link->lost().empty()) {
      lose_ranks_of(*link);
    }
  }
}

void HostWorld::take(const agent::FromAgent& message, const HostLink& link, const RankSink& sink) {
  if (message.has_started()) {
    if (Rank* const rank = rank_of(message.started().epoch(), message.started().rank(), link)) {
      rank->pid = message.started().pid();
    }
  } else if (message.has_output()) {
    const agent::Output& output = message.output();
    if (Rank* const rank = rank_of(output.epoch(), output.rank(), link)) {
      log_(output.rank(), output.line());
      if (output.stream() == agent::Output::ERROR) {
        sink(output.rank(), output.line());
      }
    }
  } else if (message.has_ended()) {
    if (Rank* const rank = rank_of(message.ended().epoch(), message.ended().rank(), link)) {
      rank->ended = ExitStatus{message.ended().code(), message.ended().signal()};
      rank->memory = to_memory_death(message.ended().evidence());
    }
  } else if (message.has_gpus()) {
    gpu_reports_[&link] = from_message(message.gpus());
  } else if (message.has_start_failed() && message.start_failed().epoch() == epoch_) {
    fail_start(link, fmt::format("host {}: {}", link.host(), message.start_failed().reason()),
               message.start_failed().exit_code(), sink);
  }
}

// Null for what an agent may not speak about: another epoch, another host's rank.
HostWorld::Rank* HostWorld::rank_of(int64_t epoch, int rank, const HostLink& link) {
  const bool ours = epoch == epoch_ && rank >= 0 && rank < size() &&
                    ranks_[static_cast<size_t>(rank)].link == &link;
  return ours ? &ranks_[static_cast<size_t>(rank)] : nullptr;
}

void HostWorld::lose_ranks_of(const HostLink& link) {
  for (int number = 0; number < size(); ++number) {
    Rank& rank = ranks_[static_cast<size_t>(number)];
    if (rank.link == &link && !rank.ended) {
      rank.ended = ExitStatus{0, SIGKILL};
      rank.loss = fmt::format("host {} is lost: {}", link.host(), link.lost());
      log_(number, rank.loss);
    }
  }
}

void HostWorld::fail_start(const HostLink& link, const std::string& why, int exit_code,
                           const RankSink& sink) {
  bool said = false;
  for (int rank = 0; rank < size(); ++rank) {
    Rank& state = ranks_[static_cast<size_t>(rank)];
    if (state.link == &link && !state.ended) {
      state.ended = ExitStatus{exit_code, 0};
      log_(rank, why);
      if (!std::exchange(said, true)) {
        sink(rank, why);
      }
    }
  }
}

std::string HostWorld::loss_of(int rank) const { return ranks_.at(static_cast<size_t>(rank)).loss; }

std::optional<ExitStatus> HostWorld::newly_ended(int rank, const RankSink& sink) {
  static_cast<void>(sink);  // an agent sends a rank's output before its end
  Rank& state = ranks_.at(static_cast<size_t>(rank));
  if (state.reported || !state.ended) {
    return std::nullopt;
  }
  state.reported = true;
  return state.ended;
}

std::optional<GpuState> HostWorld::gpu_of(int rank) const {
  const auto report = gpu_reports_.find(ranks_.at(static_cast<size_t>(rank)).link);
  if (gpus_.empty() || report == gpu_reports_.end()) return std::nullopt;
  const GpuState* const found = find_gpu(report->second, gpus_.at(static_cast<size_t>(rank)));
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

void HostWorld::kill_all() {
  agent::ToAgent message;
  message.mutable_kill()->set_epoch(epoch_);
  for (HostLink* const link : links_) {
    if (is_silent(*link)) {
      link->abandon("it stopped answering");  // its agent will notice the same about us
    } else {
      link->send(message);
    }
  }
}

// A world that is planned with a host that was cut off a moment ago fails as well, and later: late
// ones are waited for until it is clear.
void HostWorld::hear_late_hosts() {
  const auto late = [](const HostLink* link) {
    return link->lost().empty() && link->silence(Clock::now()) > kLate && !is_silent(*link);
  };
  while (std::ranges::any_of(links_, late)) {
    std::vector<pollfd> watched;
    add_poll_descriptors(watched);
    poll(watched.data(), watched.size(), 50);
    pump_links([this](int rank, std::string_view line) { kept_.emplace_back(rank, line); });
  }
}

std::vector<std::string> HostWorld::lost_hosts() {
  hear_late_hosts();
  std::vector<std::string> lost;
  for (const HostLink* link : links_) {
    if (!link->lost().empty() || is_silent(*link)) lost.push_back(link->host());
  }
  return lost;
}

bool HostWorld::all_ended() const {
  return std::ranges::all_of(ranks_, [](const Rank& rank) { return rank.ended.has_value(); });
}

std::vector<std::string> HostWorldStarter::reach(const std::vector<RankPlacement>& ranks) {
  const std::vector<std::string> hosts = hosts_of(ranks);
  const std::vector<ReachedHost> reached = agents_.reach(hosts);
  examine_newcomers(ranks, reached);
  if (options_.bind) options_.cores = options_.bind(reached);
  if (options_.place_gpus) options_.gpus = options_.place_gpus(ranks, reached);
  reached_.clear();
  listen_addresses_.clear();
  for (size_t i = 0; i < hosts.size(); ++i) {
    reached_[hosts[i]] = reached[i];
    const std::string& address = reached[i].coordinator_address;
    if (std::ranges::find(listen_addresses_, address) == listen_addresses_.end()) {
      listen_addresses_.push_back(address);
    }
  }
  return listen_addresses_;
}

std::string HostWorldStarter::cut_between(const std::string& host,
                                          const std::vector<RankPlacement>& ranks) {
  std::vector<std::string> names = hosts_of(ranks);
  std::erase(names, host);
  names.insert(names.begin(), host);
  const HostAgents::Outcome reached = agents_.try_reach(names);
  SlotMap slots;
  for (const std::string& name : names) slots.push_back({name, {}});
  SurveyOrders orders;
  orders.directory = options_.directory.string();
  orders.depth = SurveyDepth::kFull;
  const std::vector<SurveyedHost> found = survey_hosts(slots, reached, orders);
  if (!found.front().problem.empty()) return found.front().problem;
  for (const SurveyedHost& one : found) {
    if (!one.facts)
      continue;  // gone meanwhile: somebody else's business, as are links between the others
    for (const agent::DialFailure& failure : one.facts->dial_failures()) {
      const bool concerned = one.host.name == host || failure.endpoint().starts_with(host + " (");
      if (concerned)
        return fmt::format("{} cannot connect to {}: {}", one.host.name, failure.endpoint(),
                           failure.error());
    }
  }
  return "";
}

// One that was away may have come back with a full disk or a clock of its own.
void HostWorldStarter::examine_newcomers(const std::vector<RankPlacement>& ranks,
                                         const std::vector<ReachedHost>& reached) {
  std::vector<ReachedHost> newcomers;
  std::vector<RankPlacement> places;
  std::set<std::string> here;
  for (const ReachedHost& host : reached) {
    const std::string& name = host.link->host();
    here.insert(name);
    if (options_.examined.contains(name)) continue;
    newcomers.push_back(host);
    std::ranges::copy_if(ranks, std::back_inserter(places),
                         [&](const RankPlacement& place) { return place.host == name; });
  }
  if (!newcomers.empty() && options_.examine) options_.examine(places, newcomers);
  options_.examined = std::move(here);
}

std::unique_ptr<World> HostWorldStarter::start(const WorldPlan& plan) {
  DS_CHECK(plan.coordinator_endpoints.size() == listen_addresses_.size() &&
               plan.credentials.size() == plan.ranks.size(),
           "starting on hosts: {} endpoints for {} addresses, {} credentials for {} ranks",
           plan.coordinator_endpoints.size(), listen_addresses_.size(), plan.credentials.size(),
           plan.ranks.size());
  std::map<std::string, std::string> endpoints;
  for (size_t i = 0; i < listen_addresses_.size(); ++i) {
    endpoints[listen_addresses_[i]] = plan.coordinator_endpoints[i];
  }
  return std::make_unique<HostWorld>(options_, plan, directory_, log_,
                                     HostWorld::Reached{reached_, endpoints});
}

}  // namespace ds
