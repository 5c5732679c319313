#include "launcher/decide/hosts/slurm_allocation.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/status/error.h"
#include "core/values/index.h"
#include "launcher/decide/hosts/node_list.h"
#include "launcher/decide/text/amounts.h"

namespace ds {
namespace {

// The first of `names` that says something.
std::string variable(const Environment& environment,
                     std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (std::string value = value_in(environment, name); !value.empty()) return value;
  }
  return "";
}

// Nothing for what is no number: what Slurm says of GPUs is a hint, and older ones have other
// words.
std::optional<int64_t> as_count(std::string_view text) {
  try {
    const int64_t count = parse_whole_number(text, "GPUs");
    return count > 0 && count <= kMaxSlots * narrow<int64_t>(kMaxNodes) ? std::optional(count)
                                                                        : std::nullopt;
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

// "8", "h100:8", "h100:4,a100:4"; in "gpu:h100:8(S:0-1)" the sockets say nothing of the number.
std::optional<int64_t> typed_count(std::string_view text) {
  int64_t sum = 0;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    part = part.substr(0, part.find('('));
    const std::optional<int64_t> count = as_count(part.substr(part.rfind(':') + 1));
    if (!count) return std::nullopt;
    sum += *count;
  }
  return sum > 0 ? std::optional(sum) : std::nullopt;
}

// How many "0,1,2-5" are.
std::optional<int64_t> listed(std::string_view text) {
  try {
    return text.empty() ? std::nullopt
                        : std::optional(narrow<int64_t>(parse_core_list(text).size()));
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

// Returns the GPUs of each node if Slurm tells those of each task and all nodes have as many tasks.
std::optional<int64_t> by_tasks(const Environment& environment, const std::vector<int64_t>& tasks) {
  const std::optional<int64_t> each = typed_count(value_in(environment, "SLURM_GPUS_PER_TASK"));
  const bool equal = std::ranges::all_of(tasks, [&](int64_t count) { return count == tasks[0]; });
  return each && equal ? std::optional(*each * tasks[0]) : std::nullopt;
}

std::optional<int64_t> gpus_per_node(const Environment& environment,
                                     const SlurmAllocation& allocation) {
  const auto nodes = narrow<int64_t>(allocation.nodes.size());
  const std::optional<int64_t> all = allocation.gpus;
  // salloc knows no node, and says what was asked for alone.
  const std::array<std::optional<int64_t>, 5> said{
      typed_count(value_in(environment, "SLURM_GPUS_PER_NODE")),
      typed_count(value_in(environment, "SLURM_GPUS_ON_NODE")),
      listed(variable(environment, {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"})),
      by_tasks(environment, allocation.tasks),
      all && *all % nodes == 0 ? std::optional(*all / nodes) : std::nullopt};
  const auto* const first =
      std::ranges::find_if(said, [](const auto& count) { return count.has_value(); });
  if (first == said.end()) return std::nullopt;
  // What is said of this node holds for the others unless the sum is another one.
  const bool equal = !all || **first * nodes == *all;
  return equal && **first <= kMaxSlots ? *first : std::nullopt;
}

int64_t sum_of(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

std::string idle_note(int64_t idle, int64_t gpus, int64_t tasks) {
  return fmt::format(
      "{} of {} of this Slurm job stay idle: it has {}, and each is a rank; ask for a task for "
      "each GPU (--ntasks-per-node), or write --num-gpus N, which is for each node",
      idle, format_count(gpus, "GPU"), format_count(tasks, "task"));
}

}  // namespace

SlurmAllocation slurm_allocation(const Environment& environment) {
  SlurmAllocation out;
  const std::string nodes = variable(environment, {"SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  if (nodes.empty()) return out;
  out.nodes = expand_node_list(nodes);
  const std::string tasks = variable(environment, {"SLURM_TASKS_PER_NODE"});
  out.tasks = expand_task_counts(tasks.empty() ? "1" : tasks);
  out.tasks.resize(out.nodes.size(), out.tasks.back());
  out.tasks_said =
      !variable(environment, {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE"}).empty();
  out.gpus = typed_count(value_in(environment, "SLURM_GPUS"));
  out.gpus_per_node = gpus_per_node(environment, out);
  out.steps_ask = out.gpus || environment.contains("SLURM_GPUS_PER_TASK");
  return out;
}

SlurmRanks slurm_ranks(const SlurmAllocation& allocation, bool on_gpus) {
  SlurmRanks out;
  const std::vector<int64_t>& tasks = allocation.tasks;
  const int64_t gpus = on_gpus ? allocation.gpus_per_node.value_or(0) : 0;
  const bool one_each = std::ranges::all_of(tasks, [](int64_t count) { return count == 1; });
  const bool by_gpus = gpus > 0 && (one_each || !allocation.tasks_said);
  for (size_t i = 0; i < allocation.nodes.size(); ++i) {
    out.hosts.push_back({allocation.nodes[i], by_gpus ? gpus : tasks[i], false});
  }
  const int64_t all =
      on_gpus ? allocation.gpus.value_or(gpus * narrow<int64_t>(allocation.nodes.size())) : 0;
  if (by_gpus) {
    if (gpus > 1) {
      out.note = fmt::format(
          "Slurm gave each node {}: one rank for each; --num-gpus N takes the first N of each node",
          format_count(gpus, "GPU"));
    }
    return out;
  }
  int64_t idle = std::max<int64_t>(0, all - sum_of(tasks));
  if (gpus > 0) {
    idle = 0;
    for (const int64_t count : tasks) idle += std::max<int64_t>(0, gpus - count);
  }
  if (idle > 0) out.note = idle_note(idle, all, sum_of(tasks));
  if (on_gpus && gpus == 0 && all == 0 && one_each) {  // such as salloc --gres=gpu:8
    out.note =
        "Slurm does not say here how many GPUs its nodes have: one rank for each task, which is "
        "one "
        "for each node; --num-gpus N makes it N for each node";
  }
  return out;
}

std::optional<int64_t> gpus_of_steps(const SlurmAllocation& allocation, bool on_gpus) {
  if (!allocation.steps_ask) return std::nullopt;
  return on_gpus ? allocation.gpus_per_node : 0;
}

bool is_gpu_request_of_tasks(std::string_view variable) {
  constexpr std::array<std::string_view, 5> kNames{"SLURM_GPUS", "SLURM_GPUS_PER_TASK",
                                                   "SLURM_GPUS_PER_SOCKET", "SLURM_NTASKS_PER_GPU",
                                                   "SLURM_TRES_PER_TASK"};
  return std::ranges::find(kNames, variable) != kNames.end();
}

std::vector<int64_t> expand_task_counts(std::string_view text) {
  std::vector<int64_t> counts;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    int64_t times = 1;
    if (const size_t open = part.find("(x");
        open != std::string_view::npos && part.ends_with(')')) {
      times = parse_whole_number(part.substr(open + 2, part.size() - open - 3), "tasks per node");
      part = part.substr(0, open);
    }
    const int64_t tasks = parse_whole_number(part, "tasks per node");
    if (tasks < 1 || tasks > kMaxSlots || times < 1 || counts.size() + to_size(times) > kMaxNodes) {
      throw UsageError(fmt::format("tasks per node: {} times {} cannot be", times, tasks));
    }
    counts.insert(counts.end(), to_size(times), tasks);
  }
  if (counts.empty()) throw UsageError("tasks per node: the list is empty");
  return counts;
}

}  // namespace ds
