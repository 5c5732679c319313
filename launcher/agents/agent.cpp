#include "launcher/agents/agent.h"

#include <poll.h>
#include <signal.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <optional>

#include "core/files/poll_time.h"
#include "core/status/error.h"
#include "core/tasks/host.h"
#include "core/text/secrecy.h"
#include "core/values/index.h"
#include "launcher/agents/agent_protocol.h"
#include "launcher/agents/epoch_plan.h"
#include "launcher/agents/host_leader.h"
#include "launcher/agents/host_probe.h"
#include "launcher/decide/memory_death.h"
#include "launcher/process/devices/gpu_messages.h"
#include "launcher/process/devices/gpu_sampler.h"
#include "launcher/process/ending/shared_memory.h"
#include "launcher/process/files/environment_list.h"
#include "launcher/process/kept_memory.h"
#include "launcher/process/machine.h"
#include "launcher/process/machine_cores.h"
#include "launcher/process/rank_process.h"
#include "launcher/process/signals.h"
#include "proto/agent.pb.h"
#include "proto/build_info.h"

namespace ds {
namespace {

using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

// The launcher sends a beat every second. One that lives but cannot be heard must not find its
// ranks running beside those of a newer epoch.
constexpr seconds kLauncherSilence{12};
constexpr seconds kGreetingDeadline{30};
constexpr seconds kHandshakeDeadline{10};  // of one that dialled, its greeting included
constexpr size_t kLongestGreeting = 256;
constexpr seconds kLastOutputDeadline{2};
constexpr size_t kLongestBacklog = size_t{8} << 20;  // of output that the launcher does not take

int64_t shared_memory_free() {
  struct statvfs info {};
  return statvfs("/dev/shm", &info) == 0 ? static_cast<int64_t>(info.f_bavail * info.f_frsize) : 0;
}

// Left empty where it cannot be read: the launcher says so if anybody wants it.
void add_topology(agent::Ready& ready) {
  const std::vector<int> allowed = own_cores();
  ready.mutable_allowed_cpus()->Add(allowed.begin(), allowed.end());
  try {
    for (const PhysicalCore& core : machine_cores()) {
      agent::TopologyCore& out = *ready.add_topology();
      out.mutable_cpus()->Add(core.cpus.begin(), core.cpus.end());
      out.set_numa(core.numa);
      out.set_package(core.package);
    }
  } catch (const Unsupported&) {
    ready.clear_topology();
  }
}

struct Greeting {
  std::string marker;
  std::string rest;  // of what came: it belongs to the messages
};

Greeting take_greeting(ByteChannel& channel, seconds limit) {
  const auto deadline = Clock::now() + limit;
  std::string text;
  size_t end = std::string::npos;
  bool open = true;
  while (open && text.size() < kLongestGreeting && Clock::now() < deadline) {
    std::vector<pollfd> watched;
    channel.add_poll_descriptors(watched);
    poll(watched.data(), watched.size(), poll_time_until(deadline));
    open = channel.pump([&](std::string_view bytes) { append_secret(text, bytes); });
    end = text.find('\n');
    if (end != std::string::npos) break;
  }
  if (end == std::string::npos) end = text.size();
  Greeting out{read_greeting(text.substr(0, end)), ""};  // refuses what is incomplete
  append_secret(out.rest, std::string_view(text).substr(std::min(end + 1, text.size())));
  wipe(text);
  return out;
}

class Agent {
 public:
  Agent(const AgentContext& context, const DialledAgent* dialled, ByteChannel& channel,
        const std::string& marker)
      : context_(context),
        dialled_(dialled),
        channel_(channel),
        marker_(marker),
        reader_(marker),
        probe_(context.gpus) {
    if (context.heeds_signals) signals_.enforce();
  }
  Agent(const Agent&) = delete;  // owns processes
  Agent& operator=(const Agent&) = delete;
  ~Agent() { end_ranks(); }

  // `first` came with the greeting. The exit code that the launcher wants, kClusterUnusable when it
  // is lost.
  int run(std::string first);

 private:
  void say_ready();
  void send(const agent::FromAgent& message);
  void wait_for_something();
  void take_bytes(std::string_view bytes);
  bool told_to_end();
  void take_message(std::string_view bytes);
  void answer_probe(const agent::Probe& order);
  void start(const agent::Start& orders);
  void start_rank(const agent::Start& orders, const agent::RankOrders& rank);
  void pump();
  RankProcess::Sink pass_on(int rank);
  void add_evidence(int pid, agent::DeathEvidence& out) const;
  void end_ranks();
  void report_last_output();
  void report_gpus();

  const AgentContext context_;
  const DialledAgent* const dialled_;  // null: the launcher has started us
  ByteChannel& channel_;
  const std::string marker_;
  MessageReader reader_;
  HostProbe probe_;
  const Fd memory_ = make_kept_memory();  // over epochs
  SignalWatch signals_;
  int64_t epoch_ = 0;
  std::string shm_name_;
  std::map<int, RankProcess> ranks_;
  std::optional<MemoryWatch> memory_watch_;
  std::optional<GpuSampler> sampler_;           // once ranks have GPUs
  std::shared_ptr<const GpuReport> gpus_told_;  // the newest that the launcher has
  bool killing_ = false;                        // ends by SIGKILL are ours
  Clock::time_point heard_ = Clock::now();
  bool leaving_ = false;
  int exit_code_ = static_cast<int>(ExitCode::kClusterUnusable);
  int64_t lines_dropped_ = 0;
};

int Agent::run(std::string first) {
  say_ready();
  take_bytes(first);
  wipe(first);
  while (!leaving_) {
    wait_for_something();
    const bool launcher_there =
        channel_.pump([this](std::string_view bytes) { take_bytes(bytes); });
    leaving_ =
        leaving_ || !launcher_there || told_to_end() || Clock::now() - heard_ > kLauncherSilence;
    pump();
  }
  end_ranks();
  report_last_output();
  return exit_code_;
}

void Agent::say_ready() {
  agent::FromAgent message;
  agent::Ready& ready = *message.mutable_ready();
  ready.set_build_id(build_id());
  ready.set_host(own_host_name());
  ready.set_address(context_.address);
  ready.set_cores(this_machine(nullptr).cores);
  ready.set_gpus(narrow<int>(context_.gpus.names.size()));
  ready.mutable_gpu_names()->Add(context_.gpus.names.begin(), context_.gpus.names.end());
  ready.set_why_no_gpu(context_.gpus.why_none);
  ready.set_shared_memory_free(shared_memory_free());
  ready.set_pid(getpid());
  add_topology(ready);
  if (dialled_) {
    ready.set_start_rank(dialled_->start_rank);
    if (!dialled_->host.empty()) ready.set_host(dialled_->host);
    for (const SlotShare& slot : dialled_->slots) {
      agent::StartedSlot& out = *ready.add_slots();
      out.mutable_cores()->Add(slot.cores.begin(), slot.cores.end());
      out.mutable_gpus()->Add(slot.gpus.begin(), slot.gpus.end());
      out.mutable_environment()->Add(slot.variables.begin(), slot.variables.end());
    }
  }
  send(message);
}

void Agent::send(const agent::FromAgent& message) {
  if (message.has_output() && channel_.waiting() > kLongestBacklog) {
    ++lines_dropped_;  // training must not wait for a reader
    return;
  }
  channel_.send(encode_message(marker_, message.SerializeAsString()));
}

void Agent::wait_for_something() {
  std::vector<pollfd> watched{{signals_.fd(), POLLIN, 0}};
  channel_.add_poll_descriptors(watched);
  for (const auto& [number, rank] : ranks_) {
    rank.add_poll_descriptors(watched);
  }
  poll(watched.data(), watched.size(), 1000);
}

void Agent::take_bytes(std::string_view bytes) {
  reader_.feed(
      bytes, [this](std::string_view message) { take_message(message); },
      [](std::string_view) {});  // an echo of nobody we know
}

// USR1 and USR2 are for training, and batch systems send them to every step.
bool Agent::told_to_end() {
  bool told = false;
  while (const std::optional<int> signal = signals_.take()) {
    told = told || (context_.heeds_signals && *signal != SIGUSR1 && *signal != SIGUSR2);
  }
  return told;
}

void Agent::take_message(std::string_view bytes) {
  heard_ = Clock::now();
  agent::ToAgent message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw CommError("agent channel: a message that is none");
  }
  switch (message.body_case()) {
    case agent::ToAgent::kStart:
      start(message.start());
      for (agent::RankOrders& rank : *message.mutable_start()->mutable_ranks())
        wipe_secrets(*rank.mutable_bootstrap());
      break;
    case agent::ToAgent::kKill:
      if (message.kill().epoch() == epoch_) {
        killing_ = true;
        for (auto& [number, rank] : ranks_) {
          rank.kill();
        }
      }
      break;
    case agent::ToAgent::kBeat: {
      agent::FromAgent answer;
      answer.mutable_beat();
      send(answer);
      break;
    }
    case agent::ToAgent::kLeave:
      leaving_ = true;
      exit_code_ = message.leave().exit_code();
      break;
    case agent::ToAgent::kProbe:
      answer_probe(message.probe());
      break;
    default:
      break;
  }
}

void Agent::answer_probe(const agent::Probe& order) {
  agent::FromAgent answer;
  *answer.mutable_facts() = probe_.execute(order, wall_clock_us());
  if (order.step() != agent::Probe::END) send(answer);
}

void Agent::start(const agent::Start& orders) {
  end_ranks();  // of an epoch whose end the launcher did not wait for
  epoch_ = orders.epoch();
  shm_name_ = orders.shm_name();
  killing_ = false;
  if (orders.watch_gpus() && !sampler_) sampler_.emplace();
  memory_watch_.emplace();  // what was killed before is not ours
  try {
    if (chdir(orders.directory().c_str()) != 0) {
      throw InputMissing(
          fmt::format("the working directory {}: {}; it has to be there on every host",
                      orders.directory(), std::strerror(errno)));
    }
    for (const agent::RankOrders& rank : orders.ranks()) {
      start_rank(orders, rank);
    }
  } catch (const Error& error) {
    end_ranks();
    agent::FromAgent message;
    message.mutable_start_failed()->set_epoch(epoch_);
    message.mutable_start_failed()->set_reason(error.what());
    message.mutable_start_failed()->set_exit_code(static_cast<int>(error.exit_code()));
    send(message);
  }
}

void Agent::start_rank(const agent::Start& orders, const agent::RankOrders& rank) {
  RankProcessOptions options;
  options.program = orders.program();
  std::vector<std::string> environment = context_.environment;
  environment.insert(environment.end(), orders.environment().begin(), orders.environment().end());
  environment = with_shell_values(std::move(environment), {orders.shell_environment().begin(),
                                                           orders.shell_environment().end()});
  environment.insert(environment.end(), rank.environment().begin(), rank.environment().end());
  options.environment = with_last_values(environment);
  options.cores.assign(rank.cores().begin(), rank.cores().end());
  options.memory_fd = memory_.get();
  control::Bootstrap bootstrap = rank.bootstrap();
  bootstrap.set_launcher_pid(getpid());  // whom the rank must not outlive
  bootstrap.set_memory_fd(RankProcess::memory_fd_in(options));
  const auto [at, added] = ranks_.try_emplace(bootstrap.rank(), options, bootstrap);
  wipe_secrets(bootstrap);
  DS_CHECK(added, "agent: rank {} is started twice", bootstrap.rank());
  agent::FromAgent message;
  agent::Started& started = *message.mutable_started();
  started.set_epoch(epoch_);
  started.set_rank(bootstrap.rank());
  started.set_pid(at->second.pid());
  send(message);
}

RankProcess::Sink Agent::pass_on(int rank) {
  return [this, rank](RankStream stream, std::string_view line) {
    agent::FromAgent message;
    agent::Output& output = *message.mutable_output();
    output.set_epoch(epoch_);
    output.set_rank(rank);
    output.set_stream(stream == RankStream::kOutput ? agent::Output::LOG : agent::Output::ERROR);
    output.set_line(std::string(line));
    send(message);
  };
}

void Agent::report_gpus() {
  if (!sampler_ || ranks_.empty()) return;
  std::shared_ptr<const GpuReport> newest = sampler_->newest();
  if (!newest || newest == gpus_told_) return;
  gpus_told_ = std::move(newest);
  agent::FromAgent message;
  *message.mutable_gpus() = to_message(*gpus_told_);
  send(message);
}

void Agent::pump() {
  report_gpus();
  for (auto& [number, rank] : ranks_) {
    rank.pump(pass_on(number));
    if (const std::optional<ExitStatus> status = rank.newly_ended(pass_on(number))) {
      agent::FromAgent message;
      agent::Ended& ended = *message.mutable_ended();
      ended.set_epoch(epoch_);
      ended.set_rank(number);
      ended.set_code(status->code);
      ended.set_signal(status->signal);
      if (status->signal == SIGKILL && !killing_)
        add_evidence(rank.pid(), *ended.mutable_evidence());
      send(message);
    }
  }
  const bool all_ended =
      std::ranges::all_of(ranks_, [](const auto& entry) { return entry.second.reported(); });
  if (!ranks_.empty() && all_ended) {
    end_ranks();
  }
}

void Agent::add_evidence(int pid, agent::DeathEvidence& out) const {
  const MemoryDeath death = memory_watch_ ? memory_watch_->examine(pid) : MemoryDeath{};
  out.set_counters_read(death.looked);
  out.set_out_of_memory(death.out_of_memory);
  out.set_cgroup(death.cgroup);
  out.set_cgroup_limit(death.cgroup_limit);
  out.set_kernel_line(death.kernel_line);
}

void Agent::end_ranks() {
  for (auto& [number, rank] : ranks_) {
    rank.kill();  // all at once; destroying them then waits for each
  }
  ranks_.clear();
  if (!shm_name_.empty()) {
    remove_shared_memory(std::exchange(shm_name_, {}));
  }
}

void Agent::report_last_output() {
  const auto deadline = Clock::now() + kLastOutputDeadline;
  const auto ignore = [](std::string_view) {};  // what is asked of one who leaves
  while (channel_.waiting() > 0 && Clock::now() < deadline) {
    std::vector<pollfd> watched;
    channel_.add_poll_descriptors(watched);
    poll(watched.data(), watched.size(), 100);
    channel_.pump(ignore);
  }
}

}  // namespace

int run_agent(const AgentContext& context) {
  if (isatty(STDIN_FILENO) != 0) {
    read_greeting("");  // refuses
  }
  forbid_core_dumps();
  hide_from_same_user();  // ranks' secrets pass through
  PipeChannel channel(duplicate_high(STDIN_FILENO), duplicate_high(STDOUT_FILENO));
  Greeting greeting = take_greeting(channel, kGreetingDeadline);
  Agent(context, nullptr, channel, greeting.marker).run(std::move(greeting.rest));
  return static_cast<int>(ExitCode::kDone);
}

std::optional<int> run_dialled_agent(const AgentContext& context, const DialledAgent& dialled,
                                     ByteChannel& channel, std::string& token) {
  channel.send(token);
  Greeting greeting;
  try {
    greeting = take_greeting(channel, kHandshakeDeadline);
  } catch (const UsageError&) {
    return std::nullopt;
  }
  wipe(token);
  return Agent(context, &dialled, channel, greeting.marker).run(std::move(greeting.rest));
}

}  // namespace ds
