#include "train/plan/calibration.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <system_error>
#include <thread>

#include "comm/shm/comm.h"
#include "core/memory/host_block.h"
#include "core/values/index.h"
#include "offload/tuning/speed_run.h"
#include "train/batches/any_batch.h"
#include "train/plan/dry_run.h"
#include "train/plan/ring_costs.h"
#include "train/workspace.h"

namespace ds {
namespace {

constexpr int64_t kMostWidth = 1024;
constexpr int64_t kMostVocabulary = 4096;
constexpr int64_t kMostTokens = 512;

// Heads keep their size, since the speed of attention depends on it.
int64_t heads_within(int64_t heads, int64_t width) {
  const int64_t head = std::max<int64_t>(width / heads, 1);
  return std::clamp<int64_t>(kMostWidth / head, 1, heads);
}

ModelDimensions reduced(const ModelDimensions& dims) {
  const int64_t sharers = dims.heads / dims.kv_heads;  // query heads of a key-value head
  const int64_t most = heads_within(dims.heads, dims.width);
  ModelDimensions out = dims;
  out.kv_heads = std::max<int64_t>(most / sharers, 1);
  out.heads = out.kv_heads * sharers;
  out.width = dims.width == dims.heads * dims.head_dim
                  ? out.heads * dims.head_dim
                  : dims.width * out.kv_heads / dims.kv_heads / 2 * 2;
  out.inner = std::max<int64_t>(dims.inner * out.width / dims.width, 1);
  out.layers = 1;
  out.vocabulary = std::min(dims.vocabulary, kMostVocabulary);
  return out;
}

// A rank without peers that has made its first step: pages, caches and primitives are there.
class OneRank {
 public:
  // As in a run, memory has its places: fresh pages for every tensor would be measured, too.
  OneRank(const EngineOptions& job, const StepPlan& plan, int threads, Trace* trace)
      : alone_(std::move(make_thread_group(1).front())),
        connections_(Connections::over(*alone_, {})),
        workspace_(Device::cpu(), threads, connections_.peers(), trace),
        engine_(job, workspace_.resources(), plan),
        job_(job),
        batches_(job.model, "calibration") {
    step();
  }
  void step() {
    engine_.begin_step(batches_, 0);
    engine_.next_result(Wait::kYes);
  }
  void attend_in_ring() { play_ring_attention(job_, workspace_.stream()); }

 private:
  const std::unique_ptr<Communicator> alone_;
  Connections connections_;
  Workspace workspace_;
  Engine engine_;
  const EngineOptions job_;
  AnyBatch batches_;
};

// Ranks that do the same beside the one that is measured, until the end of the scope.
class Neighbours {
 public:
  explicit Neighbours(const std::vector<std::unique_ptr<OneRank>>& ranks) {
    try {
      for (const std::unique_ptr<OneRank>& rank : ranks) {
        working_.push_back(std::async(std::launch::async, [this, &rank] {
          while (!is_over_) rank->step();
        }));
      }
    } catch (const std::system_error&) {  // no further thread; those that are there would go on
      is_over_ = true;
      throw;
    }
  }
  Neighbours(const Neighbours&) = delete;  // their threads refer to it
  Neighbours& operator=(const Neighbours&) = delete;
  ~Neighbours() { is_over_ = true; }  // then the futures wait for them

  // Throws what one of them has thrown.
  void finish() {
    is_over_ = true;
    for (std::future<void>& rank : working_) rank.get();
  }

 private:
  std::atomic<bool> is_over_ = false;
  std::vector<std::future<void>> working_;
};

// Measures by how much the operations of rings stay below the ceilings.
std::map<std::string, double, std::less<>> slowdown_of_rings(OneRank& rank, Stopwatch& watch) {
  constexpr int kRounds = 5;
  rank.attend_in_ring();
  watch.begin();
  for (int round = 0; round < kRounds; ++round) rank.attend_in_ring();
  return watch.end().slowdown;
}

}  // namespace

void Stopwatch::close() {
  const int64_t now = clock_.now_ns();
  if (running_ != nullptr) running_->measured += static_cast<double>(now - since_ns_) * 1e-9;
  since_ns_ = now;
}

void Stopwatch::on_op(std::string_view name, const OpCost& cost) {
  close();
  auto known = sums_.find(name);
  if (known == sums_.end()) known = sums_.emplace(name, Sum{}).first;
  running_ = &known->second;
  running_->allowed += ceilings_.seconds_of(name, cost);
}

void Stopwatch::begin() {
  sums_.clear();
  running_ = nullptr;
}

DeviceCeilings Stopwatch::end() {
  close();
  running_ = nullptr;
  DeviceCeilings measured = ceilings_;
  for (const auto& [name, sum] : sums_) {
    if (sum.allowed > 0) measured.slowdown[name] = sum.measured / sum.allowed;
  }
  return measured;
}

EngineOptions reduced_for_calibration(const EngineOptions& options) {
  EngineOptions out = options;
  out.model = with_dimensions(out.model, reduced(dimensions(out.model)));
  out.zero.placement.policy = zero_policy(0);
  out.zero.state.zenflow.reset();  // which is of state beside the device
  out.distillation.reset();        // a teacher computes as the model does
  out.model.teacher.reset();
  out.zero.layout.frozen.clear();  // every operation is to be measured, also in fewer layers
  out.offload_activations = false;
  out.lengths.reset();  // of whole samples, as all that is estimated
  out.zero.wire.micro_steps = 1;
  out.length = std::min(options.length, kMostTokens);
  out.micro_batch = std::clamp<int64_t>(kMostTokens / out.length, 1, options.micro_batch);
  return out;
}

RanksHere ranks_here(int ranks, int threads) {
  const int cores = std::max(1, narrow<int>(std::thread::hardware_concurrency()));
  return {.ranks = std::clamp(cores / threads, 1, ranks), .threads = threads};
}

void measure_links(const std::optional<DiskToMeasure>& disk, DeviceCeilings& ceilings) {
  constexpr int kRounds = 5;
  constexpr size_t kBytes = size_t{32} << 20;
  HostMemory heap;
  const HostBlock from(kBytes, &heap), to(kBytes, &heap);
  std::memset(from.data(), 1, kBytes);
  std::memset(to.data(), 1, kBytes);
  const MonotonicClock clock;
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t begin = clock.now_ns();
    std::memcpy(to.data(), from.data(), kBytes);
    seconds.push_back(static_cast<double>(clock.now_ns() - begin) * 1e-9);
  }
  const double copied = speed_of(narrow<int64_t>(kBytes), seconds);
  nth(ceilings.link_bytes_per_s, Link::kToDevice) = copied;
  nth(ceilings.link_bytes_per_s, Link::kToHost) = copied;
  if (!disk) return;
  SpeedRun run({.folders = {disk->folder},
                .io_bytes = narrow<int64_t>(2 * kBytes),
                .loops = kRounds,
                .locking = Locking::kPageable,
                .engine = disk->io.engine});
  const IoSetting setting{.block_size = disk->io.block_size,
                          .queue_depth = disk->io.queue_depth,
                          .overlap_events = disk->io.overlap_events,
                          .single_submit = disk->io.single_submit,
                          .io_parallel = disk->io.thread_count};
  nth(ceilings.link_bytes_per_s, Link::kNvmeWrite) =
      speed_of(run.bytes_per_loop(), run.write(setting).task);
  nth(ceilings.link_bytes_per_s, Link::kNvmeRead) =
      speed_of(run.bytes_per_loop(), run.read(setting).task);
}

DeviceCeilings calibrate(const EngineOptions& options, const RanksHere& here) {
  const EngineOptions job = reduced_for_calibration(options);
  const StepPlan plan = dry_run(job, {}, {}).of_rank(0).step;
  std::vector<std::future<std::unique_ptr<OneRank>>> starting;
  for (int i = 1; i < here.ranks; ++i) {
    starting.push_back(std::async(std::launch::async, [&] {
      return std::make_unique<OneRank>(job, plan, here.threads, nullptr);
    }));
  }
  const MonotonicClock clock;
  Stopwatch watch(cpu_ceilings(here.threads, options.dtype), clock);
  OneRank measured(job, plan, here.threads, &watch);
  std::vector<std::unique_ptr<OneRank>> others;
  for (auto& one : starting) others.push_back(one.get());

  Neighbours neighbours(others);
  constexpr size_t kFewest = 5, kMost = 50;
  constexpr int64_t kLongEnough = 150'000'000;            // ns
  std::vector<std::pair<int64_t, DeviceCeilings>> steps;  // ns
  const int64_t start = clock.now_ns();
  while (steps.size() < kFewest || (steps.size() < kMost && clock.now_ns() - start < kLongEnough)) {
    const int64_t begin = clock.now_ns();
    watch.begin();
    measured.step();
    steps.emplace_back(0, watch.end());
    steps.back().first = clock.now_ns() - begin;
  }
  const bool may_have_rings = job.length > 1;  // whose ranks have two pieces of a sequence
  auto of_rings =
      may_have_rings ? slowdown_of_rings(measured, watch) : decltype(DeviceCeilings::slowdown)();
  neighbours.finish();
  // Now and then a step loses its cores to something else.
  const auto middle = steps.begin() + narrow<std::ptrdiff_t>(steps.size() / 2);
  std::ranges::nth_element(steps, middle, {}, &std::pair<int64_t, DeviceCeilings>::first);
  middle->second.slowdown.merge(of_rings);
  return middle->second;
}

}  // namespace ds
