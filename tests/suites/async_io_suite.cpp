#include "tests/suites/async_io_suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace ds::test {

std::unique_ptr<AsyncIo> make_async_io(const EngineMaker& make, const IoOptions& options) {
  std::vector<std::unique_ptr<IoEngine>> engines;
  for (int i = 0; i < options.thread_count; ++i) engines.push_back(make(options.queue_depth));
  return std::make_unique<AsyncIo>(std::move(engines), options);
}

namespace {

using Bytes = std::vector<std::byte>;
using std::filesystem::path;

template <class... Args>
void require(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) throw std::runtime_error(fmt::format(text, std::forward<Args>(args)...));
}

constexpr int64_t kFileBytes = (int64_t{1} << 20) + 1234;
constexpr int64_t kGuard = 64;  // bytes on both sides of memory that is read into
constexpr std::byte kGuardByte{0x5C};

Bytes random_bytes(int64_t count, std::mt19937_64& draws) {
  Bytes bytes(static_cast<size_t>(count));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(draws());
  return bytes;
}

Bytes contents(const std::string& name) {
  RealFileSystem files;
  const auto file = files.open(name);
  Bytes bytes(static_cast<size_t>(file->size()));
  file->read(0, bytes);
  return bytes;
}

IoFile new_file(const path& folder, const Bytes& bytes, const char* name = "file") {
  const std::string full = (folder / name).string();
  std::filesystem::remove(full);
  RealFileSystem().create(full)->write(0, bytes);
  return IoFile::open(full, OpenMode::kReadWrite);
}

void require_equal(std::span<const std::byte> got, std::span<const std::byte> expected,
                   std::string_view what) {
  require(got.size() == expected.size(), "{}: {} bytes, expected {}", what, got.size(),
          expected.size());
  const auto differ = std::mismatch(got.begin(), got.end(), expected.begin());
  require(differ.first == got.end(), "{}: byte {} differs", what, differ.first - got.begin());
}

// A request, with memory at an address that need not be aligned.
struct Job {
  int64_t offset = 0;
  int64_t bytes = 0;
  bool writes = false;
  Bytes memory;
  Ticket ticket;

  std::span<std::byte> span() {
    return std::span(memory).subspan(kGuard, static_cast<size_t>(bytes));
  }
  void check_guards() const {
    const auto whole = [](std::byte byte) { return byte == kGuardByte; };
    require(std::all_of(memory.begin(), memory.begin() + kGuard, whole) &&
                std::all_of(memory.end() - kGuard, memory.end(), whole),
            "the {} of {} bytes at {} touched memory around it", writes ? "write" : "read", bytes,
            offset);
  }
};

Job make_job(int64_t offset, int64_t bytes, bool writes, std::mt19937_64& draws) {
  Job job{offset, bytes, writes, Bytes(static_cast<size_t>(bytes + 2 * kGuard), kGuardByte), {}};
  if (writes) std::ranges::copy(random_bytes(bytes, draws), job.span().begin());
  return job;
}

// Disjoint ranges that cover [begin, end), some of whole pages, most not.
std::vector<Job> cut_at_random(int64_t begin, int64_t end, std::mt19937_64& draws) {
  std::vector<Job> jobs;
  while (begin < end) {
    int64_t next = begin + 1 + static_cast<int64_t>(draws() % 150'000);
    if (draws() % 3 == 0) next = next / 4096 * 4096;
    if (draws() % 5 == 0) next = begin + 1 + static_cast<int64_t>(draws() % 600);
    next = std::clamp(next, begin + 1, end);
    jobs.push_back(make_job(begin, next - begin, draws() % 2 == 0, draws));
    begin = next;
  }
  return jobs;
}

// Begins all, waits for all in another order, and compares. `expected` is the file's contents.
void run_jobs(AsyncIo& io, const IoFile& file, std::vector<Job>& jobs, Bytes& expected,
              std::mt19937_64& draws) {
  std::shuffle(jobs.begin(), jobs.end(), draws);
  for (Job& job : jobs) {
    job.ticket =
        job.writes ? io.write(file, job.offset, job.span()) : io.read(file, job.offset, job.span());
  }
  std::shuffle(jobs.begin(), jobs.end(), draws);
  for (Job& job : jobs) {
    io.wait(job.ticket);
    job.check_guards();
    const auto place = std::span(expected).subspan(static_cast<size_t>(job.offset),
                                                   static_cast<size_t>(job.bytes));
    if (job.writes) {
      std::ranges::copy(job.span(), place.begin());
    } else {
      require_equal(job.span(), place, fmt::format("read of {} at {}", job.bytes, job.offset));
    }
  }
}

void run_random(const EngineMaker& make, const path& folder, const IoOptions& options) {
  std::mt19937_64 draws(7);
  Bytes expected = random_bytes(kFileBytes, draws);
  const IoFile direct = new_file(folder, expected);
  const IoFile cached = IoFile::open_cached(direct.path(), OpenMode::kReadWrite);
  const bool needs_direct = make(1)->aligns_by_itself();
  const auto io = make_async_io(make, options);
  for (int round = 0; round < 3; ++round) {
    auto jobs = cut_at_random(0, kFileBytes, draws);
    const bool through_cache = round == 2 && !needs_direct;
    run_jobs(*io, through_cache ? cached : direct, jobs, expected, draws);
    require_equal(contents(direct.path()), expected, fmt::format("the file after round {}", round));
  }
}

void any_range(const EngineMaker& make, const path& folder) {
  run_random(make, folder, {.block_size = 16 << 10, .queue_depth = 4});
}

void one_by_one(const EngineMaker& make, const path& folder) {
  run_random(make, folder, {.block_size = 64 << 10, .queue_depth = 8, .single_submit = true});
}

void all_at_once(const EngineMaker& make, const path& folder) {
  run_random(make, folder, {.block_size = 4 << 10, .queue_depth = 8, .overlap_events = false});
}

void several_threads_share_a_request(const EngineMaker& make, const path& folder) {
  run_random(make, folder, {.block_size = 8 << 10, .queue_depth = 2, .thread_count = 3});
}

// Stripes meet within pages, where one thread's writes go through the page cache while another's
// go past it.
void callers_of_several_threads(const EngineMaker& make, const path& folder) {
  constexpr int kCallers = 4;
  std::mt19937_64 draws(11);
  Bytes expected = random_bytes(kFileBytes, draws);
  const IoFile file = new_file(folder, expected);
  const auto io =
      make_async_io(make, {.block_size = 16 << 10, .queue_depth = 4, .thread_count = 2});
  std::array<std::string, kCallers> wrong;
  std::vector<std::thread> callers;
  std::vector<Bytes> stripes(kCallers, expected);
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      try {
        std::mt19937_64 own(static_cast<uint64_t>(caller));
        const int64_t begin = kFileBytes * caller / kCallers;
        const int64_t end = kFileBytes * (caller + 1) / kCallers;
        for (int round = 0; round < 5; ++round) {
          auto jobs = cut_at_random(begin, end, own);
          run_jobs(*io, file, jobs, stripes[static_cast<size_t>(caller)], own);
        }
      } catch (const std::exception& error) {
        wrong[static_cast<size_t>(caller)] = error.what();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const std::string& text : wrong) require(text.empty(), "{}", text);
  for (size_t caller = 0; caller < kCallers; ++caller) {
    const size_t begin = kFileBytes * caller / kCallers;
    const size_t end = kFileBytes * (caller + 1) / kCallers;
    std::copy_n(stripes[caller].begin() + static_cast<std::ptrdiff_t>(begin), end - begin,
                expected.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  require_equal(contents(file.path()), expected, "the file after four callers");
}

void registered(const EngineMaker& make, const path& folder) {
  std::mt19937_64 draws(13);
  Bytes expected = random_bytes(kFileBytes, draws);
  const IoFile file = new_file(folder, expected);
  const auto io =
      make_async_io(make, {.block_size = 32 << 10, .queue_depth = 4, .thread_count = 2});
  Bytes memory(static_cast<size_t>(kFileBytes));
  for (int round = 0; round < 3; ++round) {  // as often as they are let go, they can be taken again
    const auto of_file = io->register_file(file);
    const auto of_memory = io->register_memory(memory);
    io->wait(io->read(file, 0, memory));
    require_equal(memory, expected, "read by registered memory");
    expected = random_bytes(kFileBytes, draws);
    memory = expected;
    io->wait(io->write(file, 0, memory));
    require_equal(contents(file.path()), expected, "written by registered memory");
  }
}

void a_new_file_grows(const EngineMaker& make, const path& folder) {
  std::mt19937_64 draws(17);
  const Bytes bytes = random_bytes(300'001, draws);
  const std::string name = (folder / "grown").string();
  std::filesystem::remove(name);
  const IoFile file = IoFile::open(name, OpenMode::kCreate);
  const auto io = make_async_io(make, {.block_size = 16 << 10, .queue_depth = 4});
  io->write(file, 0, bytes);
  io->write(file, 500'000, bytes);  // leaves a gap
  io->wait_all();
  Bytes expected(800'001);
  std::ranges::copy(bytes, expected.begin());
  std::ranges::copy(bytes, expected.begin() + 500'000);
  require_equal(contents(name), expected, "the new file");
}

template <class E>
std::string error_of(const std::function<void()>& act, const char* what) {
  try {
    act();
  } catch (const E& error) {
    return error.what();
  }
  throw std::runtime_error(fmt::format("{}: no error, or another one", what));
}

void past_the_end(const EngineMaker& make, const path& folder) {
  std::mt19937_64 draws(19);
  const Bytes bytes = random_bytes(50'000, draws);
  const IoFile file = new_file(folder, bytes);
  const auto io = make_async_io(make, {.block_size = 16 << 10, .queue_depth = 4});
  Bytes memory(60'000);
  const std::string text =
      error_of<IoError>([&] { io->wait(io->read(file, 0, memory)); }, "a read past the end");
  require(text.find(file.path()) != std::string::npos &&
              text.find("the file ends") != std::string::npos,
          "a read past the end says: {}", text);
  memory.resize(50'000);
  io->wait(io->read(file, 0, memory));  // and what is there can still be read
  require_equal(memory, bytes, "read after an error");
}

void mistakes_and_nothing(const EngineMaker& make, const path& folder) {
  const IoFile file = new_file(folder, Bytes(100));
  const auto io = make_async_io(make, {.queue_depth = 4});
  const Ticket nothing = io->read(file, 1000, {});
  io->wait(nothing);
  error_of<InternalError>([&] { io->wait(nothing); }, "waiting twice");
  Bytes memory(10);
  error_of<InternalError>([&] { io->read(file, -1, memory); }, "a negative offset");
  io->wait_all();
  require(io->figures().bytes_read == 0, "bytes were read by nobody");
}

// Another request that fails does not disturb one that does not.
void one_fails_of_many(const EngineMaker& make, const path& folder) {
  std::mt19937_64 draws(23);
  const Bytes bytes = random_bytes(200'000, draws);
  const IoFile file = new_file(folder, bytes);
  const IoFile read_only = IoFile::open(file.path(), OpenMode::kRead);
  const auto io = make_async_io(make, {.block_size = 8 << 10, .queue_depth = 4});
  Bytes good(bytes.size());
  io->read(file, 0, good);
  io->write(read_only, 0, bytes);
  const std::string text =
      error_of<IoError>([&] { io->wait_all(); }, "a write to a file for reading");
  require(text.find(file.path()) != std::string::npos, "no path in: {}", text);
  // Which of its blocks is told differs: those that wait are dropped when one has failed.
  require(text.find("write of 8192 bytes at offset ") != std::string::npos, "no place in: {}",
          text);
  require_equal(good, bytes, "read beside a write that fails");
}

constexpr std::array<AsyncIoCase, 10> kCases{{
    {"any range, of any memory, several at once", any_range},
    {"each block by a call of its own", one_by_one},
    {"blocks begin when all before have ended", all_at_once},
    {"threads share a request", several_threads_share_a_request},
    {"callers of several threads share pages", callers_of_several_threads},
    {"registered files and memory", registered},
    {"a new file grows", a_new_file_grows},
    {"a read past the end is an error", past_the_end},
    {"mistakes of the caller, and requests of nothing", mistakes_and_nothing},
    {"one request of many fails", one_fails_of_many},
}};

}  // namespace

std::span<const AsyncIoCase> async_io_cases() { return kCases; }

}  // namespace ds::test
