// TcpComm's class: one rank's end of a group over a TcpWire. Private to comm/; others see
// Communicator. Confined to one thread, but for abort().
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/contract/collective_call.h"
#include "comm/contract/rank_order_reduce.h"
#include "comm/tcp/batch.h"
#include "comm/tcp/comm.h"

namespace ds::detail {

class TcpComm final : public Communicator {
 public:
  struct Group {
    std::shared_ptr<TcpWire> wire;
    uint64_t id = 1;           // the same on all members, and of no other group of the world
    std::vector<int> members;  // group rank -> world rank
    int rank = 0;
    std::shared_ptr<const TcpGroupState> parent;
  };
  explicit TcpComm(Group group);
  ~TcpComm() override;
  TcpComm(const TcpComm&) = delete;  // one end per rank
  TcpComm& operator=(const TcpComm&) = delete;

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
  MemoryResource& memory() override { return memory_; }

 private:
  class Call;  // one collective in progress: what everybody calls
  class StallWatch;

  // Meeting the peers (group.cpp).
  CollectiveCall describe_call(CommOp op, const Tensor& in) const;
  void begin_point_to_point(CommOp op, const Tensor& tensor);
  void post_send(TcpBatch& batch, int to, const std::byte* data, size_t bytes) const;
  void post_receive(TcpBatch& batch, int from, std::byte* data, size_t bytes) const;
  void wait(TcpBatch& batch);
  template <class Done, class Awaited>
  void await(const Done& done, const Awaited& awaited);
  void check_message(const ReceiveTicket& ticket);
  void check_failure() const;
  void check_gone(const std::vector<int>& awaited);
  uint64_t bytes_moved(const std::vector<int>& members) const;
  uint64_t first_unfinished() const;  // collective; under the wire's lock
  [[noreturn]] void fail_silent(const std::vector<int>& awaited);
  [[noreturn]] void fail(const std::string& text);

  // The work (algorithms.cpp). Bounds are offsets of every rank's slice.
  void reduce_whole(std::byte* data, const ReduceTypes& types, int64_t numel, Stream& stream);
  // Slice r of every rank's `full` is reduced on rank r into its `shard`; where `gathered` is not
  // null, every rank's reduced slice comes to it as well.
  void reduce_slices(const std::byte* full, std::byte* shard, std::byte* gathered,
                     const ReduceTypes& types, std::span<const int64_t> bounds, Stream& stream);
  void gather_slices(const std::byte* shard, std::byte* full, size_t slice_bytes);
  void broadcast_whole(std::byte* data, size_t bytes, int root);
  void broadcast_slices(std::byte* data, std::span<const int64_t> bounds, int root);

  template <class F>
  void for_each_peer(const F& f) const {  // starting behind us, so that not all begin with rank 0
    for (int i = 1; i < size_; ++i) f((rank_ + i) % size_);
  }

  const std::shared_ptr<TcpWire> wire_;
  const std::shared_ptr<TcpGroupState> state_;
  const int rank_;
  const int size_;
  HostMemory memory_;
  // This is the number of the collective in progress or last made; changes under the wire's lock.
  uint64_t sequence_ = 0;
  Call* call_ = nullptr;  // the one in progress; changes under the wire's lock
  CommOp op_ = CommOp::kBarrier;
  std::vector<std::byte> scratch_;
  std::vector<const std::byte*> sources_;  // scratch: every rank's input
};

}  // namespace ds::detail
