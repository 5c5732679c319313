#include "train/step/prefetching_source.h"

#include <chrono>
#include <utility>

#include "core/status/error.h"
#include "core/tasks/task_limits.h"
#include "core/values/index.h"

namespace ds {

PrefetchingSource::PrefetchingSource(BatchSource& source, const Options& options)
    : source_(source), options_(options), block_(block_bytes(options.largest), options.pinned) {
  const int64_t bytes = options.largest.bytes();
  DS_CHECK(bytes > 0 && options.micro_steps > 0,
           "prefetching: {} bytes in a micro-batch, {} micro-steps, expected more than 0", bytes,
           options.micro_steps);
  for (int place = 0; place < kPlaces; ++place) {
    nth(places_, place).block = Tensor::borrow(block_.data() + place * bytes, {bytes}, DType::kU8);
  }
  thread_ = start_thread("preparing batches", [this] { run(); });
}

PrefetchingSource::~PrefetchingSource() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
  for (const Place& place : places_) {
    try {
      place.copied.wait_on_host();
    } catch (const std::exception&) {  // the device failed; whoever waits for its work is told
    }
  }
}

std::optional<MicroBatch> PrefetchingSource::take(int64_t step, int micro_step) {
  const Position position{step, micro_step};
  DS_CHECK(
      step >= 0 && step < options_.steps && micro_step >= 0 && micro_step < options_.micro_steps,
      "prefetching: step {}, micro-step {} of a run of {} steps of {}", step, micro_step,
      options_.steps, options_.micro_steps);
  std::unique_lock lock(mutex_);
  DS_CHECK(taken_ == returned_, "prefetching: the micro-batch before has not been given back");
  if (position != wanted_) begin_at(position, lock);
  if (filled_ == taken_) finish_copy(lock);
  changed_.wait(lock, [&] { return filled_ > taken_ || error_ != nullptr; });
  if (filled_ == taken_) {
    wanted_ = next_ = {};
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
  wanted_ = after(position);
  return place_of(taken_++).batch;
}

void PrefetchingSource::give_back(const Event& copied) {
  {
    const std::lock_guard lock(mutex_);
    DS_CHECK(returned_ < taken_, "prefetching: no micro-batch has been taken");
    place_of(returned_++).copied = copied;
  }
  changed_.notify_all();
}

void PrefetchingSource::fill(int64_t step, int micro_step, const MicroBatch& batch) {
  batch.copy_from(take(step, micro_step).value());
  give_back({});
}

// Out of the place that is filled next. The thread only asks whether that is done, and on the
// emulated device nothing is done before somebody waits: this is the step, which needs the batch.
void PrefetchingSource::finish_copy(std::unique_lock<std::mutex>& lock) {
  const Event copied = place_of(filled_).copied;
  lock.unlock();
  copied.wait_on_host();
  lock.lock();
}

// What was filled for nobody is forgotten.
void PrefetchingSource::begin_at(const Position& position, std::unique_lock<std::mutex>& lock) {
  next_ = {};
  finish_copy(lock);
  changed_.wait(lock, [&] { return !filling_; });
  filled_ = taken_;
  error_ = nullptr;
  wanted_ = next_ = position;
  changed_.notify_all();
}

bool PrefetchingSource::may_fill() const {
  return next_.step >= 0 && next_.step < options_.steps && error_ == nullptr &&
         filled_ - returned_ < kPlaces;
}

PrefetchingSource::Position PrefetchingSource::after(const Position& position) const {
  if (position.micro_step + 1 < options_.micro_steps) {
    return {position.step, position.micro_step + 1};
  }
  return {position.step + 1, 0};
}

void PrefetchingSource::fill(const Position& position, Place& place) {
  // Asked for, and not waited for: on the emulated device who waits does the work, and this thread
  // and the step's would each wait for the queue that the other runs.
  while (!place.copied.ready()) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    const std::lock_guard lock(mutex_);
    if (ends_) return;  // who ends it waits for this thread, and runs no queue meanwhile
  }
  const BatchSpec& spec = options_.spec_of ? options_.spec_of(position.step) : options_.largest;
  place.batch = {spec, place.block.narrow(0, spec.bytes())};
  source_.fill_all(position.step, position.micro_step, spec, place.batch);
}

void PrefetchingSource::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || may_fill(); });
    if (ends_) return;
    const Position position = next_;
    Place& place = place_of(filled_);
    std::exception_ptr error;
    filling_ = true;
    lock.unlock();
    try {
      fill(position, place);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    filling_ = false;
    if (next_ == position) {  // else somebody begins anew, and has no use for it
      if (error != nullptr) {
        error_ = error;
      } else {
        ++filled_;
        next_ = after(position);
      }
    }
    changed_.notify_all();
  }
}

}  // namespace ds
