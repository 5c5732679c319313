#include <fmt/format.h>
#include <poll.h>

#include <cstdio>
#include <map>

#include "cli/text/terminal_text.h"
#include "core/status/error.h"
#include "core/values/index.h"
#include "launcher/decide/text/line_buffer.h"
#include "launcher/process/files/input_file.h"
#include "launcher/process/signals.h"
#include "launcher/report/log_fold.h"
#include "launcher/verbs/found_run.h"
#include "launcher/verbs/watch/watch.h"

namespace ds {
namespace {

namespace fs = std::filesystem;
using Lines = std::map<int, std::vector<std::string>>;

constexpr size_t kMostBytes = 4 << 20;  // of one log at once

struct FollowedLog {
  uintmax_t offset = 0;
  LineBuffer buffer{};
};

std::map<int, fs::path> wanted_logs(const TailOptions& options) {
  std::map<int, fs::path> logs = rank_logs(options.run);
  if (options.rank)
    std::erase_if(logs, [&](const auto& log) { return log.first != *options.rank; });
  if (logs.empty() && !options.follow) {
    throw InputMissing(options.rank
                           ? fmt::format("{}: no log of rank {}", options.run, *options.rank)
                           : fmt::format("{}: no logs of ranks", options.run));
  }
  return logs;
}

// Everything new in the logs.
Lines read_new(const TailOptions& options, std::map<int, FollowedLog>& followed) {
  Lines out;
  for (const auto& [rank, path] : wanted_logs(options)) {
    FollowedLog& log = followed[rank];
    const std::string bytes = read_part(path, log.offset, kMostBytes);
    log.offset += bytes.size();
    log.buffer.feed(bytes, [&](std::string_view line) { out[rank].emplace_back(line); });
  }
  return out;
}

// What stands in the logs without an end, which nothing will follow: a rank died while it wrote.
void add_rest(std::map<int, FollowedLog>& followed, Lines& lines) {
  for (auto& [rank, log] : followed) {
    std::vector<std::string>& own = lines[rank];
    log.buffer.finish([&own](std::string_view line) { own.emplace_back(line); });
  }
}

void show(const TailOptions& options, const Lines& lines) {
  say("{}", options.json ? fold_logs_as_json(lines) : fold_logs(lines));
}

void keep_last(Lines& lines, size_t count) {
  for (auto& [rank, log] : lines) {
    if (log.size() > count) log.erase(log.begin(), log.end() - static_cast<std::ptrdiff_t>(count));
  }
}

void follow_logs(const TailOptions& options, std::map<int, FollowedLog>& followed) {
  const SignalWatch signals;
  constexpr int kPeriodMs = 250;
  constexpr int kAskEvery = 4;
  for (int round = 1;; ++round) {
    std::fflush(stdout);
    pollfd watched{signals.fd(), POLLIN, 0};
    if (poll(&watched, 1, kPeriodMs) != 0) return;
    const bool over = round % kAskEvery == 0 && !find_status(options.run).live();
    Lines lines = read_new(options, followed);
    if (over) add_rest(followed, lines);
    show(options, lines);
    if (over) return;
  }
}

}  // namespace

int run_tail(const TailOptions& options) {
  std::map<int, FollowedLog> followed;
  for (const auto& [rank, path] : wanted_logs(options)) {
    const uintmax_t size = size_of_file(path);
    followed[rank].offset = size > kMostBytes ? size - kMostBytes : 0;
  }
  Lines lines = read_new(options, followed);
  if (!options.follow) add_rest(followed, lines);
  keep_last(lines, to_size(options.lines));
  show(options, lines);
  if (options.follow) follow_logs(options, followed);
  return 0;
}

}  // namespace ds
