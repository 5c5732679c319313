#include "tests/launcher/run/supervised_run.h"

#include <fcntl.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <sstream>

#include "core/status/error.h"
#include "tests/support/kept_signal_mask.h"

namespace ds::testing {
namespace {

// What nobody took is gone before signals have their usual effect again.
class SignalScope {
 public:
  SignalScope() = default;
  SignalScope(const SignalScope&) = delete;  // owns the mask
  SignalScope& operator=(const SignalScope&) = delete;
  ~SignalScope() {
    while (watch_.take()) {
    }
  }
  SignalWatch& watch() { return watch_; }

 private:
  const KeptSignalMask mask_;
  SignalWatch watch_;
};

std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::istringstream in(content(path));
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

Fd open_output(const std::filesystem::path& path) {
  return Fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
}

}  // namespace

SupervisedRun::SupervisedRun(int ranks, Script script)
    : directory_(RunDirectory::open("run", here_.path(), "train", "now")) {
  starter.script = std::move(script);
  PoolNode machine;
  machine.slots.resize(static_cast<size_t>(ranks));
  std::iota(machine.slots.begin(), machine.slots.end(), 0);
  job.nodes.nodes = {machine};
  job.config.directory = here_.path();
  job.config.stem = "train";
  job.config.canonical_text = "{}";
  job.config.digest = "digest";
  job.config.steps_per_print = 1;
  job.recovery.max_restarts = 0;
  job.recovery.first_wait = Time::zero();
}

void SupervisedRun::use_hosts(const std::vector<std::string>& hosts, int slots) {
  job.nodes.nodes.clear();
  for (const std::string& host : hosts) {
    PoolNode node{host, std::vector<int64_t>(static_cast<size_t>(slots))};
    std::iota(node.slots.begin(), node.slots.end(), 0);
    job.nodes.nodes.push_back(node);
  }
  job.nodes.fits = [](int) { return true; };
  job.nodes.min_nodes = 1;
}

RunRecord SupervisedRun::run() {
  const std::filesystem::path lines = here_.path() / "lines.txt";
  const std::filesystem::path errors = here_.path() / "errors.txt";
  const Fd line_fd = open_output(lines);
  const Fd error_fd = open_output(errors);
  RunRecord record;
  {
    SignalScope signals;
    Console::Options options;
    options.line_fd = options.result_fd = line_fd.get();
    options.error_fd = error_fd.get();
    Console console(options);
    RunRecords records(directory_, RunLease::take(directory_.path(), {}), records_options);
    Supervisor supervisor(job, records, starter, signals.watch(), console);
    record = supervisor.run();
  }
  lines_ = lines_of(lines);
  errors_ = lines_of(errors);
  return record;
}

std::string SupervisedRun::ask(const ControlRequest& request) const {
  const std::optional<ControlReply> reply = query_run(directory_.path(), control_request(request));
  if (!reply) throw InternalError("nobody listens");
  return reply->notice;
}

RunStatus SupervisedRun::status() const {
  const std::optional<ControlReply> reply =
      query_run(directory_.path(), control_request(ControlVerb::kStatus));
  if (!reply) throw InternalError("nobody listens");
  return reply->status;
}

bool SupervisedRun::said(const std::string& part) const {
  return std::ranges::any_of(
      lines_, [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

bool SupervisedRun::logged(const std::string& part) const {
  return file("logs/dslaunch.log").find(part) != std::string::npos;
}

std::string SupervisedRun::file(const std::string& name) const {
  return content(directory_.file(name));
}

}  // namespace ds::testing
