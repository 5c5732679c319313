#include "launcher/agents/started_place.h"

#include <array>
#include <charconv>

#include "core/status/error.h"
#include "launcher/decide/hosts/slurm_allocation.h"

namespace ds {
namespace {

struct StarterNames {
  std::string_view starter;
  std::string_view rank;
  std::string_view size;
  std::string_view local_rank;
  std::string_view local_size;
  std::string_view mark = "";  // by which it is told from the same names of others
};

// What PyTorch's launchers say. torchrun (and accelerate, by its means) and DeepSpeed's launcher
// leave marks: where they are, these have started this process, and whoever has started them, such
// as srun with one task on each node, says nothing of it.
constexpr std::array<StarterNames, 2> kMarked = {{
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    {"deepspeed", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_SIZE"},
}};
constexpr StarterNames kPyTorch{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};

// Hydra's rank variable is also that of Slurm's PMI, so its local one tells it.
constexpr StarterNames kHydra{"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
                              "MPI_LOCALNRANKS"};
constexpr std::array<StarterNames, 3> kMpi = {{
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpirun", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"mpirun", "PALS_RANKID", "PALS_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"},
}};
// The number of tasks of a step: a job script has SLURM_NTASKS too, and is one process.
constexpr StarterNames kSlurm{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                              "SLURM_STEP_TASKS_PER_NODE"};

int read_number(std::string_view name, const std::string& text) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || at != end || value < 0) {
    throw UsageError(fmt::format("{}='{}': expected a number from 0", name, text));
  }
  return value;
}

int required(const Environment& environment, const StarterNames& names, std::string_view name) {
  if (!environment.contains(name)) {
    throw UsageError(fmt::format("{} has set {}, but not {}", names.starter, names.rank, name));
  }
  return read_number(name, value_in(environment, name));
}

// Others that say the same thing have to say the same.
void require_agreement(const Environment& environment, std::string_view name, int value,
                       std::initializer_list<std::string_view> others) {
  for (const std::string_view other : others) {
    if (!environment.contains(other)) continue;
    const std::string text = value_in(environment, other);
    if (read_number(other, text) != value) {
      throw UsageError(
          fmt::format("environment: {}={} and {}={} contradict each other; unset {}, or "
                      "start one dslaunch that is told its hosts",
                      name, value, other, text, other));
    }
  }
}

bool is_whole(const Environment& environment, const StarterNames& names) {
  return environment.contains(names.rank) && environment.contains(names.size) &&
         environment.contains(names.local_rank) && environment.contains(names.local_size);
}

const StarterNames* names_set_in(const Environment& environment) {
  for (const StarterNames& names : kMarked) {
    if (environment.contains(names.mark) && is_whole(environment, names)) return &names;
  }
  for (const StarterNames& names : kMpi) {
    if (environment.contains(names.rank)) return &names;
  }
  if (environment.contains(kHydra.local_rank) && environment.contains(kHydra.rank)) return &kHydra;
  if (environment.contains(kSlurm.size) && environment.contains(kSlurm.rank)) return &kSlurm;
  return is_whole(environment, kPyTorch) ? &kPyTorch : nullptr;
}

std::string slurm_job(const Environment& environment) {
  const std::string job = value_in(environment, "SLURM_JOB_ID");
  return job.empty() ? "" : fmt::format("slurm {} {}", job, value_in(environment, "SLURM_STEP_ID"));
}

std::string mpi_job(const Environment& environment) {
  // Batch systems name a job that may run several mpirun, so theirs come last.
  for (const char* const name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID",
                                 "PALS_APID", "PBS_JOBID", "LSB_JOBID", "SLURM_JOB_ID"}) {
    if (const std::string job = value_in(environment, name); !job.empty()) {
      return fmt::format("{} {}", name, job);
    }
  }
  return "";
}

// torchrun's own name of the job is "none" unless somebody gives it one, so that only the address
// tells jobs apart, and a restart is another job.
std::string pytorch_job(const Environment& environment) {
  const std::string address = value_in(environment, "MASTER_ADDR");
  if (address.empty()) return "";
  return fmt::format("torchrun {} {}:{} {}", value_in(environment, "TORCHELASTIC_RUN_ID"), address,
                     value_in(environment, "MASTER_PORT"),
                     value_in(environment, "TORCHELASTIC_RESTART_COUNT"));
}

// The number of the node among those of the job, or of its process where each has a single one.
std::string pytorch_group(const Environment& environment, const StartedPlace& place) {
  for (const char* const name : {"GROUP_RANK", "CROSS_RANK"}) {
    if (const std::string number = value_in(environment, name); !number.empty()) return number;
  }
  return place.local_size == 1 ? std::to_string(place.rank) : "";
}

int slurm_local_size(const Environment& environment) {
  const std::vector<int64_t> tasks = expand_task_counts(value_in(environment, kSlurm.local_size));
  const auto node = static_cast<size_t>(required(environment, kSlurm, "SLURM_NODEID"));
  if (node >= tasks.size()) {
    throw UsageError(
        fmt::format("SLURM_NODEID={} and SLURM_STEP_TASKS_PER_NODE={} contradict each "
                    "other",
                    node, value_in(environment, kSlurm.local_size)));
  }
  return static_cast<int>(tasks[node]);
}

void require_agreement_of_all(const Environment& environment, const StarterNames& names,
                              const StartedPlace& place) {
  require_agreement(environment, names.rank, place.rank, {"RANK", "PMIX_RANK", "PMI_RANK"});
  require_agreement(environment, names.size, place.size, {"WORLD_SIZE", "PMI_SIZE"});
  if (&names == &kSlurm) {
    require_agreement(environment, names.size, place.size, {"SLURM_NTASKS"});
  }
  require_agreement(environment, names.local_rank, place.local_rank, {"LOCAL_RANK"});
}

// Whether it says a number above one. In "2:4", as torchrun has it, the last one counts.
bool is_several(const Environment& environment, std::string_view name) {
  const std::string text = value_in(environment, name);
  const std::string_view last = std::string_view(text).substr(text.rfind(':') + 1);
  int value = 0;
  const auto [at, error] = std::from_chars(last.data(), last.data() + last.size(), value);
  return error == std::errc() && at == last.data() + last.size() && value > 1;
}

}  // namespace

std::optional<StartedPlace> discover_start(const Environment& environment) {
  const StarterNames* const names = names_set_in(environment);
  if (!names) return std::nullopt;
  const bool by_slurm = names == &kSlurm;
  const bool by_pytorch = names->rank == kPyTorch.rank;
  StartedPlace place;
  place.starter = names->starter;
  place.size = required(environment, *names, names->size);
  if (place.size == 1) return std::nullopt;  // whatever else is set: `srun --pty` is no job of many
  place.rank = required(environment, *names, names->rank);
  place.local_rank = required(environment, *names, names->local_rank);
  place.local_size =
      by_slurm ? slurm_local_size(environment) : required(environment, *names, names->local_size);
  if (!by_pytorch) require_agreement_of_all(environment, *names, place);
  const bool possible = place.rank < place.size && place.local_rank < place.local_size &&
                        place.local_size <= place.size && place.local_rank <= place.rank;
  if (!possible) {
    throw UsageError(
        fmt::format("environment: {}={}, {}={}, {}={} and {} processes on this host "
                    "contradict each other",
                    names->rank, place.rank, names->size, place.size, names->local_rank,
                    place.local_rank, place.local_size));
  }
  place.host = by_slurm ? value_in(environment, "SLURMD_NODENAME") : "";
  place.job = by_slurm     ? slurm_job(environment)
              : by_pytorch ? pytorch_job(environment)
                           : mpi_job(environment);
  if (by_pytorch) place.group = pytorch_group(environment, place);
  return place;
}

void require_same_local_rank(const StartedPlace& place, std::optional<int> said) {
  if (!said || *said == place.local_rank) return;
  throw UsageError(fmt::format(
      "--local-rank {}: {} has set the variables of local rank {}; leave the option out", *said,
      place.starter, place.local_rank));
}

void require_start_alone(const Environment& environment) {
  struct Sign {
    std::string_view number;
    std::string_view of;
  };
  constexpr std::array<Sign, 4> kSigns = {{{"RANK", "WORLD_SIZE"},
                                           {"PET_NODE_RANK", "PET_NNODES"},
                                           {"NODE_RANK", "NNODES"},
                                           {"PMI_RANK", "PMI_SIZE"}}};
  if (names_set_in(environment) != nullptr) return;
  for (const auto& [number, of] : kSigns) {
    if (!environment.contains(number) || !is_several(environment, of)) continue;
    throw UsageError(fmt::format(
        "{}={} and {}={} say that this is one of several processes or pods of one job, but no "
        "LOCAL_RANK and LOCAL_WORLD_SIZE say which of them share a host: each would train by "
        "itself. Start them by torchrun --no-python, mpirun or srun; or, where each has a host of "
        "its own, "
        "set LOCAL_RANK=0 and LOCAL_WORLD_SIZE=1 beside RANK and WORLD_SIZE; or start one dslaunch "
        "with --hostfile. To train on this machine alone, write --launcher local, or unset {} and "
        "{}",
        number, value_in(environment, number), of, value_in(environment, of), number, of));
  }
}

std::string note_of_start_alone(const Environment& environment) {
  const std::string index = value_in(environment, "JOB_COMPLETION_INDEX");
  if (!index.empty()) {
    return fmt::format(
        "JOB_COMPLETION_INDEX={}: this pod trains by itself, as every other one of its Job does; "
        "for one run over all of them, set RANK=$JOB_COMPLETION_INDEX, WORLD_SIZE, LOCAL_RANK=0, "
        "LOCAL_WORLD_SIZE=1, MASTER_ADDR and MASTER_PORT",
        index);
  }
  const std::string hosts = value_in(environment, "VC_WORKER_HOSTS");
  if (hosts.find(',') == std::string::npos) return "";
  return fmt::format(
      "this machine trains by itself, although VC_WORKER_HOSTS names several ({}); for one run "
      "over all of them, write --hostfile /etc/volcano/worker.host in one of them",
      hosts);
}

bool offers_pmix(const Environment& environment) {
  constexpr std::string_view kServer = "PMIX_SERVER_URI";  // with the protocol's version behind it
  const auto server = environment.lower_bound(kServer);
  return environment.contains("PMIX_NAMESPACE") && environment.contains("PMIX_RANK") &&
         server != environment.end() && server->first.starts_with(kServer);
}

std::vector<std::string> mpi_variables(const Environment& environment) {
  std::vector<std::string> out;
  for (const auto& [name, value] : environment) {
    // Slurm's own numbers are read by Open MPI where srun starts it. OMPI_ARGV is the whole command
    // line, the same for all.
    const bool wanted = name.starts_with("PMIX_") || name.starts_with("OMPI_") ||
                        name == kSlurm.rank || name == kSlurm.local_rank;
    if (wanted && name != "OMPI_ARGV") out.push_back(fmt::format("{}={}", name, value));
  }
  return out;
}

}  // namespace ds
