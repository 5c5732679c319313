#include "core/tasks/background_writer.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "core/status/error.h"
#include "core/tasks/task_limits.h"

namespace ds {
namespace {

using Clock = std::chrono::steady_clock;

struct Waiting {
  size_t bytes = 0;
  BackgroundWriter::Job job;
};

struct LaneState {
  std::string name;
  size_t most_bytes = 0;
  size_t bytes = 0;
  std::deque<Waiting> jobs;
  std::string error;  // of the first job, which failed
  Clock::time_point retry_at{};
  int64_t dropped = 0;
  bool changed = false;
};

}  // namespace

struct BackgroundWriter::State {
  explicit State(const Options& given) : options(given) {}

  void run();
  LaneState* next();  // under mutex
  std::optional<Clock::time_point> next_retry() const;
  void execute(LaneState& lane, std::unique_lock<std::mutex>& lock);
  bool all_done() const;

  const Options options;
  mutable std::mutex mutex;  // guards everything below
  std::condition_variable work;
  std::condition_variable progress;
  std::deque<LaneState> lanes;  // grows; what is in it stays where it is
  size_t turn = 0;
  uint64_t done = 0;
  const LaneState* running = nullptr;  // whose first job is under way
  Clock::time_point running_since{};
  bool finishing = false;
  bool ending = false;
  std::thread thread;
};

LaneState* BackgroundWriter::State::next() {
  const Clock::time_point now = Clock::now();
  for (size_t i = 0; i < lanes.size(); ++i) {
    LaneState& lane = lanes[(turn + i) % lanes.size()];
    if (!lane.jobs.empty() && lane.retry_at <= now) {
      turn = (turn + i + 1) % lanes.size();
      return &lane;
    }
  }
  return nullptr;
}

std::optional<Clock::time_point> BackgroundWriter::State::next_retry() const {
  std::optional<Clock::time_point> first;
  for (const LaneState& lane : lanes) {
    if (!lane.jobs.empty() && (!first || lane.retry_at < *first)) first = lane.retry_at;
  }
  return first;
}

bool BackgroundWriter::State::all_done() const {
  for (const LaneState& lane : lanes) {
    if (!lane.jobs.empty()) return false;
  }
  return true;
}

void BackgroundWriter::State::execute(LaneState& lane, std::unique_lock<std::mutex>& lock) {
  Waiting& first = lane.jobs.front();  // only this thread takes any away
  running = &lane;
  running_since = Clock::now();
  lock.unlock();
  std::string error;
  try {
    first.job();
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  lock.lock();
  running = nullptr;
  lane.changed = lane.changed || error.empty() != lane.error.empty();
  lane.error = error;
  if (error.empty()) {
    lane.bytes -= first.bytes;
    lane.jobs.pop_front();
    lane.retry_at = {};
    ++done;
  } else {
    constexpr int kFasterAtTheEnd = 10;
    const Time wait = finishing ? options.retry / kFasterAtTheEnd : options.retry;
    lane.retry_at = Clock::now() + std::chrono::duration_cast<Clock::duration>(wait);
  }
  progress.notify_all();
}

void BackgroundWriter::State::run() {
  std::unique_lock lock(mutex);
  while (!ending) {
    if (LaneState* const lane = next()) {
      execute(*lane, lock);
    } else if (const auto at = next_retry()) {
      work.wait_until(lock, *at);
    } else {
      work.wait(lock);
    }
  }
}

BackgroundWriter::BackgroundWriter(const Options& options)
    : state_(std::make_shared<State>(options)) {
  state_->thread = start_thread("the records of the run", [state = state_] { state->run(); });
}

BackgroundWriter::~BackgroundWriter() {
  constexpr std::chrono::milliseconds kLastJob{200};
  std::thread thread;
  bool idle = false;
  {
    std::unique_lock lock(state_->mutex);
    state_->ending = true;
    state_->work.notify_all();
    idle = state_->progress.wait_for(lock, kLastJob, [&] { return state_->running == nullptr; });
    thread = std::move(state_->thread);
  }
  if (idle) {
    thread.join();
  } else {
    // It waits for a disk or a reader that may never answer, and nothing can call it back. It has a
    // share of all it touches; the process is about to end.
    thread.detach();
  }
}

BackgroundWriter::Lane BackgroundWriter::add_lane(std::string name, size_t most_bytes) {
  const std::scoped_lock lock(state_->mutex);
  LaneState& lane = state_->lanes.emplace_back();
  lane.name = std::move(name);
  lane.most_bytes = most_bytes;
  return {state_->lanes.size() - 1};
}

bool BackgroundWriter::post(Lane lane, size_t bytes, Job job) {
  const std::scoped_lock lock(state_->mutex);
  LaneState& into = state_->lanes.at(lane.index);
  if (into.bytes + bytes > into.most_bytes && !into.jobs.empty()) {
    ++into.dropped;
    into.changed = true;
    return false;
  }
  into.bytes += bytes;
  into.jobs.push_back({bytes, std::move(job)});
  state_->work.notify_all();
  return true;
}

size_t BackgroundWriter::waiting(Lane lane) const {
  const std::scoped_lock lock(state_->mutex);
  return state_->lanes.at(lane.index).jobs.size();
}

std::optional<BackgroundWriter::Running> BackgroundWriter::running() const {
  const std::scoped_lock lock(state_->mutex);
  if (state_->running == nullptr) return std::nullopt;
  return Running{state_->running->name, state_->running_since.time_since_epoch()};
}

std::vector<BackgroundWriter::Change> BackgroundWriter::take_changes() {
  const std::scoped_lock lock(state_->mutex);
  std::vector<Change> out;
  for (LaneState& lane : state_->lanes) {
    if (!std::exchange(lane.changed, false)) continue;
    out.push_back({lane.name, lane.error, std::exchange(lane.dropped, 0)});
  }
  return out;
}

std::vector<BackgroundWriter::Left> BackgroundWriter::finish(Time longest_standstill) {
  std::unique_lock lock(state_->mutex);
  state_->finishing = true;
  for (LaneState& lane : state_->lanes) lane.retry_at = {};
  state_->work.notify_all();
  for (;;) {
    const uint64_t before = state_->done;
    const bool moved = state_->progress.wait_for(
        lock, longest_standstill, [&] { return state_->all_done() || state_->done != before; });
    if (!moved || state_->all_done()) break;
  }
  std::vector<Left> left;
  for (LaneState& lane : state_->lanes) {
    if (lane.jobs.empty()) continue;
    left.push_back({lane.name, lane.jobs.size(), lane.error});
    lane.jobs.resize(state_->running == &lane ? 1 : 0);
  }
  state_->finishing = false;
  return left;
}

}  // namespace ds
