#include "launcher/agents/started_place.h"

#include <array>
#include <charconv>

#include "core/error.h"
#include "launcher/decide/host_choice.h"

namespace ds {
namespace {

struct Family {
  std::string_view starter;
  std::string_view rank;
  std::string_view size;
  std::string_view local_rank;
  std::string_view local_size;
};

// Hydra's rank variable is also that of Slurm's PMI, so its local one tells it.
constexpr Family kHydra{"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr std::array<Family, 3> kMpi = {{
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpirun", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"mpirun", "PALS_RANKID", "PALS_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"},
}};
// The number of tasks of a step: a job script has SLURM_NTASKS too, and is one process.
constexpr Family kSlurm{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                        "SLURM_STEP_TASKS_PER_NODE"};

std::string text_of(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

int read_number(std::string_view name, const std::string& text) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || at != end || value < 0) {
    throw UsageError(fmt::format("{}='{}': expected a number from 0", name, text));
  }
  return value;
}

int required(const Environment& environment, const Family& family, std::string_view name) {
  if (!environment.contains(name)) {
    throw UsageError(fmt::format("{} has set {}, but not {}", family.starter, family.rank, name));
  }
  return read_number(name, text_of(environment, name));
}

// Others that say the same thing have to say the same.
void require_agreement(const Environment& environment, std::string_view name, int value,
                       std::initializer_list<std::string_view> others) {
  for (const std::string_view other : others) {
    if (!environment.contains(other)) continue;
    const std::string text = text_of(environment, other);
    if (read_number(other, text) != value) {
      throw UsageError(
          fmt::format("environment: {}={} and {}={} contradict each other; unset {}, or "
                      "start one dslaunch that is told its hosts",
                      name, value, other, text, other));
    }
  }
}

const Family* family_of(const Environment& environment) {
  for (const Family& family : kMpi) {
    if (environment.contains(family.rank)) return &family;
  }
  if (environment.contains(kHydra.local_rank) && environment.contains(kHydra.rank)) return &kHydra;
  return environment.contains(kSlurm.size) && environment.contains(kSlurm.rank) ? &kSlurm : nullptr;
}

std::string slurm_job(const Environment& environment) {
  const std::string job = text_of(environment, "SLURM_JOB_ID");
  return job.empty() ? "" : fmt::format("slurm {} {}", job, text_of(environment, "SLURM_STEP_ID"));
}

std::string mpi_job(const Environment& environment) {
  // Batch systems name a job that may run several mpirun, so theirs come last.
  for (const char* const name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID",
                                 "PALS_APID", "PBS_JOBID", "LSB_JOBID", "SLURM_JOB_ID"}) {
    if (const std::string job = text_of(environment, name); !job.empty()) {
      return fmt::format("{} {}", name, job);
    }
  }
  return "";
}

int slurm_local_size(const Environment& environment) {
  const std::vector<int64_t> tasks = expand_task_counts(text_of(environment, kSlurm.local_size));
  const auto node = static_cast<size_t>(required(environment, kSlurm, "SLURM_NODEID"));
  if (node >= tasks.size()) {
    throw UsageError(
        fmt::format("SLURM_NODEID={} and SLURM_STEP_TASKS_PER_NODE={} contradict each "
                    "other",
                    node, text_of(environment, kSlurm.local_size)));
  }
  return static_cast<int>(tasks[node]);
}

}  // namespace

std::optional<StartedPlace> discover_start(const Environment& environment) {
  const Family* const family = family_of(environment);
  if (!family) return std::nullopt;
  const bool by_slurm = family == &kSlurm;
  StartedPlace place;
  place.starter = family->starter;
  place.size = required(environment, *family, family->size);
  if (place.size == 1) return std::nullopt;  // whatever else is set: `srun --pty` is no job of many
  place.rank = required(environment, *family, family->rank);
  place.local_rank = required(environment, *family, family->local_rank);
  place.local_size =
      by_slurm ? slurm_local_size(environment) : required(environment, *family, family->local_size);
  require_agreement(environment, family->rank, place.rank, {"RANK", "PMIX_RANK", "PMI_RANK"});
  require_agreement(environment, family->size, place.size, {"WORLD_SIZE", "PMI_SIZE"});
  if (by_slurm) require_agreement(environment, family->size, place.size, {"SLURM_NTASKS"});
  require_agreement(environment, family->local_rank, place.local_rank, {"LOCAL_RANK"});
  const bool possible = place.rank < place.size && place.local_rank < place.local_size &&
                        place.local_size <= place.size && place.local_rank <= place.rank;
  if (!possible) {
    throw UsageError(
        fmt::format("environment: {}={}, {}={}, {}={} and {} processes on this host "
                    "contradict each other",
                    family->rank, place.rank, family->size, place.size, family->local_rank,
                    place.local_rank, place.local_size));
  }
  place.host = by_slurm ? text_of(environment, "SLURMD_NODENAME") : "";
  place.job = by_slurm ? slurm_job(environment) : mpi_job(environment);
  return place;
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
