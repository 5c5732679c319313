// Saving and loading a checkpoint of one rank against plain reads and writes of the same bytes,
// interleaved in one run, medians of the rounds:
//   save   pieces written, hashed, fsynced, committed   vs  buffered and O_DIRECT write + fsync
//   load   every piece read and verified                vs  pread
// into memory that was touched before, as an engine's is (fresh pages cost more than the copy).
// cold: the file's pages were dropped from the page cache first; warm: they were read before.
// usage: checkpoint_bench [MiB per round, default 1024] [rounds, default 5] [folder, default .]
// Peer: tests/bench/peers/torch_checkpoint.py with the same arguments.
#include <fcntl.h>
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>

#include "checkpoint/commit.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "core/memory/resource.h"
#include "tests/bench/median.h"

namespace {

using namespace ds;
using ds::bench::median;

constexpr int64_t kTensorNumel =
    int64_t{768} * 3072 + 768;  // as in a GPT-2 block; not a multiple of 1 MiB
constexpr size_t kRequest = size_t{8} << 20;

struct Cost {
  double seconds;
  double cpu_seconds;  // of all threads, in user and kernel: what stays the same on a busy machine
};

double cpu_clock() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Cost cost_of(const std::function<void()>& work) {
  const double cpu = cpu_clock();
  const auto begin = std::chrono::steady_clock::now();
  work();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
          cpu_clock() - cpu};
}

// Host memory as the engine takes it, all pages touched where it is a source.
struct Block {
  HostMemory memory;
  size_t bytes;
  std::byte* data;
  explicit Block(size_t size)
      : bytes(size), data(static_cast<std::byte*>(memory.allocate(size, MemoryTag::kOptimizer))) {}
  ~Block() { memory.deallocate(data, bytes, MemoryTag::kOptimizer); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
};

void drop_cache(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY));
  if (fd.valid()) ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
}

class Bench {
 public:
  Bench(int64_t mib, std::string folder)
      : folder_(std::move(folder)),
        tensors_(std::max<int64_t>(1, (mib << 20) / (kTensorNumel * 4))),
        source_(static_cast<size_t>(tensors_ * kTensorNumel) * 4),
        target_(source_.bytes) {
    std::fill_n(target_.data, target_.bytes, std::byte{1});
    auto* values = reinterpret_cast<uint32_t*>(source_.data);
    uint32_t state = 1;
    for (size_t i = 0; i < source_.bytes / 4; ++i)
      values[i] = state = state * 1664525U + 1013904223U;
  }

  void round() {
    add("save, committed", [&] { save(); });
    write("write + fsync, buffered", Caching::kCached);
    write("write + fsync, O_DIRECT", Caching::kUncached);
    for (const char* temperature : {"cold", "warm"}) {
      const bool cold = std::string(temperature) == "cold";
      if (cold) drop_cache(pieces_path());
      if (!cold) warm_up(pieces_path());
      add(fmt::format("load, verified, {}", temperature), [&] { load(); });
      if (cold) drop_cache(plain_path());
      add(fmt::format("pread, {}", temperature), [&] { read(Caching::kCached); });
      if (cold) add("pread, O_DIRECT", [&] { read(Caching::kUncached); });
    }
  }

  void report() const {
    const double bytes = static_cast<double>(source_.bytes);
    fmt::print("{} tensors, {:.0f} MiB\n", tensors_, bytes / (1 << 20));
    for (const auto& [name, costs] : costs_) {
      const double wall = median(column(costs, &Cost::seconds));
      const double cpu = median(column(costs, &Cost::cpu_seconds));
      fmt::print("{:28} {:7.3f} s  {:6.2f} GB/s   cpu {:6.3f} s\n", name, wall, bytes / 1e9 / wall,
                 cpu);
    }
    ratio("save, committed", "write + fsync, buffered");
    ratio("save, committed", "write + fsync, O_DIRECT");
    ratio("load, verified, cold", "pread, cold");
    ratio("load, verified, warm", "pread, warm");
  }

  void clean_up() {
    file_system_.remove_tree(join_path(folder_, "checkpoint_bench"));
    file_system_.remove(plain_path());
  }

 private:
  std::string root() const { return join_path(folder_, "checkpoint_bench"); }
  std::string plain_path() const { return join_path(folder_, "checkpoint_bench.plain"); }
  std::string pieces_path() const { return join_path(root(), "t/" + pieces_file_name(0)); }

  void add(const std::string& name, const std::function<void()>& work) {
    costs_[name].push_back(cost_of(work));
  }

  // Median over the rounds of the speed of `name` relative to `other` in the same round.
  void ratio(const std::string& name, const std::string& other) const {
    std::vector<double> ratios;
    for (size_t i = 0; i < costs_.at(name).size(); ++i) {
      ratios.push_back(costs_.at(other)[i].seconds / costs_.at(name)[i].seconds);
    }
    fmt::print("{} is {:.2f} x as fast as {}\n", name, median(ratios), other);
  }

  static std::vector<double> column(const std::vector<Cost>& costs, double Cost::*member) {
    std::vector<double> out;
    for (const Cost& cost : costs) out.push_back(cost.*member);
    return out;
  }

  void save() {
    const Shape shape{kTensorNumel};
    CheckpointWriter writer(file_system_, {root(), "t", 0, 0}, static_cast<int64_t>(source_.bytes));
    for (int64_t i = 0; i < tensors_; ++i) {
      writer.put({fmt::format("layer{}/weight", i), shape, Region::whole(shape),
                  Tensor::borrow(source_.data + i * kTensorNumel * 4, shape, DType::kF32)});
    }
    commit_tag(file_system_, {root(), "t", 0, 1, {writer.finish()}});
  }

  void write(const char* name, Caching caching) {
    if (file_system_.exists(plain_path())) file_system_.remove(plain_path());
    add(name, [&] {
      const auto file = file_system_.create(plain_path(), caching);
      // Whole requests only: O_DIRECT takes no odd end; the difference is below one percent.
      for (size_t at = 0; at + kRequest <= source_.bytes; at += kRequest) {
        file->write(static_cast<int64_t>(at), {source_.data + at, kRequest});
      }
      file->sync();
    });
  }

  void load() {
    CheckpointReader reader = CheckpointReader::open(file_system_, root(), "t");
    const Shape shape{kTensorNumel};
    for (int64_t i = 0; i < tensors_; ++i) {
      Tensor into = Tensor::borrow(target_.data + i * kTensorNumel * 4, shape, DType::kF32);
      reader.get(fmt::format("layer{}/weight", i), Region::whole(shape), into);
    }
  }

  void warm_up(const std::string& path) {
    const auto file = file_system_.open(path);
    std::vector<std::byte> buffer(kRequest);
    for (int64_t at = 0; at < file->size(); at += static_cast<int64_t>(kRequest)) {
      const auto rest = static_cast<size_t>(file->size() - at);
      file->read(at, std::span(buffer).first(std::min(rest, kRequest)));
    }
  }

  void read(Caching caching) {
    const auto file = file_system_.open(plain_path(), caching);
    for (size_t at = 0; at + kRequest <= source_.bytes; at += kRequest) {
      file->read(static_cast<int64_t>(at), {target_.data + at, kRequest});
    }
  }

  RealFileSystem file_system_;
  std::string folder_;
  int64_t tensors_;
  Block source_, target_;
  std::map<std::string, std::vector<Cost>> costs_;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    const int64_t mib = argc > 1 ? std::atoll(argv[1]) : 1024;
    const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
    Bench bench(mib, argc > 3 ? argv[3] : ".");
    for (int i = 0; i < rounds; ++i) bench.round();
    bench.report();
    bench.clean_up();
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "checkpoint_bench: {}\n", error.what());
    return static_cast<int>(error.exit_code());
  }
}
