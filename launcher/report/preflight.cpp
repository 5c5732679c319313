#include "launcher/report/preflight.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/tasks/task_limits.h"
#include "core/values/index.h"
#include "launcher/report/preflight_gpus.h"
#include "launcher/report/progress.h"
#include "proto/grpc_threads.h"

namespace ds {
namespace {

// A process of ours opens its logs, shared memory, checkpoint and data files, and a connection to
// each peer.
constexpr int64_t kFilesOfEachRank = 128;
constexpr int64_t kFilesForEachPeer = 2;
// Beside the threads of the computation and of gRPC: the control connection takes three. No run
// comes to train with fewer; ranks on GPUs have those of CUDA and NCCL, too.
constexpr int64_t kThreadsOfEachRank = 3;
constexpr int64_t kThreadsOfEachGpu = 8;
constexpr int64_t kThreadsOfLauncher = 2;  // the records, the starting of a rank
// Each rank of a host needs this much of /dev/shm, for staging buffers and mailboxes. Buckets are
// in nameless memory.
constexpr int64_t kSharedMemoryOfEachRank = int64_t{1} << 20;
// Two checkpoints exist while the newer one is written.
constexpr int64_t kCheckpointsAtOnce = 2;
// Certificates are good from a day before; an hour of that is left for the rest.
constexpr int64_t kClockLimitUs = int64_t{23} * 3600 * 1'000'000;
constexpr int64_t kClockNoticeUs = 2'000'000;

class Judge {
 public:
  Judge(const PreflightNeeds& needs, const SurveyedHost& host, std::vector<Finding>& findings)
      : needs_(needs),
        host_(host),
        ranks_(narrow<int64_t>(host.host.slots.size())),
        findings_(findings) {}

  void judge() {
    if (!host_.problem.empty()) {
      bad("reachable", host_.problem, host_.advice);
      return;
    }
    clock();
    if (!host_.facts) return;
    limits(*host_.facts);
    shared_memory(*host_.facts);
    memory(*host_.facts);
    program(*host_.facts);
    disk(*host_.facts);
    nvme(*host_.facts);
    ports(*host_.facts);
    devices(*host_.facts);
  }

 private:
  void bad(std::string check, std::string what, std::string fix) {
    findings_.push_back(
        {host_.host.name, std::move(check), FindingLevel::kBad, std::move(what), std::move(fix)});
  }
  void warn(std::string check, std::string what, std::string fix) {
    findings_.push_back({host_.host.name, std::move(check), FindingLevel::kWarning, std::move(what),
                         std::move(fix)});
  }
  std::string its_ranks() const {
    return ranks_ == 1 ? "its rank needs" : fmt::format("its {} ranks need", ranks_);
  }

  void clock() {
    if (!host_.clock) return;
    const int64_t surely = std::abs(host_.clock->offset_us) - host_.clock->uncertainty_us;
    const std::string what = fmt::format(
        "its clock is {:.1f} s {}", static_cast<double>(std::abs(host_.clock->offset_us)) / 1e6,
        host_.clock->offset_us > 0 ? "ahead" : "behind");
    if (surely > kClockLimitUs) {
      bad("clock", what + "; it would take the job's certificates for expired or not yet good",
          "set it, for instance with `timedatectl set-ntp true` or `chronyc makestep`");
    } else if (surely > kClockNoticeUs) {
      warn("clock", what + "; times in logs will not match",
           "set it, for instance with `timedatectl set-ntp true` or `chronyc makestep`");
    }
  }

  void limit(const agent::Limit& limit, int64_t need, const char* check, const std::string& what,
             const char* ulimit, const char* word) {
    if (limit.soft() < 0 || limit.soft() >= need) return;
    const bool may_raise = limit.hard() < 0 || limit.hard() >= need;
    bad(check, fmt::format("{} {} are allowed, {} at least are needed", limit.soft(), what, need),
        fmt::format(
            "`ulimit {} {}`{}", ulimit, need,
            may_raise ? " before dslaunch, or on the host in its shell's start-up file"
                      : fmt::format(" needs a higher hard limit ({}): {} in "
                                    "/etc/security/limits.conf, Limit{}= of the sshd service",
                                    limit.hard(), word,
                                    check == std::string_view("open files") ? "NOFILE" : "NPROC")));
  }

  void limits(const agent::Facts& facts) {
    limit(facts.open_files(), kFilesOfEachRank + kFilesForEachPeer * needs_.world_size,
          "open files", "open files", "-n", "nofile");
    tasks(facts);
  }

  // Processes and threads beside those that are there. The launcher has not started its own yet, an
  // agent has.
  void tasks(const agent::Facts& facts) {
    const int cores = facts.grpc_cores();
    const int64_t of_rank = needs_.threads + kThreadsOfEachRank + grpc_threads_of_client(cores) +
                            (needs_.uses_gpus ? kThreadsOfEachGpu : 0);
    const int64_t of_launcher = kThreadsOfLauncher + grpc_threads_of_server(cores);
    const int64_t own = host_.host.name.empty() ? of_launcher : 0;
    const int64_t need = ranks_ * of_rank + own;
    const auto lack = [&](const agent::TaskLimit& limit) {
      return std::max<int64_t>(0, limit.most() - limit.used()) < need;
    };
    const std::string needed =
        fmt::format("{} {} more{}", its_ranks(), need,
                    own > 0 ? fmt::format(", dslaunch's {} among them", own) : "");
    if (facts.has_cgroup_tasks() && lack(facts.cgroup_tasks())) {
      const agent::TaskLimit& of_cgroup = facts.cgroup_tasks();
      const TaskLimit limit{of_cgroup.name(), of_cgroup.file(), of_cgroup.most(), of_cgroup.used()};
      bad("processes", fmt::format("{}; {}", describe(limit), needed),
          how_to_raise_cgroup(limit, need));
    }
    if (facts.has_user_tasks() && lack(facts.user_tasks())) {
      const agent::TaskLimit& user = facts.user_tasks();
      agent::Limit free = facts.processes();
      free.set_soft(user.most());
      limit(free, user.used() + need, "processes",
            fmt::format("processes and threads of user {} (who has {})", user.name(), user.used()),
            "-u", "nproc");
    }
  }

  void shared_memory(const agent::Facts& facts) {
    const int64_t need = ranks_ * kSharedMemoryOfEachRank;
    const char* const fix =
        "mount -o remount,size=1G /dev/shm; of a container: --shm-size=1g, or an emptyDir of "
        "medium Memory";
    if (!facts.shared_memory_error().empty()) {
      bad("shared memory", fmt::format("/dev/shm cannot be used: {}", facts.shared_memory_error()),
          "mount -t tmpfs tmpfs /dev/shm");
    } else if (facts.shared_memory_free() < need) {
      bad("shared memory",
          fmt::format("/dev/shm has {} free of {}, {} {}", format_bytes(facts.shared_memory_free()),
                      format_bytes(facts.shared_memory_total()), its_ranks(), format_bytes(need)),
          facts.shared_memory_total() < need
              ? fix
              : "remove what is left there of programs that have ended");
    }
  }

  void memory(const agent::Facts& facts) {
    const int64_t need = ranks_ * needs_.memory_bytes;
    if (need > 0 && facts.memory_available() < need) {
      bad("memory",
          fmt::format("{} of memory are left of {}, {} {}", format_bytes(facts.memory_available()),
                      facts.memory_bound(), its_ranks(), format_bytes(need)),
          "fewer slots on it, a higher ZeRO stage, a smaller micro batch; `dslaunch plan` shows "
          "what takes "
          "the memory");
    }
  }

  void program(const agent::Facts& facts) {
    if (!facts.program_error().empty()) {
      bad("program",
          fmt::format("the program of the ranks cannot be started there: {}",
                      facts.program_error()),
          "dslaunch and rankd have to be at the same path on every host");
    }
  }

  void disk(const agent::Facts& facts) {
    if (!facts.has_directory()) return;
    const agent::PathFacts& at = facts.directory();
    const std::string place = at.existing() == at.path() || at.existing().empty()
                                  ? at.path()
                                  : fmt::format("{} (for {})", at.existing(), at.path());
    if (!at.error().empty()) {
      bad("disk", fmt::format("{} cannot be written: {}", place, at.error()),
          "give the run a directory of your own with --run-dir");
    }
    const int64_t need = kCheckpointsAtOnce * needs_.checkpoint_bytes;
    if (need > 0 && at.free_bytes() < need) {
      bad("disk",
          fmt::format("{} has {} free, two checkpoints take {}", place,
                      format_bytes(at.free_bytes()), format_bytes(need)),
          "free some, or put the run elsewhere with --run-dir");
    }
    if (!needs_.shares_directory) return;
    const std::string unshared =
        !facts.witness_error().empty() ? facts.witness_error() : host_.own_file_error;
    if (!unshared.empty() && at.error().empty()) {
      bad("shared folder",
          fmt::format("{} is not the launcher's: a file written {} is not seen {} ({})", place,
                      facts.witness_error().empty() ? "there" : "here",
                      facts.witness_error().empty() ? "here" : "there", unshared),
          "the run directory has to be on a file system that all hosts share, at the same path");
    }
  }

  void nvme(const agent::Facts& facts) {
    for (const agent::PathFacts& at : facts.nvme()) {
      if (std::optional<SwapFolderDefect> found = swap_folder_defect(at)) {
        bad("nvme", "nvme_path " + found->what, std::move(found->fix));
      }
    }
  }

  void ports(const agent::Facts& facts) {
    if (!facts.listen_error().empty()) {
      bad("ports", facts.listen_error(), "check the host's address and what else listens there");
    }
    for (const agent::DialFailure& failure : facts.dial_failures()) {
      bad("ports", fmt::format("it cannot connect to {}: {}", failure.endpoint(), failure.error()),
          "hosts connect to each other and to the launcher on any port: open the firewall between "
          "them, or "
          "name an address that they reach with --master-addr");
    }
  }

  void devices(const agent::Facts& facts) {
    if (needs_.uses_gpus) {
      judge_gpus(needs_, host_, findings_);
    } else if (ranks_ > facts.cores()) {
      warn("devices", fmt::format("{} ranks share {} cores", ranks_, facts.cores()),
           "lower its slots in the hostfile");
    }
  }

  const PreflightNeeds& needs_;
  const SurveyedHost& host_;
  const int64_t ranks_;
  std::vector<Finding>& findings_;
};

}  // namespace

std::optional<SwapFolderDefect> swap_folder_defect(const agent::PathFacts& at) {
  if (at.existing() != at.path()) {
    return SwapFolderDefect{fmt::format("{} is not there", at.path()),
                            "make it on the NVMe device, or name another in the configuration"};
  }
  if (at.error().empty()) return std::nullopt;
  return SwapFolderDefect{fmt::format("{} cannot be written: {}", at.path(), at.error()),
                          "let the user of the job write there"};
}

ClockOffset clock_offset(int64_t sent_us, int64_t asked_us, int64_t answered_us,
                         int64_t received_us) {
  const int64_t there = std::max<int64_t>(0, answered_us - asked_us);
  const int64_t under_way = std::max<int64_t>(0, received_us - sent_us - there);
  return {((asked_us - sent_us) + (answered_us - received_us)) / 2, under_way / 2};
}

std::vector<Finding> judge_hosts(const PreflightNeeds& needs,
                                 const std::vector<SurveyedHost>& hosts) {
  std::vector<Finding> findings;
  for (const SurveyedHost& host : hosts) Judge(needs, host, findings).judge();
  if (needs.uses_gpus && needs.world_size > 1) judge_nccl(hosts, findings);
  return findings;
}

bool any_bad(const std::vector<Finding>& findings) {
  return std::ranges::any_of(
      findings, [](const Finding& finding) { return finding.level == FindingLevel::kBad; });
}

}  // namespace ds
