#include "kernels/cuda/on_host.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "core/cuda/emulated.h"
#include "core/cuda/emulated_memory.h"
#include "core/fibre/fibre.h"
#include "core/fibre/sanitizers.h"
#include "core/memory/poison.h"
#include "core/status/error.h"
#include "core/values/index.h"
#include "core/values/rng.h"
#include "kernels/cuda/launch_shape.h"

namespace ds::cuda::on_host {

constinit thread_local Here here;

namespace {

using sanitizers::Seen;
using sanitizers::Unseen;

class Block;
thread_local Block* running = nullptr;

// Runs threads one after another until one of them has to wait; then it is that thread's, until it
// goes on, and another worker takes the next.
struct Worker {
  Fibre fibre{[] {
                for (;; Fibre::give_way()) run_threads();
              },
              Turns::kUnordered};
  int thread = -1;  // that waits in it; below 0: none, and it has nothing left to do

  static void run_threads();  // of the block that is running
};
using Workers = std::vector<std::unique_ptr<Worker>>;

Workers& idle_workers() {
  thread_local Workers workers;
  return workers;
}

// A grid under ThreadSanitizer. The threads of its first blocks have a worker each and are threads
// to the sanitizer, too, ordered by the grid's beginning and end, its barriers and nothing else.
// What other blocks do is not seen: a thread costs the sanitizer 0.75 MB, and acquiring and
// releasing time in proportion to how many there are.
struct Watch {
  static constexpr int kMostThreads = 1024;
  Watch() { sanitizers::release(&begin); }
  Watch(const Watch&) = delete;  // the sanitizer knows it by its place
  Watch& operator=(const Watch&) = delete;
  ~Watch() {
    sanitizers::acquire(&end);
    std::ranges::move(workers, std::back_inserter(idle_workers()));
  }
  // Whether a block of so many is to be seen.
  bool takes(int threads) {
    watched += threads;
    return watched == threads || watched <= kMostThreads;
  }

  char begin = 0, end = 0;
  int watched = 0;
  Workers workers;  // that were a thread's, and are not to be another's before the grid ends
};

struct Copy {
  void* to;
  const void* from;
  size_t bytes, read;
};

// A copy may be made at any time from where it is asked for to where it is waited for: it is
// another thread's data race in both places.
void note(const Copy& copy, void* kernel) {
  sanitizers::reads(copy.from, copy.read, kernel);
  sanitizers::writes(copy.to, copy.bytes, kernel);
}

void make(const Copy& copy) {
  std::memcpy(copy.to, copy.from, copy.read);
  std::memset(static_cast<std::byte*>(copy.to) + copy.read, 0, copy.bytes - copy.read);
}

// Who waited and may go on again: each thread in turn to where it waits next, and copies that go on
// by themselves are made as late as allowed; or a warp as far as it comes without the others, and
// copies as soon as they are asked for.
enum class Pace { kTogether, kAhead };

struct Barrier {
  int arrived = 0;
  int64_t round = 0;  // goes up when all have arrived

  // What ThreadSanitizer knows this round by. Who is through with it may arrive at the next one
  // before others have left, but not at the one after that.
  void* place() { return &nth(places, round % 2); }
  std::array<char, 2> places{};
};

// How a block is run.
struct Turn {
  Pace pace;
  std::vector<int> order;  // of its threads
  Watch* watch;            // null: nobody looks for races
};

class Block {
 public:
  Block(const LaunchShape& shape, int64_t index, Turn turn, const std::function<void()>& thread)
      : shape_(shape),
        index_(index),
        pace_(turn.pace),
        order_(std::move(turn.order)),
        thread_(thread),
        watch_(turn.watch),
        warps_(to_size((shape.threads + kWarp - 1) / kWarp)),
        shared_(shape.shared_bytes) {}
  Block(const Block&) = delete;  // its workers refer to it
  Block& operator=(const Block&) = delete;

  void run() {
    running = this;
    while (next_ < order_.size() && !error_) {
      resume(*waiting_.emplace_back(fresh_worker()));
      drop_idle();
    }
    while (!waiting_.empty() && !error_) {
      const size_t before = progress_;
      for (const auto& worker : waiting_) {
        if (!may_go_on(*worker)) continue;
        const int warp = worker->thread / kWarp;
        resume(*worker);
        if (pace_ == Pace::kAhead) run_ahead(warp);
      }
      drop_idle();
      if (progress_ == before && !waiting_.empty() && !error_) {
        error_ = std::make_exception_ptr(
            InternalError(fmt::format("block {}: a barrier is reached by {} of {} threads only",
                                      index_, waiting_.size(), shape_.threads)));
      }
    }
    waiting_.clear();  // after an error: unwinds them
    running = nullptr;
    if (error_) std::rethrow_exception(error_);
    shared_.check_edge();
    for (const auto& [place, array] : arrays_) array.check_edge();
  }

  // In a worker, which is that thread's where one waits.
  void run_threads() {
    const Unseen unseen;
    Worker* const own = worker_;
    try {
      do {
        if (next_ < order_.size() && !error_) run_thread(order_[next_++]);
      } while (watch_ == nullptr && next_ < order_.size() && !error_);
    } catch (const Killed&) {
      if (watch_ != nullptr) sanitizers::release(&watch_->end);
      throw;
    } catch (...) {
      error_ = std::current_exception();
    }
    if (watch_ != nullptr) sanitizers::release(&watch_->end);
    own->thread = -1;
  }

  void block_barrier() {
    require_nobody_ended();
    void* const place = block_barrier_.place();
    release(place);
    ++block_barrier_.arrived;
    wait_at(block_barrier_, shape_.threads);
    acquire(place);
  }

  void warp_barrier(unsigned mask) {
    void* const place = own_warp().barrier.place();
    release(place);
    together(
        mask, [](unsigned /*mask*/, const Operands& /*operands*/) {}, nullptr);
    acquire(place);
  }

  void together(unsigned mask, WarpInstruction execute, void* operands) {
    const int own = lane();
    Warp& warp = own_warp();
    DS_CHECK((mask >> own & 1U) != 0, "shuffle: lane {} is not in its mask {:#x}", own, mask);
    DS_CHECK((mask & warp.ended) == 0, "shuffle: mask {:#x} has lanes that have ended ({:#x})",
             mask, warp.ended);
    if (warp.barrier.arrived == 0) warp.operands = {};
    DS_CHECK(warp.barrier.arrived == 0 || warp.mask == mask,
             "shuffle: lanes of a warp meet with masks {:#x} and {:#x}", warp.mask, mask);
    DS_CHECK(warp.barrier.arrived == 0 || warp.instruction == execute,
             "lanes of a warp meet at two different instructions");
    warp.mask = mask;
    warp.instruction = execute;
    nth(warp.operands, own) = operands;
    if (++warp.barrier.arrived == std::popcount(mask)) execute(mask, warp.operands);
    wait_at(warp.barrier, std::popcount(mask));
  }

  void copy_later(const Copy& copy) {
    if (pace_ == Pace::kAhead) make(copy);
    own_thread().asked.push_back(copy);
  }
  void end_copy_group() {
    Thread& thread = own_thread();
    thread.groups.push_back(std::exchange(thread.asked, {}));
  }
  void wait_for_copies(int most_groups, void* kernel) {
    Thread& thread = own_thread();
    while (std::ssize(thread.groups) > most_groups) {
      for (const Copy& copy : thread.groups.front()) {
        if (pace_ == Pace::kTogether) make(copy);
        if (watch_ != nullptr) {
          const Seen seen;
          note(copy, kernel);
        }
      }
      thread.groups.pop_front();
    }
  }

  bool is_shared(const void* at, size_t bytes) const {
    return shared_.has(at, bytes) || std::ranges::any_of(arrays_, [&](const auto& array) {
             return array.second.has(at, bytes);
           });
  }

  void* shared_array(const void* place, size_t bytes) {
    Shared& array = arrays_[place];
    if (!array.bytes) array = Shared(bytes);
    return array.bytes.get();
  }
  void* shared_of_launch() { return shared_.bytes.get(); }

 private:
  // NaN at first; what lies behind it is nobody's.
  struct Shared {
    Shared() = default;
    explicit Shared(size_t wanted) : size(wanted), bytes(new std::byte[wanted + kEdge]) {
      std::memset(bytes.get(), 0xff, size);
      std::memset(bytes.get() + size, kEdgeByte, kEdge);
      poison(bytes.get() + size, kEdge);
    }
    void check_edge() const {
      if (!bytes) return;
      unpoison(bytes.get() + size, kEdge);
      DS_CHECK(std::all_of(bytes.get() + size, bytes.get() + size + kEdge,
                           [](std::byte b) { return b == std::byte{kEdgeByte}; }),
               "a kernel wrote behind {} bytes of shared memory", size);
    }
    bool has(const void* at, size_t count) const {
      const auto first = static_cast<const std::byte*>(at);
      return bytes && std::less_equal<>{}(bytes.get(), first) &&
             std::less_equal<>{}(first + count, bytes.get() + size);
    }
    static constexpr size_t kEdge = 64;
    static constexpr unsigned char kEdgeByte = 0xcb;
    size_t size = 0;
    std::unique_ptr<std::byte[]> bytes{};
  };
  struct Thread {
    const Barrier* at = nullptr;
    int64_t round = 0;  // of the barrier, that has to be over
    std::vector<Copy> asked{};
    std::deque<std::vector<Copy>> groups{};
  };
  struct Warp {
    Barrier barrier;
    unsigned mask = 0, ended = 0;
    WarpInstruction instruction = nullptr;
    Operands operands{};
  };

  Thread& own_thread() { return nth(threads_, here.thread.x); }
  Warp& own_warp() { return warps_[to_size(here.thread.x) / kWarp]; }

  void release(void* place) {
    if (watch_ != nullptr) sanitizers::release(place);
  }
  void acquire(void* place) {
    if (watch_ != nullptr) sanitizers::acquire(place);
  }

  bool may_go_on(const Worker& worker) const {
    if (error_ || worker.thread < 0) return false;
    const Thread& thread = nth(threads_, worker.thread);
    return thread.at->round > thread.round;
  }

  // Until each of its threads has ended or waits for other warps.
  void run_ahead(int warp) {
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (const auto& worker : waiting_) {
        if (worker->thread / kWarp != warp || !may_go_on(*worker)) continue;
        resume(*worker);
        goes_on = true;
      }
    }
  }

  void wait_at(Barrier& barrier, int expected) {
    const int own = static_cast<int>(here.thread.x);
    Thread& thread = nth(threads_, own);
    thread.at = &barrier;
    thread.round = barrier.round;
    if (barrier.arrived == expected) {
      barrier.arrived = 0;
      ++barrier.round;
      return;
    }
    worker_->thread = own;
    const Here own_place = here;
    Fibre::give_way();
    here = own_place;
  }

  std::unique_ptr<Worker> fresh_worker() {
    Workers& idle = idle_workers();
    if (idle.empty()) return std::make_unique<Worker>();
    std::unique_ptr<Worker> worker = std::move(idle.back());
    idle.pop_back();
    return worker;
  }

  void resume(Worker& worker) {
    ++progress_;
    worker_ = &worker;
    worker.thread = -1;
    worker.fibre.resume();
  }

  void run_thread(int index) {
    here = {.thread = {.x = static_cast<unsigned>(index), .y = 0, .z = 0},
            .block = {.x = static_cast<unsigned>(index_), .y = 0, .z = 0},
            .block_dim = {.x = static_cast<unsigned>(shape_.threads)},
            .grid_dim = {.x = static_cast<unsigned>(shape_.blocks)}};
    if (watch_ == nullptr) {
      thread_();
    } else {
      const std::string name = fmt::format("block {}, thread {}", index_, index);
      sanitizers::name_thread(name.c_str());
      sanitizers::acquire(&watch_->begin);
      const Seen seen;
      thread_();
    }
    end_thread();
  }

  void end_thread() {
    const Thread& thread = own_thread();
    DS_CHECK(thread.asked.empty() && thread.groups.empty(),
             "block {}, thread {}: it ends with copies that it did not wait for", index_,
             here.thread.x);
    ++ended_;
    warps_[to_size(here.thread.x) / kWarp].ended |= 1U << lane();
    if (block_barrier_.arrived > 0) require_nobody_ended();
  }

  // A GPU may let it pass or hang: nobody is to rely on either.
  void require_nobody_ended() const {
    DS_CHECK(ended_ == 0, "block {}: a barrier that {} of {} threads do not reach", index_, ended_,
             shape_.threads);
  }

  void drop_idle() {
    Workers& done = watch_ == nullptr ? idle_workers() : watch_->workers;
    std::erase_if(waiting_, [&](std::unique_ptr<Worker>& worker) {
      if (worker->thread >= 0) return false;
      done.push_back(std::move(worker));
      return true;
    });
  }

  const LaunchShape& shape_;
  const int64_t index_;
  const Pace pace_;
  const std::vector<int> order_;
  const std::function<void()>& thread_;
  Watch* const watch_;  // null: it is not seen
  std::vector<Thread> threads_ = std::vector<Thread>(to_size(shape_.threads));
  std::vector<Warp> warps_;
  Barrier block_barrier_;
  const Shared shared_;
  std::map<const void*, Shared> arrays_;
  Workers waiting_;
  Worker* worker_ = nullptr;  // that runs
  size_t next_ = 0;           // of order_, not begun
  size_t progress_ = 0;
  int ended_ = 0;
  std::exception_ptr error_;
};

void Worker::run_threads() { running->run_threads(); }

template <class T>
std::vector<T> in_order(int64_t count, ThreadOrder order, uint64_t salt) {
  std::vector<T> all(to_size(count));
  std::iota(all.begin(), all.end(), T{0});
  if (order == ThreadOrder::kDown) std::ranges::reverse(all);
  if (order < ThreadOrder::kShuffled) return all;
  const Rng rng = Rng(static_cast<uint64_t>(order), "thread order").derive(salt);
  for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[rng.bits(i) % i]);
  return all;
}

}  // namespace

void run_grid(const LaunchShape& shape, ThreadOrder order, const std::function<void()>& thread) {
  DS_CHECK(shape.threads > 0 && shape.threads <= 1024, "a block of {} threads", shape.threads);
  const Unseen unseen;
  const auto watch = sanitizers::kSeesRaces ? std::make_unique<Watch>() : nullptr;
  for (const int64_t block : in_order<int64_t>(shape.blocks, order, 0)) {
    const auto salt = static_cast<uint64_t>(block) + 1;
    const bool ahead = order == ThreadOrder::kDown || order == ThreadOrder::kShuffledOtherwise;
    const bool is_watched = watch && watch->takes(shape.threads);
    // On the heap, because ThreadSanitizer forgets barriers when their memory is given back.
    Turn turn{.pace = ahead ? Pace::kAhead : Pace::kTogether,
              .order = in_order<int>(shape.threads, order, salt),
              .watch = is_watched ? watch.get() : nullptr};
    std::make_unique<Block>(shape, block, std::move(turn), thread)->run();
  }
}

void run_launch(const LaunchShape& shape, std::string_view kernel,
                const std::function<void()>& thread) {
  // ThreadSanitizer sees races in any order, and takes its time.
  if (sanitizers::kSeesRaces || emulated::orders() == emulated::Orders::kOne) {
    const size_t turn = sanitizers::kSeesRaces ? 0 : emulated::next_order(kThreadOrders.size());
    run_grid(shape, kThreadOrders[turn], thread);
    emulated::check_edges(kernel);
    return;
  }
  const emulated::Contents before = emulated::contents();
  emulated::Contents first;
  for (const ThreadOrder order : kThreadOrders) {
    if (order != ThreadOrder::kUp) emulated::restore(before);
    run_grid(shape, order, thread);
    emulated::check_edges(kernel);
    if (order == ThreadOrder::kUp) {
      first = emulated::contents();
    } else if (emulated::contents() != first) {
      throw InternalError(
          fmt::format("{}: what it writes depends on the order of its threads", kernel));
    }
  }
}

void* shared_array(const void* place, size_t bytes) {
  const Unseen unseen;
  return running->shared_array(place, bytes);
}
void* shared_of_launch() { return running->shared_of_launch(); }
void block_barrier() {
  const Unseen unseen;
  running->block_barrier();
}
void warp_barrier(unsigned mask) {
  const Unseen unseen;
  running->warp_barrier(mask);
}
void together(unsigned mask, WarpInstruction execute, void* own) {
  const Unseen unseen;
  running->together(mask, execute, own);
}
void require_lane(unsigned mask, int from) {
  DS_CHECK((mask >> from & 1U) != 0, "shuffle: lane {} is read, and not in the mask {:#x}", from,
           mask);
}
void copy_later(void* to, const void* from, size_t bytes, size_t read) {
  require_shared(to, bytes, "an asynchronous copy");
  const Copy copy{.to = to, .from = from, .bytes = bytes, .read = read};
  note(copy, __builtin_return_address(0));
  const Unseen unseen;
  running->copy_later(copy);
}
void end_copy_group() {
  const Unseen unseen;
  running->end_copy_group();
}
void wait_for_copies(int most_groups) {
  const Unseen unseen;
  running->wait_for_copies(most_groups, __builtin_return_address(0));
}
void require_shared(const void* at, size_t bytes, std::string_view who) {
  DS_CHECK(running->is_shared(at, bytes), "{}: {} bytes that are not in shared memory", who, bytes);
  DS_CHECK(reinterpret_cast<uintptr_t>(at) % bytes == 0, "{}: {} bytes that are not aligned", who,
           bytes);
}
int lane() { return static_cast<int>(here.thread.x) % kWarp; }

}  // namespace ds::cuda::on_host
