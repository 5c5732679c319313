// PrefetchingSource: fills micro-batches of another source ahead of the step, by a thread of its
// own, in memory that a device copies from. What the step gets, in which order and at which step it
// hears of an error is as without it. Nothing is read that the run will not ask for.
#pragma once

#include <array>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "core/memory/host_block.h"
#include "train/batches/batch_source.h"

namespace ds {

class PrefetchingSource final : public BatchSource {
 public:
  // Two are filled or wait while the third is copied.
  static constexpr int kPlaces = 3;

  struct Options {
    BatchSpec largest{};  // of all micro-batches
    // Those of the step after so many have this; empty: all are the largest.
    std::function<const BatchSpec&(int64_t steps_before)> spec_of = nullptr;
    int micro_steps = 1;  // of a step: after the last one comes the first of the next step
    int64_t steps = 0;    // of the run: from this one on nothing is read
    MemoryResource* pinned = nullptr;  // null: the heap
  };
  // What it takes of `pinned`.
  static size_t block_bytes(const BatchSpec& spec) {
    return static_cast<size_t>(kPlaces * spec.bytes());
  }
  // The source must outlive this one, and is asked for batches by nobody else.
  PrefetchingSource(BatchSource& source, const Options& options);
  ~PrefetchingSource() override;  // waits for a batch that is being filled, and for copies
  PrefetchingSource(const PrefetchingSource&) = delete;  // its thread knows its address
  PrefetchingSource& operator=(const PrefetchingSource&) = delete;

  // Waits for as long as the other source takes. Begins anew, at the micro-batch that is asked for,
  // where that does not follow on the last one; throws what filling it has thrown.
  std::optional<MicroBatch> take(int64_t step, int micro_step) override;
  void give_back(const Event& copied) override;
  void fill(int64_t step, int micro_step, const MicroBatch& batch) override;
  int64_t first_sample(int micro_step) const override { return source_.first_sample(micro_step); }
  void on_use(int64_t step, int micro_step) override { source_.on_use(step, micro_step); }

 private:
  struct Position {
    int64_t step = -1;
    int micro_step = 0;
    bool operator==(const Position&) const = default;
  };
  struct Place {
    Tensor block{};
    MicroBatch batch{};
    Event copied{};
  };

  void run();
  void fill(const Position& position, Place& place);
  void begin_at(const Position& position, std::unique_lock<std::mutex>& lock);
  void finish_copy(std::unique_lock<std::mutex>& lock);
  bool may_fill() const;  // under the mutex, as all that is below it
  Position after(const Position& position) const;
  Place& place_of(int64_t batch) { return places_[static_cast<size_t>(batch % kPlaces)]; }

  BatchSource& source_;
  const Options options_;
  const HostBlock block_;

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::array<Place, kPlaces> places_;
  // Batches are counted on: those before `returned_` are copied or being copied, those before
  // `taken_` are the step's, those before `filled_` wait for it.
  int64_t filled_ = 0, taken_ = 0, returned_ = 0;
  Position wanted_;           // what the step is expected to take next
  Position next_;             // what the thread fills next; before a step has begun, nothing
  bool filling_ = false;      // the thread is at it, without the mutex
  std::exception_ptr error_;  // of next_; the thread rests until somebody begins anew
  bool ends_ = false;

  std::thread thread_;  // last: it uses the others
};

}  // namespace ds
