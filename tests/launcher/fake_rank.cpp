// A rank without an engine, for tests of the launcher: it joins, steps and reports like a real one,
// and misbehaves where FAKE_RANK in the environment says so, e.g. "steps=50 step_ms=20 rank=1 at=3
// do=crash".
//   do=crash      killed by SIGSEGV         do=kill   SIGKILL        do=hang   answers no more
//   do=data       throws DataError          do=peer   throws CommError
//   do=exit7      exits with code 7 at once do=vanish exits with code 0 at once, no report
//   do=fault      writes where nothing is   do=abort  abort()
//   do=hoard      takes memory until it is killed
//   do=noise      writes a line on standard error and goes on
//   do=stuck      beats, but does nothing any more, while the others are inside a collective
// It does so in epoch `epoch` only, where that is given. ignore_stop=1 makes every rank deaf to
// commands. late=FILE: the process that makes this file stops (SIGSTOP) before it reads its orders;
// late=always: every process does.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>
#include <thread>

#include "core/status/error.h"
#include "rankd/control/session.h"

namespace {

using Script = std::map<std::string, std::string>;

Script read_script() {
  Script script{{"steps", "5"}, {"step_ms", "10"}, {"rank", "-1"}, {"at", "1"}};
  const char* const text = std::getenv("FAKE_RANK");
  std::istringstream in(text != nullptr ? text : "");
  for (std::string item; in >> item;) {
    const size_t equals = item.find('=');
    script[item.substr(0, equals)] = item.substr(equals + 1);
  }
  return script;
}

[[noreturn]] void hang() {
  raise(SIGSTOP);
  std::abort();
}

bool is_late(const std::string& file) {
  if (file == "always") return true;
  const int made = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (made >= 0) close(made);
  return made >= 0;
}

void misbehave(const std::string& how) {
  if (how == "crash") {
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
  } else if (how == "kill") {
    raise(SIGKILL);
  } else if (how == "hang") {
    hang();
  } else if (how == "data") {
    throw ds::DataError("corpus.bin: token 50000 at position 12, the vocabulary has 256");
  } else if (how == "peer") {
    throw ds::CommError("all_reduce: rank 0 is gone");
  } else if (how == "fault") {
    volatile uintptr_t nowhere = 16;
    *reinterpret_cast<volatile int*>(nowhere) = 1;
  } else if (how == "abort") {
    [[maybe_unused]] const auto written = write(STDERR_FILENO, "my last words\n", 14);
    std::abort();
  } else if (how == "hoard") {
    for (;;) {
      const size_t bytes = size_t{8} << 20;
      std::fill_n(new char[bytes], bytes, 'x');
    }
  } else if (how == "stuck") {
    std::this_thread::sleep_for(std::chrono::hours(1));
  } else if (how == "exit7") {
    _exit(7);
  } else if (how == "vanish") {
    _exit(0);
  } else if (how == "noise") {
    [[maybe_unused]] const auto written = write(STDERR_FILENO, "a warning\n", 10);
  }
}

int train(const Script& script, const ds::JobPlan& plan, ds::ControlClient& control) {
  const int64_t steps = std::stoll(script.at("steps"));
  const int64_t at = std::stoll(script.at("at"));
  const bool now = !script.contains("epoch") || std::stoll(script.at("epoch")) == plan.epoch;
  const bool mine = now && std::stoi(script.at("rank")) == plan.rank;
  const std::chrono::milliseconds pause(std::stoi(script.at("step_ms")));
  // Everyone else waits for the one that is stuck.
  const bool all_wait = now && script.contains("do") && script.at("do") == "stuck" && !mine;
  if (all_wait) {
    control.watch_collectives([] { return ds::CollectiveMark{7, "data", 7, "all_gather", true}; });
  }
  ds::StepMetrics metrics;
  metrics.total_steps = steps;
  for (metrics.step = 1; metrics.step <= steps; ++metrics.step) {
    control.report_progress({metrics.step - 1, 0, "train"});
    if (mine && metrics.step == at && script.contains("do")) {
      misbehave(script.at("do"));
    }
    if (all_wait && metrics.step == at) {
      std::this_thread::sleep_for(std::chrono::hours(1));
    }
    std::this_thread::sleep_for(pause);
    const auto step = static_cast<double>(metrics.step);
    metrics.values = {{"loss", 5.0 * std::exp(-0.05 * step)},
                      {"grad_norm", 1.0 / step},
                      {"lr", 1e-3},
                      {"loss_scale", 1},
                      {"tokens_per_s", 12345},
                      {"samples", 8 * step}};
    if (plan.rank == 0) {
      control.report_step(metrics);
    }
    const std::optional<ds::Command> command = control.poll();
    if (command == ds::Command::kStopAndSave && !script.contains("ignore_stop")) {
      if (plan.rank == 0) {
        control.report_commit({fmt::format("global_step{}", metrics.step), metrics.step});
      }
      return static_cast<int>(ds::ExitCode::kRequeue);
    }
  }
  control.report_measured({steps, 0, 1 << 20, 0, 2 << 20, {{"parameters", 1 << 19}}});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 &&
      std::string(argv[1]) == "--answer") {  // it trains on nothing, so nothing is wrong
    std::puts(R"({"defects": [], "notes": []})");
    return 0;
  }
  const Script script = read_script();
  if (script.contains("late") && is_late(script.at("late"))) {
    raise(SIGSTOP);
  }
  return ds::run_session([&](const ds::JobPlan& plan, ds::ControlClient& control,
                             ds::TcpListener&) { return train(script, plan, control); });
}
