#include "launcher/process/local_world.h"

#include "core/status/error.h"
#include "core/values/index.h"
#include "launcher/decide/devices/device_choice.h"
#include "launcher/process/files/environment_list.h"
#include "proto/control.pb.h"

namespace ds {

const std::vector<std::string>& variables_of(const SlotVariables& slots,
                                             const RankPlacement& rank) {
  static const std::vector<std::string> kNone;
  const auto host = slots.find(rank.host);
  const bool there =
      host != slots.end() && rank.slot >= 0 && to_size(rank.slot) < host->second.size();
  return there ? host->second[to_size(rank.slot)] : kNone;
}

LocalWorld::LocalWorld(const Options& options, const WorldPlan& plan, const RunDirectory& directory,
                       Listeners listeners)
    : log_(std::move(listeners.log)), gpus_(options.gpus), sampler_(listeners.sampler) {
  for (int rank = 0; rank < narrow<int>(plan.ranks.size()); ++rank) {
    ranks_.push_back(start(rank, options, plan, directory, listeners.files.at(to_size(rank))));
  }
}

std::unique_ptr<World> LocalStarter::start(const WorldPlan& plan) {
  while (files_.size() < plan.ranks.size()) {
    files_.emplace_back(directory_.rank_log(narrow<int>(files_.size())));
  }
  const GpuSampler* const sampler = sampler_ ? &*sampler_ : nullptr;
  return std::make_unique<LocalWorld>(options_, plan, directory_,
                                      LocalWorld::Listeners{log_, files_, sampler});
}

LocalWorld::Rank LocalWorld::start(int rank, const Options& options, const WorldPlan& plan,
                                   const RunDirectory& directory, const AppendFile& file) {
  const Fd log_copy = duplicate_high(file.fd());
  SocketEnds control = make_socket_pair();
  RankProcessOptions process;
  process.program = options.program;
  const std::vector<std::string>& own = variables_of(options.variables, nth(plan.ranks, rank));
  process.environment = options.environment;
  process.environment.insert(process.environment.end(), own.begin(), own.end());
  if (!options.gpus.empty()) {
    for (std::string& entry : gpu_variables(options.gpus.at(to_size(rank))))
      process.environment.push_back(std::move(entry));
  }
  process.environment = with_last_values(process.environment);
  process.output_fd = log_copy.get();
  process.control_fd = control.theirs.get();
  if (!options.cores.empty()) process.cores = options.cores.at(to_size(rank));
  if (options.memory_fd >= 0) process.memory_fd = options.memory_fd;

  control::Bootstrap bootstrap;
  bootstrap.set_coordinator_address(fmt::format("fd:{}", RankProcess::kControlFd));
  bootstrap.set_token(plan.tokens.at(to_size(rank)));
  bootstrap.set_rank(rank);
  bootstrap.set_world_size(narrow<int>(plan.ranks.size()));
  bootstrap.set_epoch(plan.epoch);
  bootstrap.set_run_dir(directory.path().string());
  bootstrap.set_launcher_pid(getpid());
  bootstrap.set_config_digest(options.config_digest);
  bootstrap.set_join_timeout_ms(in_milliseconds(plan.join_timeout));
  if (plan.data_plane == DataPlane::kTcp) bootstrap.set_data_address("127.0.0.1");
  if (process.memory_fd) bootstrap.set_memory_fd(RankProcess::memory_fd_in(process));
  RankProcess started(process, bootstrap);
  wipe_secrets(bootstrap);
  return {std::move(started), std::move(control.ours)};
}

std::string LocalWorld::describe(int rank) const {
  return fmt::format("pid {}", ranks_.at(to_size(rank)).process.pid());
}

std::vector<Fd> LocalWorld::take_connections() {
  std::vector<Fd> connections;
  for (Rank& rank : ranks_) {
    connections.push_back(std::move(rank.connection));
  }
  return connections;
}

void LocalWorld::add_poll_descriptors(std::vector<pollfd>& out) const {
  for (const Rank& rank : ranks_) {
    rank.process.add_poll_descriptors(out);
  }
}

RankProcess::Sink LocalWorld::log_and_show(int number, const RankSink& sink) {
  return [this, number, &sink](RankStream, std::string_view line) {
    log_(number, line);
    sink(number, line);
  };
}

void LocalWorld::pump(const RankSink& sink) {
  for (int rank = 0; rank < size(); ++rank) {
    Rank& state = nth(ranks_, rank);
    state.process.pump(log_and_show(rank, sink));
  }
}

std::optional<ExitStatus> LocalWorld::newly_ended(int rank, const RankSink& sink) {
  Rank& state = ranks_.at(to_size(rank));
  return state.process.newly_ended(log_and_show(rank, sink));
}

std::optional<GpuState> LocalWorld::gpu_of(int rank) const {
  const std::shared_ptr<const GpuReport> report =
      sampler_ != nullptr ? sampler_->newest() : nullptr;
  const GpuState* const found = report ? find_gpu(*report, gpus_.at(to_size(rank))) : nullptr;
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

void LocalWorld::kill_all() {
  for (Rank& rank : ranks_) {
    rank.process.kill();
  }
}

}  // namespace ds
