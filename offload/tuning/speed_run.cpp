#include "offload/tuning/speed_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "core/files/file.h"
#include "core/memory/resource.h"
#include "core/tasks/clock.h"

namespace ds {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Names of ours that nobody has: other processes may test the same folder.
std::string fresh_name(const std::string& folder, size_t number) {
  return join_path(folder, fmt::format(".dslaunch-io-{}-{}", getpid(), number));
}

// A file that is gone from its folder before anything is written to it.
std::shared_ptr<IoFile> nameless_file(const std::string& folder, size_t number, int64_t bytes) {
  const std::string path = fresh_name(folder, number);
  auto file = std::make_shared<IoFile>(IoFile::open(path, OpenMode::kCreate));
  RealFileSystem().remove(path);
  file->allocate(bytes);
  return file;
}

void require_room(const std::string& folder, int64_t bytes) {
  RealFileSystem files;
  files.list(folder);  // names what is no folder
  const int64_t room = files.free_bytes(folder);
  if (room >= bytes) return;
  throw DiskFull(fmt::format("{}: {} bytes are needed and {} are free; choose a smaller --io-size",
                             folder, bytes, room));
}

// Bytes that no disk can compress, of a tensor on the host.
void fill(const Tensor& tensor, uint64_t seed) {
  auto* const words = static_cast<uint64_t*>(tensor.raw());
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (size_t i = 0; i < tensor.bytes() / sizeof(uint64_t); ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    words[i] = state;
  }
}

Tensor host_tensor(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  const auto give_back = [size](void* data) {
    HostMemory().deallocate(data, size, MemoryTag::kScratch);
  };
  const std::shared_ptr<void> owner(HostMemory().allocate(size, MemoryTag::kScratch), give_back);
  return Tensor::borrow(owner.get(), {bytes}, DType::kU8, Device::cpu(), owner);
}

IoOptions options_of(const IoSetting& setting) {
  return {.block_size = setting.block_size,
          .queue_depth = setting.queue_depth,
          .single_submit = setting.single_submit,
          .overlap_events = setting.overlap_events,
          .thread_count = setting.io_parallel};
}

std::unique_ptr<AsyncIo> make_io(const IoSetting& setting, EngineKind kind) {
  const IoOptions options = options_of(setting);
  return std::make_unique<AsyncIo>(make_engines(kind, options), options);
}

}  // namespace

// One file and the tensor that goes there.
struct SpeedRun::Worker {
  std::string folder;
  size_t number = 0;
  std::shared_ptr<IoFile> file;
  Tensor tensor;
};

SpeedRun::~SpeedRun() = default;

SpeedRun::SpeedRun(const SpeedPlan& plan) : plan_(plan) {
  DS_CHECK(plan_.io_bytes > 0 && plan_.io_bytes % 4096 == 0,
           "speed run: {} bytes, expected a multiple of 4096", plan_.io_bytes);
  for (const std::string& folder : plan_.folders) {
    require_room(folder, plan_.io_bytes * plan_.workers);
    for (int i = 0; i < plan_.workers; ++i) {
      auto worker = std::make_unique<Worker>();
      worker->folder = folder;
      worker->number = workers_.size();
      workers_.push_back(std::move(worker));
    }
  }
  engine_ = plan_.engine ? *plan_.engine : engine_for_all();
  open_files();
  for (const auto& worker : workers_) {
    if (const std::string& why = worker->file->why_cached(); !why.empty()) {
      note(fmt::format("{}: {}, so these are speeds of the page cache", worker->folder, why));
    }
  }
}

// The best that all folders take: the kinds are in the order of their speed.
EngineKind SpeedRun::engine_for_all() {
  EngineKind kind = EngineKind::kUring;
  for (const std::string& folder : plan_.folders) {
    const EngineChoice choice = choose_engine({.folder = folder});
    if (choice.kind != EngineKind::kUring) note(choice.line);
    kind = std::max(kind, choice.kind);
  }
  return kind;
}

void SpeedRun::note(const std::string& text) {
  if (std::ranges::find(notes_, text) == notes_.end()) notes_.push_back(text);
}

void SpeedRun::open_files() {
  for (const auto& worker : workers_) {
    worker->file = nullptr;  // its room first
    worker->file = nameless_file(worker->folder, worker->number, plan_.io_bytes);
  }
}

int64_t SpeedRun::bytes_per_loop() const {
  return plan_.io_bytes * static_cast<int64_t>(workers_.size());
}

void SpeedRun::prepare(Way way) {
  if (way == Way::kWrite && plan_.new_file_each_loop) open_files();
  if (way == Way::kWrite || !plan_.flush_page_cache) return;
  for (const auto& worker : workers_) {
    worker->file->sync();  // what is not on the disk stays in the cache
    const int failed = posix_fadvise(worker->file->fd(), 0, 0, POSIX_FADV_DONTNEED);
    if (failed != 0) throw_io_error("drop from the page cache", worker->folder, failed);
  }
}

Tensor SpeedRun::make_tensor(size_t number) {
  const int64_t bytes = plan_.io_bytes;
  const auto on_host = [&] {
    if (plan_.locking == Locking::kPageable || plan_.stream != nullptr) return host_tensor(bytes);
    try {
      return locked_tensor(bytes, DType::kU8);
    } catch (const OutOfMemory& refused) {
      note(fmt::format("{}; these are speeds of memory that is not locked", refused.what()));
      return host_tensor(bytes);
    }
  };
  const Tensor source = on_host();
  fill(source, number);
  if (plan_.stream == nullptr) return source;
  const Tensor tensor = Tensor::empty({bytes}, DType::kU8, *plan_.stream);
  plan_.stream->copy(source.raw(), tensor.address(), tensor.bytes());
  plan_.stream->synchronize();
  return tensor;
}

// Seconds until all is moved.
double SpeedRun::move_once(const std::vector<std::unique_ptr<TensorIo>>& ios, Way way) {
  const Validate validate = plan_.validate ? Validate::kYes : Validate::kNo;
  const auto start = SteadyClock::now();
  for (size_t i = 0; i < workers_.size(); ++i) {
    const Worker& worker = *workers_[i];
    if (way == Way::kWrite) {
      ios[i]->begin_write(worker.tensor, worker.file, 0, validate);
    } else {
      ios[i]->begin_read(worker.tensor, worker.file, 0, validate);
    }
  }
  for (const auto& io : ios) io->wait();
  return seconds_since(start);
}

SpeedTimes SpeedRun::move(const IoSetting& setting, Way way, int warmups, int loops) {
  const bool direct = engine_ == EngineKind::kGds;
  std::vector<std::unique_ptr<TensorIo>> ios;
  for (const auto& worker : workers_) {
    ios.push_back(std::make_unique<TensorIo>(
        make_io(setting, engine_),
        TensorIo::Options{direct ? TensorIo::DevicePath::kDirect : TensorIo::DevicePath::kStaged,
                          plan_.stream}));
    if (!worker->tensor.defined()) worker->tensor = make_tensor(worker->number);
    if (direct || plan_.stream == nullptr) ios.back()->pin(worker->tensor);
  }
  engine_name_ = ios.front()->io().engine_name();
  SpeedTimes times;
  for (int loop = -warmups; loop < loops; ++loop) {
    const auto start = SteadyClock::now();
    prepare(way);
    const double task = move_once(ios, way);
    if (way == Way::kWrite) {
      for (const auto& worker : workers_) worker->file->sync();
    }
    if (loop < 0 && !plan_.include_warmups) continue;
    times.task.push_back(task);
    times.end_to_end.push_back(seconds_since(start));
  }
  return times;
}

SpeedTimes SpeedRun::write(const IoSetting& setting) {
  SpeedTimes times = move(setting, Way::kWrite, plan_.warmups, plan_.loops);
  is_written_ = true;
  return times;
}

SpeedTimes SpeedRun::read(const IoSetting& setting) {
  if (!is_written_) move(setting, Way::kWrite, 0, 1);
  is_written_ = true;
  return move(setting, Way::kRead, plan_.warmups, plan_.loops);
}

double speed_of(int64_t bytes, const std::vector<double>& seconds) {
  if (seconds.empty()) return 0;
  std::vector<double> sorted = seconds;
  std::ranges::sort(sorted);
  const double median = (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
  return static_cast<double>(bytes) / std::max(median, 1e-9);
}

}  // namespace ds
