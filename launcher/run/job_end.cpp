#include "launcher/run/job_end.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

#include "core/files/poll_time.h"
#include "core/status/error.h"
#include "core/values/index.h"
#include "launcher/decide/watch/deadline_watch.h"
#include "launcher/process/process.h"
#include "launcher/run/job_hosts.h"

namespace ds {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{5};
constexpr size_t kLongestAnswer = 256;

// The first line that the program prints; empty where it says nothing in time.
std::string first_line_of(const SpawnOptions& options, const Fd& output) {
  const Process process(options);
  const auto deadline = Clock::now() + kPatience;
  std::string text;
  while (text.size() < kLongestAnswer && text.find('\n') == std::string::npos) {
    pollfd watched{output.get(), POLLIN, 0};
    if (poll(&watched, 1, poll_time_until(deadline)) <= 0) return "";
    std::array<char, kLongestAnswer> bytes{};
    const ssize_t got = read(output.get(), bytes.data(), bytes.size());
    if (got <= 0) break;
    text.append(bytes.data(), to_size(got));
  }
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
}

std::string ask_squeue(const std::string& job, const std::string& program,
                       const std::vector<std::string>& environment) {
  PipeEnds answer = make_pipe();
  const Fd nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  const Fd silent = duplicate_high(nothing.get());
  SpawnOptions options;
  options.program = program;
  options.arguments = {"-h", "-j", job, "-o", "%L"};
  options.environment = environment;
  options.descriptors = {{STDIN_FILENO, silent.get()},
                         {STDOUT_FILENO, answer.write.get()},
                         {STDERR_FILENO, silent.get()}};
  return first_line_of(options, answer.read);
}

}  // namespace

TimeLeft slurm_time_left(const std::vector<std::string>& environment, int64_t unix_seconds) {
  const Environment variables = as_environment(environment);
  const auto job = variables.find("SLURM_JOB_ID");
  if (job == variables.end()) return {};
  if (const auto end = variables.find("SLURM_JOB_END_TIME"); end != variables.end()) {
    int64_t at = 0;
    const std::string& text = end->second;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), at);
    if (error == std::errc() && stop == text.data() + text.size() && at > 0) {
      return {std::chrono::seconds(std::max<int64_t>(0, at - unix_seconds)), ""};
    }
  }
  const auto path = variables.find("PATH");
  const std::string program = find_on_path(path == variables.end() ? "" : path->second, "squeue");
  const std::string unknown = "when Slurm ends this job is not known";
  if (program.empty()) {
    return {std::nullopt, unknown + ": squeue is not on the PATH; --time-limit says it"};
  }
  const std::string answer = ask_squeue(job->second, program, environment);
  TimeLeft out{parse_slurm_time_left(answer), ""};
  if (!out.left && answer != "UNLIMITED") {
    out.note = fmt::format("{}: squeue says '{}'; --time-limit says it", unknown, answer);
  }
  return out;
}

}  // namespace ds
