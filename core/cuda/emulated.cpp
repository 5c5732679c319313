#include "core/cuda/emulated.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include "core/cuda/capture.h"
#include "core/cuda/emulated_memory.h"
#include "core/cuda/emulated_stream.h"
#include "core/cuda/library_calls.h"
#include "core/cuda/moment.h"
#include "core/cuda/queue.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds::emulated {
namespace {

std::atomic<Orders> orders_now = Orders::kOne;
std::atomic<size_t> turns = 0;

// Is there as long as somebody has an event of it. Who asks how far it is does not wait for what
// runs, which may itself be waiting: for other ranks, or for a watchdog that asks.
class Work {
 public:
  explicit Work(Device device) : device_(device) {}

  void give(std::function<void()> work) {
    const std::lock_guard lock(waiting_mutex_);
    waiting_.push_back(std::move(work));
    ++given_;
    count_waiting_work(1);
  }
  int64_t given() const { return given_; }
  int64_t done() const { return done_; }
  void run_until(int64_t position) {
    const std::lock_guard running(run_mutex_);
    if (taken_ >= position) return;
    const Open open(device_);  // once for all that follows: it is a call of the system
    while (taken_ < position) {
      const std::function<void()> next = take();
      const Done when_done(*this);
      next();
    }
  }

 private:
  struct Done {
    explicit Done(Work& of_queue) : work(of_queue) {}
    ~Done() {
      ++work.done_;
      count_waiting_work(-1);
    }
    Done(const Done&) = delete;  // counts one
    Done& operator=(const Done&) = delete;
    Work& work;
  };
  std::function<void()> take() {
    const std::lock_guard lock(waiting_mutex_);
    std::function<void()> next = std::move(waiting_.front());
    waiting_.pop_front();
    ++taken_;
    return next;
  }

  const Device device_;
  std::recursive_mutex run_mutex_;  // a kernel may not wait for its own queue
  int64_t taken_ = 0;               // of what was given; guarded by it
  std::mutex waiting_mutex_;
  std::deque<std::function<void()>> waiting_;
  std::atomic<int64_t> given_ = 0;
  std::atomic<int64_t> done_ = 0;
};

// What queues are given while it is recorded, and what has to come before what.
class Recording final : public Capture {
 public:
  using Order = std::vector<size_t>;  // of steps

  // A queue takes part; its first step comes after `step` of another, if there is one.
  size_t add_queue() {
    last_.push_back(add({}, {kNone, kNone}));
    return last_.size() - 1;
  }
  size_t add_queue_after(size_t step) {
    last_.push_back(add({}, {step, kNone}));
    return last_.size() - 1;
  }
  void add_work(size_t queue, std::function<void()> work) {
    last_[queue] = add(std::move(work), {last_[queue], kNone});
  }
  void add_wait(size_t queue, size_t step) { last_[queue] = add({}, {last_[queue], step}); }
  size_t last(size_t queue) const { return last_[queue]; }

  // Everything in an order that is allowed, once for each queue: that one first, the others as late
  // as it allows. Of two steps that nothing orders, each comes first in one of these. The queue
  // that began is the first. Refuses queues that it does not wait for.
  std::vector<Order> orders() const {
    std::vector<Order> all;
    for (const size_t last : last_) {
      Order order;
      std::vector<bool> done(steps_.size(), false);
      visit(last, done, order);
      visit(last_.front(), done, order);
      if (order.size() < steps_.size()) refuse_unjoined();
      all.push_back(std::move(order));
    }
    return all;
  }

  std::vector<std::function<void()>> take_work() {
    std::vector<std::function<void()>> work;
    for (Step& step : steps_) work.push_back(std::move(step.work));
    return work;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  struct Step {
    std::function<void()> work;
    std::array<size_t, 2> after;  // the step before it in its queue, and that of an event
  };

  size_t add(std::function<void()> work, const std::array<size_t, 2>& after) {
    steps_.push_back({std::move(work), after});
    return steps_.size() - 1;
  }
  // The step and what has to come before it, its own queue first. Not by recursion: queues are
  // long.
  void visit(size_t wanted, std::vector<bool>& done, Order& order) const {
    std::vector<size_t> open{wanted};
    while (!open.empty()) {
      const size_t step = open.back();
      const auto& after = steps_[step].after;
      const auto missing = std::ranges::find_if(
          after, [&](size_t before) { return before != kNone && !done[before]; });
      if (!done[step] && missing != after.end()) {
        open.push_back(*missing);
        continue;
      }
      open.pop_back();
      if (done[step]) continue;
      done[step] = true;
      order.push_back(step);
    }
  }

  std::vector<Step> steps_;
  std::vector<size_t> last_;  // of each queue, in the order in which they came
};

// What a graph is made of: it outlives the graph where a queue has still to run it.
struct Recorded {
  std::vector<std::function<void()>> work;
  std::vector<Recording::Order> orders;
};

void run(const Recorded& graph) {
  const auto run_in = [&](const Recording::Order& order) {
    for (const size_t step : order) {
      if (graph.work[step]) graph.work[step]();
    }
  };
  if (orders() == Orders::kOne) return run_in(graph.orders[next_order(graph.orders.size())]);
  if (graph.orders.size() == 1) return run_in(graph.orders.front());
  const Contents before = contents();
  run_in(graph.orders.front());
  const Contents first = contents();
  for (size_t i = 1; i < graph.orders.size(); ++i) {
    restore(before);
    run_in(graph.orders[i]);
    DS_CHECK(contents() == first,
             "graph: what it writes depends on which of its streams comes first; a wait for an "
             "event is missing");
  }
}

class Event final : public QueueEvent {
 public:
  Event(std::shared_ptr<Work> work, std::shared_ptr<Capture> capture, size_t step)
      : work_(std::move(work)),
        position_(work_->given()),
        capture_(std::move(capture)),
        step_(step) {}
  bool ready() override {
    require_on_time_line(capture_.get(), "ready");
    return work_->done() >= position_;
  }
  void wait_on_host() override {
    require_on_time_line(capture_.get(), "wait_on_host or synchronize");
    work_->run_until(position_);
  }
  const std::shared_ptr<Capture>& capture() const { return capture_; }
  size_t step() const { return step_; }

 private:
  const std::shared_ptr<Work> work_;
  const int64_t position_;
  const std::shared_ptr<Capture> capture_;  // that it was marked in, or null
  const size_t step_;                       // of it
};

}  // namespace

class Queue final : public DeviceQueue {
 public:
  explicit Queue(Device device) : device_(device) {}
  Queue(const Queue&) = delete;  // libraries have its address
  Queue& operator=(const Queue&) = delete;
  ~Queue() override {
    abandon_capture();
    while (work_->done() < work_->given()) {
      try {
        work_->run_until(work_->given());
      } catch (...) {  // nobody is left to hear of it; what comes after it is done all the same
      }
    }
  }

  void enqueue(std::function<void()> work) {
    if (const auto recording = this->recording()) {
      return recording->add_work(place_, std::move(work));
    }
    work_->give(std::move(work));
  }

  std::shared_ptr<QueueEvent> mark() override {
    const auto recording = this->recording();
    return std::make_shared<Event>(work_, recording, recording ? recording->last(place_) : 0);
  }

  void wait(const std::shared_ptr<QueueEvent>& event) override {
    const auto& other = dynamic_cast<const Event&>(*event);
    const bool took_part = part_.active() != nullptr;
    part_.join(other.capture());
    const auto recording = this->recording();
    if (!recording) return enqueue([event] { event->wait_on_host(); });
    if (took_part) return recording->add_wait(place_, other.step());
    place_ = recording->add_queue_after(other.step());
  }

  void copy(const void* from, void* to, size_t bytes) override {
    if (!is_late(from) || !is_late(to)) part_.refuse_pageable_copy();
    if (is_late(from)) {
      enqueue([=] { std::memcpy(to, from, bytes); });
    } else {
      const auto* const begin = static_cast<const std::byte*>(from);
      enqueue([to, staged = std::vector(begin, begin + bytes)] {
        std::memcpy(to, staged.data(), staged.size());
      });
    }
    if (!is_late(to)) work_->run_until(work_->given());
  }

  void fill_bytes(void* to, int value, size_t bytes) override {
    enqueue([=] { std::memset(to, value, bytes); });
  }

  void* native() const override { return &native_; }

  void begin_capture() override {
    const auto recording = std::make_shared<Recording>();
    part_.begin(recording);
    place_ = recording->add_queue();
  }

  std::unique_ptr<QueueGraph> end_capture() override;

  void abandon_capture() noexcept override {
    if (part_.began()) part_.end();
  }
  bool is_recorded() const override { return part_.active() != nullptr; }

  void launch(const std::shared_ptr<const Recorded>& graph) {
    part_.refuse_replay();
    enqueue([graph] { run(*graph); });
  }

 private:
  std::shared_ptr<Recording> recording() const {
    return std::static_pointer_cast<Recording>(part_.active());
  }

  static void enqueue_native(void* queue, void (*run)(void*), void (*drop)(void*), void* context) {
    const std::shared_ptr<void> kept(context, drop);
    static_cast<Queue*>(queue)->enqueue([run, kept] { run(kept.get()); });
  }

  const Device device_;
  const std::shared_ptr<Work> work_ = std::make_shared<Work>(device_);
  mutable NativeStream native_{.queue = this, .enqueue = enqueue_native};
  CapturePart part_;
  size_t place_ = 0;  // in the recording
};

namespace {

// The time at which the emulated device came by.
class Moment final : public QueueMoment {
 public:
  explicit Moment(Queue& queue) {
    queue.enqueue([at = at_] { *at = std::chrono::steady_clock::now(); });
    reached_ = queue.mark();
  }
  double seconds_since(QueueMoment& earlier) override {
    const auto& before = dynamic_cast<const Moment&>(earlier);
    before.reached_->wait_on_host();
    reached_->wait_on_host();
    return std::chrono::duration<double>(*at_ - *before.at_).count();
  }

 private:
  const std::shared_ptr<std::chrono::steady_clock::time_point> at_ =
      std::make_shared<std::chrono::steady_clock::time_point>();
  std::shared_ptr<QueueEvent> reached_;
};

class Graph final : public QueueGraph {
 public:
  explicit Graph(Recorded recorded)
      : recorded_(std::make_shared<const Recorded>(std::move(recorded))) {}
  void launch(DeviceQueue& queue) override { dynamic_cast<Queue&>(queue).launch(recorded_); }

 private:
  const std::shared_ptr<const Recorded> recorded_;
};

}  // namespace

std::unique_ptr<QueueGraph> Queue::end_capture() {
  const auto recording = this->recording();
  part_.end();
  std::vector<Recording::Order> orders = recording->orders();
  return std::make_unique<Graph>(
      Recorded{.work = recording->take_work(), .orders = std::move(orders)});
}

std::shared_ptr<QueueMoment> moment_of(DeviceQueue& queue) {
  return std::make_shared<Moment>(dynamic_cast<Queue&>(queue));
}

void execute_in(Orders orders) { orders_now = orders; }
Orders orders() { return orders_now; }
size_t next_order(size_t count) { return turns.fetch_add(1, std::memory_order_relaxed) % count; }

void enqueue(DeviceQueue& queue, std::function<void()> work) {
  dynamic_cast<Queue&>(queue).enqueue(std::move(work));
}

}  // namespace ds::emulated

namespace ds {

std::unique_ptr<DeviceQueue> make_device_queue(Device device) {
  constexpr int kDevices = 8;
  if (device.index >= kDevices) {
    throw Unsupported(fmt::format("{}: {} devices are emulated", device.to_string(), kDevices));
  }
  return std::make_unique<emulated::Queue>(device);
}
std::shared_ptr<QueueMoment> mark_moment(DeviceQueue& queue) { return emulated::moment_of(queue); }
void use_device(Device /*device*/) {}
std::string model_name(Device /*device*/) { return "emulated device"; }
// Each process has devices of its own.
std::string unique_name(Device device) {
  return fmt::format("emulated {} of process {}", device.index, getpid());
}

}  // namespace ds
