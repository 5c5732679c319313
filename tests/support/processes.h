// Ranks as processes: forks before any thread exists, runs the body on every rank over a segment of
// its own, and reports what failed. A test program that uses it must make no threads in the parent.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "comm/shm/comm.h"
#include "tests/support/catch.h"

namespace ds::test {

struct ProcessResult {
  std::string error;  // empty when the body returned
  int status = 0;     // of waitpid
};

// The child's side: never returns, and runs no exit handlers of the parent.
[[noreturn]] inline void run_child(int report, const std::function<void()>& body) {
  std::string error;
  try {
    body();
  } catch (const std::exception& e) {
    error = e.what();
    if (error.empty()) error = "an exception without text";
  }
  size_t written = 0;
  while (written < error.size()) {
    const ssize_t n = write(report, error.data() + written, error.size() - written);
    if (n <= 0) break;
    written += static_cast<size_t>(n);
  }
  _exit(error.empty() ? 0 : 1);
}

// One forked child per body, in order.
inline std::vector<ProcessResult> run_processes(const std::vector<std::function<void()>>& bodies) {
  std::vector<pid_t> children;
  std::vector<int> reports;
  for (const auto& body : bodies) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) throw InternalError("run_processes: pipe failed");
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      run_child(ends[1], body);
    }
    close(ends[1]);
    children.push_back(child);
    reports.push_back(ends[0]);
  }
  std::vector<ProcessResult> results(bodies.size());
  for (size_t i = 0; i < bodies.size(); ++i) {
    std::array<char, 4096> buffer{};
    ssize_t n = 0;
    while ((n = read(reports[i], buffer.data(), buffer.size())) > 0) {
      results[i].error.append(buffer.data(), static_cast<size_t>(n));
    }
    close(reports[i]);
    waitpid(children[i], &results[i].status, 0);
  }
  return results;
}

// A body per rank that opens the group and calls `body` on it.
inline std::vector<ProcessResult> run_process_ranks(int size,
                                                    const std::function<void(Communicator&)>& body,
                                                    const ShmOptions& options = {}) {
  const std::string name = random_shm_name();
  std::vector<std::function<void()>> bodies;
  for (int r = 0; r < size; ++r) {
    bodies.emplace_back([=] {
      const auto comm = open_shm_group(name, r, size, options);
      body(*comm);
    });
  }
  return run_processes(bodies);
}

inline void check_all_done(const std::vector<ProcessResult>& results) {
  for (const ProcessResult& result : results) {
    CHECK(result.error == "");
    CHECK(result.status == 0);
  }
}

}  // namespace ds::test
