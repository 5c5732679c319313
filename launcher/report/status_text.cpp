#include "launcher/report/status_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "launcher/report/gpu_text.h"
#include "launcher/report/progress.h"

namespace ds {
namespace {

constexpr double kSilent = 2.5;  // heartbeats come every second

Time to_time(double seconds) {
  constexpr double kMost = 1e9;  // what a report says may be beyond what the clock can count
  seconds = std::clamp(seconds, -kMost, kMost);
  return std::chrono::duration_cast<Time>(std::chrono::duration<double>(seconds));
}

std::string last_step_text(const RunStatus& status) {
  return step_line(*status.last_step,
                   status.left_s ? std::optional(to_time(*status.left_s)) : std::nullopt);
}

std::string gpu_cell(const GpuState& gpu) {
  if (!gpu.problem.empty()) return fmt::format("{}: {}", gpu.index, gpu.problem);
  std::string text = fmt::format("{}: {}", gpu.index, gpu_figures_text(gpu.figures));
  if (gpu.figures.last_xid) text += ", " + xid_text(*gpu.figures.last_xid);
  return text;
}

std::string rank_table(const RunStatus& status) {
  size_t host_width = 4;
  for (const RankStatus& rank : status.ranks) host_width = std::max(host_width, rank.host.size());
  std::vector<std::string> gpus;
  size_t gpu_width = 0;
  for (const RankStatus& rank : status.ranks) {
    gpus.push_back(rank.gpu ? gpu_cell(*rank.gpu) : "");
    gpu_width = std::max(gpu_width, gpus.back().size());
  }
  const auto gpu_column = [&](std::string_view cell) {
    return gpu_width == 0 ? "" : fmt::format("  {:<{}}", cell, gpu_width);
  };
  std::string text = fmt::format("{:>5}  {:<{}}  {:>8}  {:>7}{}  where\n", "rank", "host",
                                 host_width, "pid", "heard", gpu_column("GPU"));
  size_t row = 0;
  for (const RankStatus& rank : status.ranks) {
    const std::string heard = rank.silent_s ? fmt::format("{:.1f}s", *rank.silent_s) : "-";
    const std::string pid = rank.pid > 0 ? std::to_string(rank.pid) : "-";
    text += fmt::format("{:>5}  {:<{}}  {:>8}  {:>7}{}  {}\n", rank.rank, rank.host, host_width,
                        pid, heard, gpu_column(gpus[row++]), place_text(rank));
  }
  return text;
}

std::string escape_label(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

// One family after the other, each with its help and type once.
class Exposition {
 public:
  explicit Exposition(const RunStatus& status)
      : run_(escape_label(std::filesystem::path(status.run_dir).filename().string())) {}

  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  void sample(double value) {
    text_ += fmt::format("{}{{run=\"{}\"}} {}\n", name_, run_, shown(value));
  }
  void sample(const RankStatus& rank, double value) {
    text_ += fmt::format("{}{{run=\"{}\",rank=\"{}\",host=\"{}\"}} {}\n", name_, run_, rank.rank,
                         escape_label(rank.host), shown(value));
  }
  void gauge(std::string_view name, std::string_view help, double value) {
    family(name, "gauge", help);
    sample(value);
  }
  std::string text() const { return text_; }

 private:
  static std::string shown(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
    return fmt::format("{}", value);
  }

  const std::string run_;
  std::string_view name_;
  std::string text_;
};

void expose_step(Exposition& out, const StepMetrics& step) {
  out.gauge("dslaunch_step", "Optimizer steps done.", static_cast<double>(step.step));
  if (step.total_steps > 0) {
    out.gauge("dslaunch_steps_planned", "Optimizer steps of the whole run.",
              static_cast<double>(step.total_steps));
  }
  for (const MetricRow& row : metric_table()) {
    const std::optional<double> value = step.values.find(row);
    if (value && !row.gauge.empty()) out.gauge(row.gauge, row.help, *value);
  }
}

void expose_ranks(Exposition& out, const std::vector<RankStatus>& ranks) {
  out.family("dslaunch_rank_up", "gauge", "1 for a rank that is there.");
  for (const RankStatus& rank : ranks) out.sample(rank, rank.state == "alive" ? 1 : 0);
  out.family("dslaunch_rank_step", "gauge", "Optimizer steps that the rank has done.");
  for (const RankStatus& rank : ranks) {
    if (rank.progress.knows_step()) out.sample(rank, static_cast<double>(rank.progress.step));
  }
  out.family("dslaunch_rank_silent_seconds", "gauge", "Time since the rank was heard.");
  for (const RankStatus& rank : ranks) {
    if (rank.silent_s) out.sample(rank, *rank.silent_s);
  }
  out.family("dslaunch_rank_in_collective", "gauge", "1 for a rank that is inside a collective.");
  for (const RankStatus& rank : ranks) out.sample(rank, rank.progress.collective.inside ? 1 : 0);
}

// Families of what is known of the ranks' GPUs; none where they have none.
void expose_gpus(Exposition& out, const std::vector<RankStatus>& ranks) {
  struct Family {
    const char* name;
    const char* help;
    std::optional<int64_t> GpuFigures::*value;
    double unit;
  };
  constexpr Family kFamilies[] = {
      {"dslaunch_rank_gpu_memory_bytes", "Memory of the rank's GPU.", &GpuFigures::memory_total, 1},
      {"dslaunch_rank_gpu_memory_used_bytes", "Memory of it that is used, by whomever.",
       &GpuFigures::memory_used, 1},
      {"dslaunch_rank_gpu_utilization_ratio", "Part of the time in which it computed.",
       &GpuFigures::utilization, 0.01},
      {"dslaunch_rank_gpu_temperature_celsius", "How hot it is.", &GpuFigures::temperature, 1},
      {"dslaunch_rank_gpu_power_watts", "What it takes.", &GpuFigures::power, 0.001},
      {"dslaunch_rank_gpu_xid", "The newest critical Xid since the ranks run.",
       &GpuFigures::last_xid, 1}};
  for (const Family& family : kFamilies) {
    const auto known = [&](const RankStatus& rank) {
      return rank.gpu && rank.gpu->figures.*family.value;
    };
    if (std::ranges::none_of(ranks, known)) continue;
    out.family(family.name, "gauge", family.help);
    for (const RankStatus& rank : ranks) {
      if (known(rank))
        out.sample(rank, static_cast<double>(*(rank.gpu->figures.*family.value)) * family.unit);
    }
  }
}

std::string collective_text(const RankStatus& rank) {
  const LastCollective& last = rank.progress.collective;
  if (last.number == 0) return "";
  return fmt::format(", {} {}", last.inside ? "inside" : "after", describe(last));
}

}  // namespace

std::string place_text(const RankStatus& rank) {
  return rank.state == "alive" ? place_of(rank.progress) + collective_text(rank) : rank.state;
}

std::string doing_text(const RankStatus& rank) {
  if (!rank.progress.knows_step() || rank.state != "alive") return place_text(rank);
  std::string text = rank.progress.phase + collective_text(rank);
  if (const std::string count = count_of(rank.progress); !count.empty()) text += ", " + count;
  return text;
}

std::string headline_text(const RunStatus& status) {
  std::string text = status.phase;
  if (status.exit_code) text += fmt::format(" with code {}", *status.exit_code);
  if (status.stop_requested && status.live()) text += ", asked to stop";
  if (status.generation > 0) text += fmt::format(", generation {}", status.generation);
  if (status.restarts.value_or(0) > 0) {
    text += fmt::format(", {}", format_count(*status.restarts, "restart"));
  }
  if (status.elapsed_s) {
    text +=
        fmt::format("{}{}", status.live() ? ", for " : ", after ", seconds_text(*status.elapsed_s));
  }
  if (status.live()) text += fmt::format(", pid {}", status.launcher_pid);
  return text;
}

std::string seconds_text(double seconds) { return format_duration(to_time(seconds)); }

bool is_silent(const RankStatus& rank) {
  return rank.state == "alive" && rank.silent_s.value_or(0) > kSilent;
}

std::string verdict_text(const RunStatus& status) {
  const RankStatus* quietest = nullptr;
  for (const RankStatus& rank : status.ranks) {
    if (is_silent(rank) && (quietest == nullptr || rank.silent_s > quietest->silent_s)) {
      quietest = &rank;
    }
  }
  if (quietest != nullptr) {
    return fmt::format("rank {} has not answered for {:.1f} s; it was {}", quietest->rank,
                       *quietest->silent_s, place_text(*quietest));
  }
  return status.waits_for;
}

std::string status_text(const RunStatus& status) {
  std::string text = fmt::format("run {}", status.run_dir);
  if (!status.config.empty()) text += fmt::format(" ({})", status.config);
  text += fmt::format("\n{}\n", headline_text(status));
  if (!status.reason.empty()) text += fmt::format("reason: {}\n", status.reason);
  if (status.last_step) text += last_step_text(status) + "\n";
  if (status.last_commit) {
    text += fmt::format("checkpoint {}\n", status.last_commit->tag());
  }
  if (!status.ranks.empty()) text += rank_table(status);
  if (const std::string verdict = verdict_text(status); !verdict.empty()) {
    text += fmt::format("waiting: {}\n", verdict);
  }
  return text;
}

std::string status_prometheus(const RunStatus& status) {
  Exposition out(status);
  out.gauge("dslaunch_running", "1 while dslaunch runs this job.", status.live() ? 1 : 0);
  out.gauge("dslaunch_paused", "1 while the ranks wait at a step edge.",
            status.phase == "paused" ? 1 : 0);
  if (status.exit_code) {
    out.gauge("dslaunch_exit_code", "How the run ended.", *status.exit_code);
  }
  if (status.generation > 0) {
    out.gauge("dslaunch_generation",
              "Generation of the world: it rises with every restart and every launch that goes on.",
              static_cast<double>(status.generation));
  }
  if (status.restarts) {
    out.family("dslaunch_restarts_total", "counter", "Restarts of the world.");
    out.sample(*status.restarts);
  }
  if (status.elapsed_s) {
    out.gauge("dslaunch_elapsed_seconds", "Time since dslaunch was started.", *status.elapsed_s);
  }
  if (status.left_s) {
    out.gauge("dslaunch_left_seconds", "Estimated time to the last step.", *status.left_s);
  }
  if (status.last_step) expose_step(out, *status.last_step);
  if (status.last_commit) {
    out.gauge("dslaunch_committed_step", "Step of the newest checkpoint.",
              static_cast<double>(status.last_commit->step()));
  }
  if (!status.ranks.empty()) expose_ranks(out, status.ranks);
  expose_gpus(out, status.ranks);
  return out.text();
}

}  // namespace ds
