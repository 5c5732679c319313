#include "launcher/agents/host_probe.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "core/libraries/gpu_libraries.h"
#include "core/memory/cgroup.h"
#include "core/status/error.h"
#include "core/tasks/host.h"
#include "core/tasks/task_limits.h"
#include "core/values/index.h"
#include "launcher/control/peer_dial.h"
#include "launcher/process/devices/gpu_messages.h"
#include "launcher/process/devices/gpu_reader.h"
#include "launcher/process/files/epoch_claim.h"
#include "launcher/process/machine.h"
#include "proto/grpc_threads.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kDialLimit{3};

void read_limit(int which, agent::Limit& out) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(which), &limit) != 0) return;
  const auto number = [](rlim_t value) {
    return value == RLIM_INFINITY ? int64_t{-1} : static_cast<int64_t>(value);
  };
  out.set_soft(number(limit.rlim_cur));
  out.set_hard(number(limit.rlim_max));
}

std::string nearest_existing(const std::string& path) {
  std::error_code error;
  fs::path at = fs::absolute(path, error);
  while (at.has_relative_path() && !fs::exists(at, error)) at = at.parent_path();
  return at.string();
}

void read_path(const std::string& path, agent::PathFacts& out) {
  out.set_path(path);
  out.set_existing(nearest_existing(path));
  struct statvfs info {};
  if (statvfs(out.existing().c_str(), &info) != 0) {
    out.set_error(std::strerror(errno));
    return;
  }
  out.set_free_bytes(static_cast<int64_t>(info.f_bavail * info.f_frsize));
  std::error_code unseen;
  if (!fs::is_directory(out.existing(), unseen)) {
    out.set_error(std::strerror(ENOTDIR));
  } else if (access(out.existing().c_str(), W_OK | X_OK) != 0) {
    out.set_error(std::strerror(errno));
  }
}

void read_shared_memory(agent::Facts& facts) {
  struct statvfs info {};
  if (statvfs("/dev/shm", &info) != 0 || access("/dev/shm", W_OK | X_OK) != 0) {
    facts.set_shared_memory_error(std::strerror(errno));
    return;
  }
  facts.set_shared_memory_total(static_cast<int64_t>(info.f_blocks * info.f_frsize));
  facts.set_shared_memory_free(static_cast<int64_t>(info.f_bavail * info.f_frsize));
}

void read_memory(agent::Facts& facts) {
  facts.set_memory_available(available_memory().value_or(0));
  facts.set_memory_bound("the machine");
  const MemoryCgroup group = memory_cgroup_of(0);
  if (group.limit && group.used) {
    const int64_t left = std::max<int64_t>(0, *group.limit - *group.used);
    if (left < facts.memory_available()) {
      facts.set_memory_available(left);
      facts.set_memory_bound(fmt::format("its cgroup {}", group.name));
    }
  }
}

void read_task_limits(agent::Facts& facts) {
  const auto to_message = [](const TaskLimit& limit, agent::TaskLimit& out) {
    out.set_name(limit.name);
    out.set_file(limit.file);
    out.set_most(limit.most);
    out.set_used(limit.used);
  };
  facts.set_grpc_cores(grpc_cores());
  const TaskLimits limits = task_limits();
  if (limits.cgroup) to_message(*limits.cgroup, *facts.mutable_cgroup_tasks());
  if (limits.user) to_message(*limits.user, *facts.mutable_user_tasks());
}

void read_gpus(const VisibleGpus& gpus, agent::Facts& facts) {
  facts.set_gpus(narrow<int>(gpus.names.size()));
  facts.mutable_gpu_names()->Add(gpus.names.begin(), gpus.names.end());
  facts.set_why_no_gpu(gpus.why_none);
  if (gpus.names.empty()) return;
  *facts.mutable_gpu_report() = to_message(gpus_of_this_machine());
  try {
    facts.set_nccl(Library(kind_of(GpuLibrary::kNccl)).version().value_or(""));
  } catch (const Unsupported&) {
    facts.clear_nccl();  // it is not there, which preflight says
  }
}

// Why the launcher's file is not here with the launcher's words.
std::string look_for(const std::string& path, const std::string& text) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.valid()) return std::strerror(errno);
  std::string found(text.size() + 1, '\0');
  const ssize_t got = read(file.get(), found.data(), found.size());
  if (got < 0) return std::strerror(errno);
  found.resize(static_cast<size_t>(got));
  return found == text ? "" : "another file is there";
}

}  // namespace

int64_t wall_clock_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string write_new_file(const std::string& path, std::string_view text) {
  const Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return std::strerror(errno);
  if (write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) return "";
  const std::string why = std::strerror(errno);
  unlink(path.c_str());
  return why;
}

agent::Facts HostProbe::execute(const agent::Probe& order, int64_t asked_us) {
  agent::Facts facts;
  facts.set_round(order.round());
  facts.set_asked_us(asked_us);
  switch (order.step()) {
    case agent::Probe::COLLECT:
      collect(order, facts);
      break;
    case agent::Probe::DIAL:
      for (const PeerDial& dial :
           dial_peers({order.endpoints().begin(), order.endpoints().end()}, kDialLimit)) {
        if (dial.error.empty()) continue;
        agent::DialFailure& entry = *facts.add_dial_failures();
        entry.set_endpoint(dial.endpoint);
        entry.set_error(dial.error);
      }
      break;
    default:
      end();
  }
  facts.set_answered_us(wall_clock_us());
  return facts;
}

void HostProbe::collect(const agent::Probe& order, agent::Facts& facts) {
  read_limit(RLIMIT_NOFILE, *facts.mutable_open_files());
  read_limit(RLIMIT_NPROC, *facts.mutable_processes());
  read_limit(RLIMIT_MEMLOCK, *facts.mutable_locked_memory());
  read_task_limits(facts);
  read_shared_memory(facts);
  read_memory(facts);
  facts.set_cores(this_machine(nullptr).cores);
  read_gpus(gpus_, facts);
  if (!order.directory().empty()) {
    read_path(order.directory(), *facts.mutable_directory());
    RealFileSystem files;
    facts.set_newest_epoch(newest_epoch(files, order.directory()));
  }
  for (const std::string& path : order.nvme_paths()) read_path(path, *facts.add_nvme());
  if (!order.witness_file().empty()) {
    facts.set_witness_error(look_for(order.witness_file(), order.witness_text()));
  }
  write_own_file(order, facts);
  if (!order.program().empty() && access(order.program().c_str(), X_OK) != 0) {
    facts.set_program_error(std::strerror(errno));
  }
  if (!order.listen_address().empty()) listen_for_peers(order.listen_address(), facts);
}

void HostProbe::write_own_file(const agent::Probe& order, agent::Facts& facts) {
  if (order.own_file().empty() || !facts.witness_error().empty()) return;
  const std::string why = write_new_file(order.own_file(), order.witness_text());
  if (why.empty()) {
    own_file_ = order.own_file();
  } else {
    facts.mutable_directory()->set_error(why);
  }
}

void HostProbe::listen_for_peers(const std::string& address, agent::Facts& facts) {
  try {
    PeerListener listening = listen_for_dials(address, 0);
    listener_ = std::move(listening.listener);
    facts.set_endpoint(listening.endpoint);
  } catch (const Error& error) {
    facts.set_listen_error(error.what());
  }
}

void HostProbe::end() {
  listener_ = Fd();
  if (!own_file_.empty()) {
    unlink(own_file_.c_str());
    own_file_.clear();
  }
}

}  // namespace ds
