// Reads or writes one file once by asynchronous I/O, as fio does in tests/bench/aio_vs_fio.py: by
// registered memory and file, past the page cache, in requests that follow each other so that the
// queue never runs empty. Prints bytes per second and the CPU time of the transfers alone.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <string>

#include "core/memory/aligned_buffer.h"
#include "core/values/index.h"
#include "offload/async_io/async_io.h"
#include "offload/async_io/choose_engine.h"

namespace {

using namespace ds;  // NOLINT(google-build-using-namespace): a program of one file

struct Wishes {
  std::string path;
  std::string engine = "io_uring";
  std::string direction = "read";
  int64_t bytes = int64_t{1} << 30;
  int64_t request_bytes = 0;  // 0: half of the queue
  IoOptions io;
};

double cpu_seconds() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) throw IoError("getrusage failed");
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

AsyncIo with_engines(const Wishes& wishes) {
  const std::map<std::string, EngineKind> kinds{{"io_uring", EngineKind::kUring},
                                                {"libaio", EngineKind::kAio},
                                                {"threads", EngineKind::kThreads}};
  return AsyncIo(make_engines(kinds.at(wishes.engine), wishes.io), wishes.io);
}

// Requests that are there together: as many as fill the queue twice, and two at least. Memory that
// is no more than caches hold is quicker, and fio has only as much as the queue.
int64_t requests_at_once(const Wishes& wishes) {
  return std::max<int64_t>(2,
                           2 * wishes.io.block_size * wishes.io.queue_depth / wishes.request_bytes);
}

// The next begins when the oldest has ended.
void transfer(AsyncIo& io, const IoFile& file, const Wishes& wishes, std::span<std::byte> memory) {
  std::deque<Ticket> tickets;
  const int64_t at_once = requests_at_once(wishes);
  int64_t turn = 0;
  for (int64_t at = 0; at < wishes.bytes; at += wishes.request_bytes, ++turn) {
    if (std::ssize(tickets) == at_once) {
      io.wait(tickets.front());
      tickets.pop_front();
    }
    const auto bytes = static_cast<size_t>(std::min(wishes.request_bytes, wishes.bytes - at));
    const auto part = memory.subspan(to_size(turn % at_once * wishes.request_bytes), bytes);
    tickets.push_back(wishes.direction == "read" ? io.read(file, at, part)
                                                 : io.write(file, at, part));
  }
  io.wait_all();
}

void run(const Wishes& wishes) {
  AsyncIo io = with_engines(wishes);
  const auto mode = wishes.direction == "read" ? OpenMode::kRead : OpenMode::kReadWrite;
  const IoFile file = IoFile::open(wishes.path, mode);
  if (file.direct_fd() < 0) throw Unsupported("aio_bench: " + file.why_cached());
  const bool at_once = wishes.request_bytes >= wishes.bytes;
  const AlignedBuffer memory(
      to_size(at_once ? wishes.bytes : requests_at_once(wishes) * wishes.request_bytes));
  std::ranges::fill(memory.bytes(), std::byte{0x5A});
  const auto of_file = io.register_file(file);
  const auto of_memory = io.register_memory(memory.bytes());
  const double cpu = cpu_seconds();
  const auto begun = std::chrono::steady_clock::now();
  transfer(io, file, wishes, memory.bytes());
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begun;
  fmt::print("{{\"bytes_per_second\": {:.0f}, \"cpu_seconds\": {:.6f}}}\n",
             static_cast<double>(wishes.bytes) / wall.count(), cpu_seconds() - cpu);
}

}  // namespace

int main(int argc, char** argv) {
  Wishes wishes;
  CLI::App app("Reads or writes a file once by asynchronous I/O");
  app.add_option("path", wishes.path, "file, with at least --bytes")->required();
  app.add_option("--engine", wishes.engine)
      ->check(CLI::IsMember({"io_uring", "libaio", "threads"}));
  app.add_option("--direction", wishes.direction)->check(CLI::IsMember({"read", "write"}));
  app.add_option("--bytes", wishes.bytes);
  app.add_option("--request-bytes", wishes.request_bytes,
                 "of one read() or write(); by default what half of the queue takes");
  app.add_option("--block-size", wishes.io.block_size);
  app.add_option("--queue-depth", wishes.io.queue_depth);
  app.add_option("--thread-count", wishes.io.thread_count);
  CLI11_PARSE(app, argc, argv);
  if (wishes.request_bytes == 0) {
    wishes.request_bytes = wishes.io.block_size * std::max(1, wishes.io.queue_depth / 2);
  }
  try {
    run(wishes);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "aio_bench: {}\n", error.what());
    return static_cast<int>(error.exit_code());
  }
}
