#include "launcher/verbs/found_run.h"

#include <fmt/format.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "core/files/file.h"
#include "core/status/error.h"
#include "launcher/process/files/epoch_claim.h"
#include "launcher/process/files/input_file.h"
#include "launcher/process/run_lease.h"
#include "launcher/report/metrics_file.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

void require_run(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory / "logs", error)) {
    throw InputMissing(
        fmt::format("no run in {}; name its directory (runs/latest is the newest one "
                    "started in this directory that has trained a step)",
                    directory.string()));
  }
}

// report.json of an earlier launch in the same directory says nothing about the last one.
bool reported(const fs::path& directory) {
  std::error_code error;
  const auto report = fs::last_write_time(directory / "report.json", error);
  if (error) return false;
  const auto began = fs::last_write_time(directory / "config.json", error);
  return error || report >= began;
}

void add_report_of(const fs::path& directory, RunStatus& status) {
  try {
    add_report(run_file(directory, "report.json"), status);
  } catch (const DataError& error) {
    const std::string path = (directory / "report.json").string();
    const std::string_view said = error.what();
    if (said.find(path) != std::string_view::npos) throw;
    throw DataError(fmt::format("{}: {}", path, said));
  }
}

// What a run that left no report had saved last.
void add_last_tag(const fs::path& directory, RunStatus& status) {
  constexpr size_t kLongest = 4096;
  const fs::path latest = directory / "checkpoints" / "latest";
  std::string tag;
  try {
    tag = read_input_file_if_there(latest, kLongest).value_or("");
  } catch (const Error& error) {
    status.reason += fmt::format("; what it saved last is not known ({})", error.what());
    return;
  }
  tag.erase(tag.find_last_not_of(" \n") + 1);
  if (tag.empty()) {
    status.reason +=
        fmt::format("; nothing is saved: start it again with --run-dir {}", directory.string());
    return;
  }
  status.last_commit.emplace().set_tag(tag);
  const size_t digits = tag.find_last_not_of("0123456789") + 1;
  int64_t step = 0;
  std::from_chars(tag.data() + digits, tag.data() + tag.size(), step);
  status.last_commit->set_step(step);
  status.reason +=
      fmt::format("; the same command with --run-dir {} goes on from {}", directory.string(), tag);
}

// The step that the run came to, where its report does not say it in full.
void add_last_step(const fs::path& directory, RunStatus& status) {
  try {
    if (const auto line = last_metrics_line(directory)) add_metrics_line(*line, status);
  } catch (const Error& error) {
    status.reason += fmt::format("; its last step is not known ({})", error.what());
  }
}

// How a run ended, from its files.
void add_end(const fs::path& directory, const std::optional<Lease>& lease, RunStatus& status) {
  if (reported(directory)) {
    add_report_of(directory, status);
    return;
  }
  RealFileSystem files;
  status.generation = newest_epoch(files, directory.string());
  if (lease && lease->over && lease->exit_code) {
    status.exit_code = lease->exit_code;
    status.phase = phase_of(*lease->exit_code);
    status.reason =
        fmt::format("ended with code {}; its report could not be written", *lease->exit_code);
    return;
  }
  status.phase = "killed";
  status.reason = "dslaunch ended without a report: it was killed, or the machine went down";
  add_last_tag(directory, status);
}

RunStatus status_of_ended(const fs::path& directory) {
  RunStatus status;
  std::error_code error;
  const fs::path real = fs::canonical(directory, error);
  status.run_dir = error ? directory.string() : real.string();
  const std::optional<Lease> lease = last_lease(directory);
  if (lease && is_launched(directory)) {
    status.phase = "running";
    status.launcher_pid = lease->pid;
    status.reason =
        fmt::format("{} runs it; from here it cannot be asked (another host or network namespace?)",
                    describe(*lease));
    return status;
  }
  add_end(directory, lease, status);
  add_last_step(directory, status);
  return status;
}

}  // namespace

fs::path meant_run(const fs::path& named) {
  if (named != "runs/latest" || is_launched(named)) return named;
  std::vector<fs::path> live;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(named.parent_path(), error)) {
    if (!entry.is_symlink(error) && is_launched(entry.path())) live.push_back(entry.path());
  }
  if (live.size() <= 1) return live.empty() ? named : live.front();
  std::ranges::sort(live);
  std::string names;
  for (const fs::path& run : live)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", run.string());
  throw UsageError(fmt::format("{} runs go on here ({}): name one of them", live.size(), names));
}

RunStatus find_status(const fs::path& directory) {
  require_run(directory);
  const auto reply = query_run(directory, control_request(ControlVerb::kStatus));
  return reply ? reply->status : status_of_ended(directory);
}

ControlReply ask_running(const fs::path& directory, const ControlRequest& request) {
  require_run(directory);
  if (auto reply = query_run(directory, control_request(request))) return *reply;
  const RunStatus ended = status_of_ended(directory);
  if (ended.live())
    throw Error(ExitCode::kClusterUnusable,
                fmt::format("{}: {}", directory.string(), ended.reason));
  throw InputMissing(fmt::format("{} does not run any more: {}{}", directory.string(), ended.phase,
                                 ended.reason.empty() ? "" : fmt::format(" ({})", ended.reason)));
}

int code_of(const RunStatus& status) {
  return status.live() || status.phase == "done" || status.phase == "stopped" ? 0 : 1;
}

std::map<int, fs::path> rank_logs(const fs::path& directory) {
  require_run(directory);
  constexpr std::string_view kPrefix = "rank-";
  std::map<int, fs::path> logs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory / "logs", error)) {
    const std::string name = entry.path().stem().string();
    int rank = 0;
    const char* const end = name.data() + name.size();
    if (entry.path().extension() != ".log" || !name.starts_with(kPrefix)) continue;
    const auto parsed = std::from_chars(name.data() + kPrefix.size(), end, rank);
    if (parsed.ec == std::errc() && parsed.ptr == end) logs[rank] = entry.path();
  }
  return logs;
}

bool report_has(const std::string& report, const char* name) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag>(report.data(), report.size());
  return document.IsObject() && document.HasMember(name) && !document[name].IsNull();
}

std::string run_file(const fs::path& directory, std::string_view name) {
  constexpr size_t kMost = 64 << 20;  // a report of 10,000 ranks has a tenth of it
  return read_input_file_if_there(directory / name, kMost).value_or("");
}

MetricCurves run_curves(const fs::path& directory) {
  MetricLines lines;
  read_lines(directory / "metrics.jsonl", kMostMetricsBytes,
             [&lines](std::string_view line) { lines.add(line); });
  return lines.finish();
}

// The first line of the part is torn, or the whole of it.
MetricCurves recent_curves(const fs::path& directory) {
  constexpr size_t kMost = 256 << 10;
  const fs::path file = directory / "metrics.jsonl";
  const uintmax_t size = size_of_file(file);
  return metric_curves(read_part(file, size - std::min<uintmax_t>(size, kMost), kMost));
}

uintmax_t size_of_file(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  return error ? 0 : size;
}

}  // namespace ds
