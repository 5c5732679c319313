// Which engine a machine gets: io_uring, else the kernel's older asynchronous I/O, else threads.
// Each is tried before it is taken, since containers refuse system calls and limits refuse memory;
// what was taken, and why not the better one, is one line for the log.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "offload/async_io/io_engine.h"
#include "offload/async_io/io_options.h"

namespace ds {

struct EngineChoice {
  EngineKind kind = EngineKind::kThreads;
  // "asynchronous I/O: threads (io_uring: io_uring_setup: Operation not permitted; libaio: ...)"
  std::string line;
};

// What was asked for (IoOptions::engine, use_gds) or Unsupported, since nobody asks without need.
// The probes transfer a few bytes of a file in memory and leave nothing behind.
EngineChoice choose_engine(const IoOptions& options);

// An engine of this kind for one thread of AsyncIo; Unsupported where it cannot work.
std::unique_ptr<IoEngine> make_engine(EngineKind kind, const IoOptions& options);
// One for each of thread_count threads.
std::vector<std::unique_ptr<IoEngine>> make_engines(EngineKind kind, const IoOptions& options);

}  // namespace ds
