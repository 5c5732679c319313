#include "offload/async_io/choose_engine.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/files/file.h"
#include "offload/async_io/io_file.h"

namespace ds {

namespace {

constexpr int kMostThreads = 16;  // of a pool; a disk gains nothing from more that wait for it
constexpr std::string_view kText = "these bytes come back";

// Writes to a file in memory and reads it again: a machine may have an engine and refuse its work.
void try_out(IoEngine& engine) {
  const Fd file(::memfd_create("asynchronous_io_probe", MFD_CLOEXEC));
  if (!file.valid()) throw IoError(fmt::format("memfd_create: {}", std::strerror(errno)));
  std::vector<std::byte> written(kText.size());
  std::memcpy(written.data(), kText.data(), kText.size());
  std::vector<std::byte> read(kText.size());
  const auto move = [&](IoKind kind, std::vector<std::byte>& memory) {
    const IoBlock block{kind, file.get(), 0, memory.data(), std::ssize(memory), 1};
    IoCompletion completion;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    if (engine.submit({&block, 1}) != 1 || engine.reap({&completion, 1}, 1, deadline) != 1) {
      throw Unsupported(
          fmt::format("{}: a transfer of {} bytes does not end", engine.name(), block.bytes));
    }
    if (completion.result != block.bytes) {
      throw Unsupported(fmt::format(
          "{}: a transfer of {} bytes gave {}", engine.name(), block.bytes,
          completion.result < 0 ? std::strerror(static_cast<int>(-completion.result)) : "fewer"));
    }
  };
  move(IoKind::kWrite, written);
  move(IoKind::kRead, read);
  if (read != written) throw Unsupported(fmt::format("{}: other bytes came back", engine.name()));
}

// Empty where memory can be registered.
std::string why_no_registered_memory(IoEngine& engine) {
  std::vector<std::byte> memory(size_t{1} << 20);
  if (engine.register_memory(memory)) {
    engine.unregister_memory(memory);
    return {};
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  return fmt::format(
      " without registered memory: the kernel refuses 1 MiB, RLIMIT_MEMLOCK is {} "
      "bytes (ulimit -l)",
      limit.rlim_cur);
}

// Why this kind cannot work here; empty where it can, and then with what it lacks in `note`.
std::string refusal(EngineKind kind, const std::string& folder, std::string& note) {
  try {
    IoOptions few;
    few.queue_depth = 2;
    const auto engine = make_engine(kind, few);
    if (!engine->counts_on_fuse() && !folder.empty() && is_on_fuse(folder)) {
      return fmt::format("{}: {} is on FUSE, where it cannot be told what was moved in part",
                         engine->name(), folder);
    }
    try_out(*engine);
    if (kind == EngineKind::kUring) note = why_no_registered_memory(*engine);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

const char* to_string(EngineKind kind) {
  switch (kind) {
    case EngineKind::kUring:
      return "io_uring";
    case EngineKind::kAio:
      return "libaio";
    case EngineKind::kThreads:
      return "threads";
    case EngineKind::kGds:
      return "cuFile";
  }
  throw InternalError("EngineKind: unknown value");
}

EngineChoice choose_engine(const IoOptions& options) {
  if (options.use_gds) {
    make_engine(EngineKind::kGds, options);
    return {EngineKind::kGds, "asynchronous I/O: cuFile (use_gds)"};
  }
  if (options.engine) {
    make_engine(*options.engine, options);
    return {*options.engine,
            fmt::format("asynchronous I/O: {}, as it was asked for", to_string(*options.engine))};
  }
  std::string refused;
  for (const EngineKind kind : {EngineKind::kUring, EngineKind::kAio}) {
    std::string note;
    const std::string why = refusal(kind, options.folder, note);
    if (why.empty()) {
      return {kind, fmt::format("asynchronous I/O: {}{}{}", to_string(kind), note,
                                refused.empty() ? "" : " (" + refused + ")")};
    }
    refused += (refused.empty() ? "" : "; ") + why;
  }
  return {EngineKind::kThreads, fmt::format("asynchronous I/O: threads ({})", refused)};
}

std::unique_ptr<IoEngine> make_engine(EngineKind kind, const IoOptions& options) {
  const int threads = std::min(options.queue_depth, kMostThreads);
  switch (kind) {
    case EngineKind::kUring:
      return make_uring_engine(options.queue_depth);
    case EngineKind::kAio:
      return make_aio_engine(options.queue_depth);
    case EngineKind::kThreads:
      return make_thread_engine(options.queue_depth, threads);
    case EngineKind::kGds:
      return make_gds_engine(options.queue_depth, threads);
  }
  throw InternalError("EngineKind: unknown value");
}

std::vector<std::unique_ptr<IoEngine>> make_engines(EngineKind kind, const IoOptions& options) {
  std::vector<std::unique_ptr<IoEngine>> engines;
  for (int i = 0; i < options.thread_count; ++i) engines.push_back(make_engine(kind, options));
  return engines;
}

}  // namespace ds
