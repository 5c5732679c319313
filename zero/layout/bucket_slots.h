// BucketSlots: the memory of buckets that live for a part of a micro-step only, weights gathered
// for use and gradients until they are reduced. The dry run records which bucket is taken and given
// back when; plan_arena() gives each such lifetime a place in one block that peers can read, and
// from follow() on nothing is allocated or freed inside a round. A place remembers the point in the
// stream's work at which it was given back, and who gets its bytes next waits for that point.
// Outside of a round, and without a plan, buckets are allocated on demand. It does not clear what
// it hands out. Confined to the thread that runs the step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/device/stream.h"
#include "core/device/tensor.h"
#include "core/memory/replay_arena.h"
#include "zero/peers/store_streams.h"

namespace ds {

// What takes the same buckets in the same order every time.
enum class BucketRound : uint8_t { kMicroStep, kEvaluation };

struct BucketPlan {
  ArenaPlan micro_step;
  ArenaPlan evaluation;
};

class BucketSlots {
 public:
  // memory: what peers read; it must outlive the slots, and these all buckets.
  explicit BucketSlots(MemoryResource& memory) : memory_(memory) {}
  // A bucket that `streams.peers` gives back is used until its thread is done with it: without a
  // plan that is waited for.
  BucketSlots(MemoryResource& memory, const StoreStreams& streams)
      : memory_(memory), peers_(&streams.peers), thread_(streams.thread) {}
  BucketSlots(const BucketSlots&) = delete;  // buckets refer to its arenas
  BucketSlots& operator=(const BucketSlots&) = delete;

  // Allocates the block on this stream's device. Both rounds share it, since they take turns.
  void follow(BucketPlan plan, Stream& stream);
  // A round begins and ends with no bucket of a round handed out.
  void begin(BucketRound round);
  void end();

  // [numel], contents undefined. The n-th of a round is as large as the n-th of the dry run's.
  Tensor take(int64_t numel, DType dtype, Stream& stream);
  // The last use of the bucket is what `stream` has been given up to now. Other tensors that refer
  // to it must be gone before the place is handed out again.
  void give_back(Tensor& bucket, Stream& stream);

  // Who takes a place from now on waits for nobody: what was given back so far is no longer used
  // when what streams are given next is done.
  void forget_events();

  // The buckets of the latest round, where there is no plan.
  const std::vector<AllocationSpan>& recorded() const { return recorded_; }
  MemoryResource& memory() { return memory_; }

 private:
  struct Place {
    size_t begin = 0, end = 0;    // bytes of the block
    std::vector<size_t> sharing;  // places with bytes in common, itself among them
    PeerPoint idle{};
  };
  struct Round {
    std::unique_ptr<ReplayArena> arena;
    size_t first_place = 0;
    size_t next = 0;
  };
  void add_round(Round& round, ArenaPlan plan, Device device);
  PeerPoint mark(const Stream& stream) const;
  void wait_for(const PeerPoint& idle, Stream& stream);

  MemoryResource& memory_;
  const Stream* const peers_ = nullptr;  // null: without a thread
  CommThread* const thread_ = nullptr;
  Tensor block_;
  std::vector<Place> places_;  // of all rounds
  Round micro_step_, evaluation_;
  Round* round_ = nullptr;  // under way and planned
  bool recording_ = false;  // a round is under way, unplanned
  std::vector<AllocationSpan> recorded_;
  int64_t events_ = 0;
  std::vector<std::pair<const void*, size_t>> out_;  // handed out in this round: place or record
};

}  // namespace ds
