#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <thread>

#include "cli/text/terminal_text.h"
#include "core/tasks/host.h"
#include "launcher/decide/text/json_text.h"
#include "launcher/process/files/input_file.h"
#include "launcher/report/status_text.h"
#include "launcher/verbs/found_run.h"
#include "launcher/verbs/watch/watch.h"
#include "proto/dump_marks.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

constexpr auto kDumpPatience = std::chrono::seconds(3);

// The dump that came behind `offset`, if it is whole.
std::optional<std::string> dump_in(const fs::path& log, uintmax_t offset) {
  constexpr size_t kMostBytes = 8 << 20;
  const std::string text = read_part(log, offset, kMostBytes);
  const size_t begin = text.find(kDumpBegins);
  const size_t end = begin == std::string::npos ? begin : text.find(kDumpEnds, begin);
  if (end == std::string::npos) return std::nullopt;
  const size_t body = text.find('\n', begin) + 1;
  return text.substr(body, end - body);
}

std::string first_line_of(const fs::path& path) {
  const std::string text = system_text(path);
  return text.substr(0, text.find('\n'));
}

// From outside, for a rank that does not answer: what the kernel knows of its threads.
std::string kernel_view(int64_t pid) {
  std::string text;
  std::error_code error;
  for (const auto& task : fs::directory_iterator(fmt::format("/proc/{}/task", pid), error)) {
    std::string state;
    std::istringstream status(system_text(task.path() / "status"));
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("State:")) state = line.substr(line.find_first_not_of(" \t", 6));
    }
    text += fmt::format("  thread {} {}: {}", task.path().filename().string(),
                        first_line_of(task.path() / "comm"), state);
    const std::string wchan = first_line_of(task.path() / "wchan");
    text += wchan.empty() || wchan == "0" ? "\n" : fmt::format(", waits in {}\n", wchan);
    std::istringstream stack(system_text(task.path() / "stack"));  // root alone may read it
    for (std::string line; std::getline(stack, line);) text += fmt::format("    kernel {}\n", line);
  }
  return text;
}

std::string silent_rank_text(const RankStatus& rank) {
  std::string text = "  it did not answer within 3 s";
  if (rank.host != own_host_name())
    return text + fmt::format("; its process is on {}\n", rank.host);
  const std::string threads = kernel_view(rank.pid);
  return threads.empty() ? text + "; its process is gone\n"
                         : text + "; the kernel knows of its threads:\n" + threads;
}

struct Dumps {
  RunStatus status;
  std::map<int, std::string> texts;  // by rank, of those that answered
};

Dumps ask_for_dumps(const fs::path& run) {
  // The sizes first: what stands behind them is the answer.
  std::map<int, uintmax_t> offsets;
  for (const auto& [rank, path] : rank_logs(run)) offsets[rank] = size_of_file(path);
  Dumps out{.status = ask_running(run, {.verb = ControlVerb::kStack}).status, .texts = {}};
  const std::map<int, fs::path> logs = rank_logs(run);
  const auto deadline = std::chrono::steady_clock::now() + kDumpPatience;
  const auto missing = [&] {
    return std::ranges::any_of(out.status.ranks, [&](const RankStatus& rank) {
      return rank.state == "alive" && !out.texts.contains(rank.rank);
    });
  };
  while (missing() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (const auto& [rank, path] : logs) {
      if (const auto dump = dump_in(path, offsets[rank])) out.texts[rank] = *dump;
    }
  }
  return out;
}

// What there is to read of a rank below its heading.
std::string details(const Dumps& dumps, const RankStatus& rank) {
  if (rank.state != "alive") return "";
  const auto dump = dumps.texts.find(rank.rank);
  return dump != dumps.texts.end() ? dump->second : silent_rank_text(rank);
}

std::string as_json(const Dumps& dumps, const std::string& verdict) {
  std::vector<std::string> ranks;
  for (const RankStatus& rank : dumps.status.ranks) {
    JsonObject one;
    one.integer("rank", rank.rank)
        .raw("pid", rank.pid > 0 ? std::to_string(rank.pid) : "null")
        .text("host", rank.host)
        .text("state", rank.state);
    one.text("place", place_text(rank))
        .raw("answered", dumps.texts.contains(rank.rank) ? "true" : "false");
    ranks.push_back(one.text("dump", details(dumps, rank)).str());
  }
  return JsonObject()
      .text("run_dir", dumps.status.run_dir)
      .integer("generation", dumps.status.generation)
      .number("elapsed_s", dumps.status.elapsed_s)
      .raw("waiting", verdict.empty() ? "null" : json_string(verdict))
      .raw("ranks", fmt::format("[{}]", fmt::join(ranks, ", ")))
      .str();
}

}  // namespace

int run_stack(const StackOptions& options) {
  const Dumps dumps = ask_for_dumps(options.run);
  const RunStatus& status = dumps.status;
  // Who stands still shows by now.
  const auto later = query_run(options.run, control_request(ControlVerb::kStatus));
  const std::string verdict = verdict_text(later ? later->status : status);
  if (options.json) {
    say("{}\n", as_json(dumps, verdict));
    return 0;
  }
  say("{}, generation {}, after {:.1f} s\n", status.run_dir, status.generation,
      status.elapsed_s.value_or(0));
  if (!verdict.empty()) say("waiting: {}\n", verdict);
  for (const RankStatus& rank : status.ranks) {
    say("\nrank {} (pid {} on {}): {}\n", rank.rank, rank.pid, rank.host, place_text(rank));
    say("{}", details(dumps, rank));
  }
  return 0;
}

}  // namespace ds
