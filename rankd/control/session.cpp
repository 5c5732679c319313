#include "rankd/control/session.h"

#include <openssl/crypto.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "comm/tcp/comm.h"
#include "core/files/file.h"
#include "core/memory/cgroup.h"
#include "core/memory/signal_stack.h"
#include "core/status/failpoint.h"
#include "core/tasks/task_limits.h"
#include "core/tasks/wake_fd.h"
#include "core/text/secrecy.h"
#include "rankd/control/fatal_signals.h"
#include "rankd/control/pressure_words.h"
#include "rankd/control/thread_dump.h"

namespace ds {
namespace {

// Standard output is the rank's log file; what is written on standard error the launcher also shows
// to the user. So warnings go there and everything else does not.
class SplitSink final : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    const int fd = message.level >= spdlog::level::warn ? STDERR_FILENO : STDOUT_FILENO;
    // A log that cannot be written must not stop training.
    [[maybe_unused]] const ssize_t written = write(fd, text.data(), text.size());
  }
  void flush_() override {}
};

void log_to_launcher() {
  auto logger = std::make_shared<spdlog::logger>("rankd", std::make_shared<SplitSink>());
  logger->set_pattern("%H:%M:%S.%e %l: %v");
  spdlog::set_default_logger(std::move(logger));
}

// Standard input stays open as long as the launcher lives, however it ends. Its thread has time to
// look after the host's memory, too.
class LauncherWatch {
 public:
  LauncherWatch() : thread_(start_thread("the launcher's end", [this] { wait_for_end(); })) {}
  // From now on; one rank of a host is enough.
  void watch_memory() { watches_memory_ = true; }
  LauncherWatch(const LauncherWatch&) = delete;  // the thread holds `this`
  LauncherWatch& operator=(const LauncherWatch&) = delete;
  ~LauncherWatch() {
    eventfd_write(stop_.get(), 1);
    thread_.join();
  }

 private:
  void look_at_memory() {
    const std::optional<MemoryPressure> pressure = memory_pressure();
    if (!pressure) return;
    const std::string words = pressure_words_.look(std::chrono::steady_clock::now(), *pressure);
    if (!words.empty()) spdlog::warn("{}", words);
  }

  void wait_for_end() {
    std::array<pollfd, 2> watched{{{STDIN_FILENO, POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
    while (watched[1].revents == 0) {
      constexpr int kPeriodMs = 5000;
      const int ready = poll(watched.data(), watched.size(), kPeriodMs);
      if (ready == 0 && watches_memory_) look_at_memory();
      if (ready > 0 && watched[0].revents != 0) {
        char byte = 0;
        if (read(STDIN_FILENO, &byte, 1) == 0) {
          kill(getpid(), SIGKILL);  // the launcher is gone, and with it everyone who could be told
        }
      }
    }
  }

  const Fd stop_ = make_wake_fd();
  std::atomic<bool> watches_memory_ = false;
  PressureWords pressure_words_;  // the thread's
  std::thread thread_;            // last: it uses the others
};

// A launcher that cannot be reached has given this rank up, and may have started its successor.
void end_without_launcher() {
  spdlog::error("lost the connection to the launcher; ending");
  _exit(static_cast<int>(ExitCode::kClusterUnusable));
}

struct Ending {
  ExitCode code = ExitCode::kDone;
  ErrorOrigin origin = ErrorOrigin::kNone;
  std::string error;
};

Ending run_joined(const Training& training, ControlClient& control, const Bootstrap& bootstrap,
                  TcpListener& listener, LauncherWatch& watch) {
  try {
    DS_FAILPOINT("session.before_join");
    JobPlan plan = control.join();
    plan.memory_fd = bootstrap.memory_fd;
    if (plan.local_rank == 0) watch.watch_memory();
    DS_FAILPOINT("session.joined");
    spdlog::info("joined as rank {} of {}, generation {}, {} threads, pid {}", plan.rank,
                 plan.world_size, plan.epoch, plan.threads, getpid());
    return {static_cast<ExitCode>(training(plan, control, listener)), ErrorOrigin::kNone, ""};
  } catch (const CommError& error) {
    return {error.exit_code(), ErrorOrigin::kPeer, error.what()};
  } catch (const PeerIoError& error) {
    return {error.exit_code(), ErrorOrigin::kPeer, error.what()};
  } catch (const Error& error) {
    return {error.exit_code(), ErrorOrigin::kOwn, error.what()};
  } catch (const std::bad_alloc&) {
    return {ExitCode::kTrainingFailed, ErrorOrigin::kOwn, "out of host memory"};
  } catch (const std::system_error& error) {
    const std::optional<Error> no_task = no_further_task(error);
    return {no_task ? no_task->exit_code() : ExitCode::kInternal, ErrorOrigin::kOwn,
            no_task ? no_task->what() : error.what()};
  } catch (const std::exception& error) {
    return {ExitCode::kInternal, ErrorOrigin::kOwn, error.what()};
  }
}

}  // namespace

void die_with_launcher(int64_t launcher_pid) {
  if (launcher_pid == 0) {
    return;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher_pid) {  // it died before the line above
    throw CommError(fmt::format("rankd: the launcher (pid {}) is gone", launcher_pid));
  }
}

int run_session(const Training& training, const std::string& failpoints) {
  // Batch systems send a job's signals to all of its processes. What they mean is the launcher's to
  // say. A file that may not grow further is an error of writing it (EFBIG), like a full disk.
  for (const int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXFSZ}) {
    signal(number, SIG_IGN);
  }
  forbid_core_dumps();      // what comes next is secret
  const SignalStack stack;  // of this thread, which trains
  const bool ours = CRYPTO_set_mem_functions(&WipingMemory::allocate, &WipingMemory::resize,
                                             &WipingMemory::release) == 1;
  DS_CHECK(ours, "rankd: OpenSSL had memory before we began");
  prepare_thread_dumps();
  prepare_fatal_signals();
  log_to_launcher();
  Bootstrap bootstrap = read_bootstrap(STDIN_FILENO);
  arm_failpoints(failpoints, {bootstrap.rank, bootstrap.epoch});
  DS_FAILPOINT("session.begin");
  die_with_launcher(bootstrap.launcher_pid);
  LauncherWatch watch;
  TcpListener listener =
      bootstrap.data_address.empty() ? TcpListener() : TcpListener(bootstrap.data_address);
  const auto control = connect_control(bootstrap, end_without_launcher, listener.endpoint());
  wipe_secrets(bootstrap);
  control->on_dump([] { write_dump(""); });
  DS_FAILPOINT("session.connected");
  const Ending ending = run_joined(training, *control, bootstrap, listener, watch);
  DS_FAILPOINT("session.before_final");
  if (!ending.error.empty()) {
    spdlog::info("ends with code {}: {}", static_cast<int>(ending.code), ending.error);
  }
  if (!control->finish(ending.code, ending.origin, ending.error) && !ending.error.empty()) {
    spdlog::error("{}", ending.error);  // the launcher could not be told, so say it here
  }
  DS_FAILPOINT("session.after_final");
  return static_cast<int>(ending.code);
}

}  // namespace ds
