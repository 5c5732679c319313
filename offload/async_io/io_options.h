// Plain numbers of asynchronous I/O; the names are those of the configuration's "aio" section.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ds {

enum class EngineKind { kUring, kAio, kThreads, kGds };
const char* to_string(EngineKind kind);

inline constexpr int64_t kMostBlockBytes = int64_t{1} << 30;
inline constexpr int kMostQueueDepth = 32768;  // that io_uring takes
inline constexpr int kMostIoThreads = 1024;

struct IoOptions {
  int64_t block_size = int64_t{1} << 20;  // bytes that one transfer moves; a multiple of 4096
  int queue_depth = 8;                    // blocks under way at once, of each thread
  bool single_submit = false;             // each block by a call of its own
  bool overlap_events = true;             // begin the next when one is done, not when all are
  int thread_count = 1;                   // threads that share each request
  bool use_gds = false;
  std::optional<EngineKind> engine = std::nullopt;  // none: the best of the machine
  std::string folder =
      {};  // where the files are, if that is known: not every engine is for every disk
  int64_t timeout_ms = 30'000;  // longest that a block may take
};

}  // namespace ds
