// Communicator: one rank's end of one group. Calls are collective: every rank of the group makes
// the same calls in the same order with equal sizes, dtypes and operations. Every wait has a
// deadline and fails with a CommError that names the ranks waited for; a dead peer is an error,
// never a hang. After an error the communicator is unusable: abort() it and start a new epoch. How
// reductions round is a property of the transport: sum_order().
//
// Groups of GPUs only give their calls to the stream: what goes wrong with one later ends the wait
// for the stream, and is thrown by check(), which comes before anything is believed that the stream
// has computed, and by the next call.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/device/tensor.h"

namespace ds {

enum class ReduceOp : uint8_t { kSum, kAverage, kMin, kMax, kProduct };

// The order in which sums, averages and products of floating-point numbers are made over the ranks.
// With both, an all_reduce gives every rank the same bits.
enum class SumOrder : uint8_t {
  // In rank order, in fp32 (fp64 for fp64) and rounded once at the end, whatever the bucket or
  // chunk sizes: equal inputs give equal bits in every run, and on every transport that says so.
  kRank,
  // In the order that suits the transport, which may change with sizes and from call to call;
  // partial sums may be rounded to the dtype of the result. Good for weights that are compared
  // within a tolerance, not to the bit.
  kAny,
};

// This is one rank's part of a round of messages: what it sends, and what comes to it at the same
// time.
struct Exchange {
  const Tensor& out;
  int to;
  Tensor& in;
  int from;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual SumOrder sum_order() const = 0;  // also of the groups that are split off

  virtual void all_reduce(Tensor& inout, ReduceOp op, Stream& stream) = 0;
  // full.numel() == size() * shard.numel(); in place where shard aliases its slice of full.
  virtual void all_gather(const Tensor& shard, Tensor& full, Stream& stream) = 0;
  // Rank r receives slice r of the reduced `full`; shard may alias that slice. `full` is left
  // undefined elsewhere. The shard may be fp32 where full is bf16 or fp16: then the sum is not
  // rounded.
  virtual void reduce_scatter(const Tensor& full, Tensor& shard, ReduceOp op, Stream& stream) = 0;
  // Slice r of `in` goes to rank r; slice r of `out` comes from rank r.
  virtual void all_to_all(const Tensor& in, Tensor& out, Stream& stream) = 0;
  virtual void broadcast(Tensor& inout, int root, Stream& stream) = 0;
  virtual void send(const Tensor& tensor, int to, Stream& stream) = 0;
  virtual void recv(Tensor& tensor, int from, Stream& stream) = 0;
  // A send and a recv, of which neither waits for the other: what ranks of a ring do all at once.
  // `meanwhile` is called once, for work that the messages need not wait for: of a CPU while they
  // travel, of a device it is given to another stream.
  virtual void exchange(const Exchange& messages, Stream& stream,
                        const std::function<void()>& meanwhile) {
    send(messages.out, messages.to, stream);
    meanwhile();
    recv(messages.in, messages.from, stream);
  }
  virtual void barrier() = 0;  // of the hosts: it waits for no stream

  // Whether its calls can be recorded into a graph (core/device/step_graph.h), whose replays make
  // them again: where no part of theirs is the host's.
  virtual bool is_recordable() const { return false; }
  // The stream has been given a replay of a graph with calls of this group, after `begin`. Who
  // watches a device's calls keeps it. NOLINTNEXTLINE(performance-unnecessary-value-param)
  virtual void follow_replay(Stream& /*stream*/, Event /*begin*/) {}
  // Throws CommError where this rank has heard that the group has failed. Waits for nothing.
  // Thread-safe.
  virtual void check() {}

  // Ranks with equal colour form a new group, ordered by (key, rank). Collective over this group.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
  // Unblocks every pending call of this rank with CommError, and tells the peers. Thread-safe.
  virtual void abort() noexcept = 0;

  // Buffers for collectives are best allocated here. Peers can read this memory directly if the
  // transport has such memory (shared memory, registered memory). Never null; may be the plain
  // heap. Blocks must be freed before the communicator dies.
  virtual MemoryResource& memory() = 0;
};

}  // namespace ds
