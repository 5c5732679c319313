// ShmComm's class: one rank's end of a group over a ShmWorld. Private to comm/; others see
// Communicator. Confined to one thread, but for abort().
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/contract/rank_order_reduce.h"
#include "comm/contract/slice_bounds.h"
#include "comm/shm/comm.h"
#include "comm/shm/layout.h"
#include "comm/shm/world.h"

namespace ds::detail {

// Aborting a group aborts every group that was split from it on this rank.
struct AbortToken {
  std::atomic<bool> aborted{false};
  std::shared_ptr<const AbortToken> parent;
  bool is_aborted() const {
    return aborted.load(std::memory_order_relaxed) || (parent && parent->is_aborted());
  }
};

class ShmComm final : public Communicator {
 public:
  struct Group {
    std::shared_ptr<ShmWorld> world;
    std::shared_ptr<ShmRegion> region;
    std::vector<int> members;  // group rank -> world rank
    int rank = 0;
    ShmOptions options;
    std::shared_ptr<const AbortToken> parent;
  };
  explicit ShmComm(Group group);
  ~ShmComm() override;               // waits for peers to take what was sent to them
  ShmComm(const ShmComm&) = delete;  // one end per rank
  ShmComm& operator=(const ShmComm&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  SumOrder sum_order() const override { return SumOrder::kRank; }
  void all_reduce(Tensor& inout, ReduceOp op, Stream& stream) override;
  void all_gather(const Tensor& shard, Tensor& full, Stream& stream) override;
  void reduce_scatter(const Tensor& full, Tensor& shard, ReduceOp op, Stream& stream) override;
  void all_to_all(const Tensor& in, Tensor& out, Stream& stream) override;
  void broadcast(Tensor& inout, int root, Stream& stream) override;
  void send(const Tensor& tensor, int to, Stream& stream) override;
  void recv(Tensor& tensor, int from, Stream& stream) override;
  void barrier() override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  void check() override;
  void abort() noexcept override;
  MemoryResource& memory() override { return world_->memory(); }

 private:
  class Scope;  // one call: its sequence number, and what this rank is doing for a peer's diagnosis

  Header& header() const { return layout_.header(base_); }
  Slot& slot(int rank) const { return layout_.slot(base_, rank); }
  std::byte* stage(int rank, int64_t chunk) const { return layout_.stage(base_, rank, chunk); }
  // What a rank sent along with the last exchange; what we send along with the next one.
  std::byte* inline_data(int rank) const { return slot(rank).data[exchanges_ & 1]; }
  std::byte* next_inline_data() const { return slot(rank_).data[(exchanges_ + 1) & 1]; }

  // Meeting the peers (group.cpp).
  Call describe_call(CommOp op, const Tensor& in, int64_t numel) const;
  void locate_input(Call& call, const Tensor& in) const;
  void exchange(const Call& call);  // publishes ours, waits for all, compares; fills calls_
  void signal();
  void await_peers();  // until every rank has signalled as often as we have
  bool all_visible() const;
  std::byte* input_of(int rank, size_t bytes) const;

  // Waiting and failing (wait.cpp).
  enum class Lagging { kOnePeer, kAllRanks };
  void await(Flag& flag, uint32_t target, int peer, Lagging who);
  void await_slowly(Flag& flag, uint32_t target, int peer, Lagging who);
  std::vector<int> laggards(const Flag& flag, uint32_t target, int peer, Lagging who) const;
  enum class Look { kFlagsOnly, kAskSystem };  // whether to spend a system call on the question
  void check_gone(const std::vector<int>& late, const Flag& flag, uint32_t target, Lagging who,
                  Look look);
  std::string whereabouts(int rank) const;
  std::string current_call() const;
  std::string failure() const;  // empty while the group works
  void check_failure() const;
  void publish_failure(const std::string& text) noexcept;
  [[noreturn]] void fail(const std::string& text);
  void check_agreement(int peer);

  // The work (algorithms.cpp). Bounds are element or byte offsets of every rank's slice.
  void reduce_direct(Tensor& inout, const ReduceTypes& types, Stream& stream);
  void reduce_staged(Tensor& inout, const ReduceTypes& types);
  void reduce_scatter_staged(const std::byte* full, std::byte* shard, const ReduceTypes& types,
                             std::span<const int64_t> bounds);
  void all_gather_staged(const std::byte* shard, std::byte* full, std::span<const int64_t> bounds);
  void all_to_all_staged(const std::byte* in, std::byte* out, size_t slice_bytes);
  void broadcast_staged(std::byte* data, size_t bytes, int root);
  template <class Fill, class Drain>
  void pipeline(int64_t chunks, const Fill& fill, const Drain& drain);

  // Sends (point_to_point.cpp).
  void reclaim_payloads(int to);
  void drain_outboxes() noexcept;

  const std::shared_ptr<ShmWorld> world_;
  const std::shared_ptr<ShmRegion> region_;
  const std::vector<int> members_;
  const int rank_;
  const int size_;
  const ShmOptions options_;
  const ShmLayout layout_;
  std::byte* const base_;
  const int spins_;
  const std::shared_ptr<AbortToken> token_;
  uint32_t phase_ = 0;      // signals given so far
  uint32_t exchanges_ = 0;  // made so far; unlike the sequence it skips calls that were refused
  uint64_t sequence_ = 0;   // of the call in progress or last made
  CommOp op_ = CommOp::kBarrier;
  std::vector<Call> calls_;                // every rank's side of the call in progress
  std::vector<const std::byte*> sources_;  // scratch: every rank's input
  struct Sent {
    uint32_t number;
    std::byte* payload;
  };
  std::vector<std::deque<Sent>> outbox_;  // per receiver, oldest first
  std::vector<uint32_t> sent_, received_;
};

}  // namespace ds::detail
