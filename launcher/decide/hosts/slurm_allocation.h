// What Slurm says of the allocation that this process runs in (pure): its nodes, tasks and GPUs,
// and how many ranks each node takes. Reads no environment; the variables are handed in.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/decide/hosts/hostfile.h"
#include "launcher/decide/text/environment.h"

namespace ds {

struct SlurmAllocation {
  std::vector<std::string> nodes;  // none: this is no allocation
  std::vector<int64_t> tasks;      // of each node
  // Whether somebody asked for tasks. Else Slurm counts as many as there are cores, or one.
  bool tasks_said = false;
  std::optional<int64_t> gpus_per_node;  // none: not known, or the nodes differ
  std::optional<int64_t> gpus;           // of all nodes, where --gpus said it
  // Whether GPUs were counted for the job or for each task (--gpus, --gpus-per-task). A step that
  // asks for none is refused then, or has those of one task.
  bool steps_ask = false;
};

// From SLURM_JOB_NODELIST, SLURM_TASKS_PER_NODE and what it has for GPUs (SLURM_GPUS_PER_NODE,
// SLURM_GPUS_ON_NODE, SLURM_STEP_GPUS, SLURM_JOB_GPUS, SLURM_GPUS_PER_TASK, SLURM_GPUS), older
// names included. Throws UsageError for nodes and tasks that cannot be read.
SlurmAllocation slurm_allocation(const Environment& environment);

struct SlurmRanks {
  HostPool hosts;
  std::string note;  // for the user, where the ranks are not simply the tasks, or GPUs stay idle
};

// A rank for each task. Where ranks compute on GPUs and nobody asked for more than one task on each
// node, as job scripts for torchrun do, a rank for each GPU.
SlurmRanks slurm_ranks(const SlurmAllocation& allocation, bool on_gpus);

// How many GPUs srun has to ask for on each node, so that one step has all that the ranks there may
// use; nothing where it should not ask.
std::optional<int64_t> gpus_of_steps(const SlurmAllocation& allocation, bool on_gpus);

// What salloc and sbatch leave for srun about GPUs. It is meant for the tasks of the job: a step of
// one task on one node cannot have it, or is made several.
bool is_gpu_request_of_tasks(std::string_view variable);

// "2(x3),1" is 2, 2, 2, 1: Slurm's tasks for each node. Throws UsageError.
std::vector<int64_t> expand_task_counts(std::string_view text);

}  // namespace ds
