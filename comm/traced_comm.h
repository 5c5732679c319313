// TracedComm: a communicator that counts what passes through it: per axis and operation in a
// CommVolume, call by call in a Ledger, and on the stream's trace. The count of bytes on the wire
// is by formula (comm/contract/operation.h), whatever the transport really moves, so that plan and
// run are comparable. A call that is given to a device is in the ledger until the device has done
// it; one that is recorded into a graph is counted and in the ledger whenever the graph is replayed
// (calls/recorded_calls.h).
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "comm/calls/recorded_calls.h"
#include "comm/calls/timed_call.h"
#include "comm/contract/communicator.h"
#include "comm/contract/operation.h"
#include "comm/ledger.h"

namespace ds {

// Totals of one rank, by axis and operation. Thread-safe.
class CommVolume {
 public:
  struct Count {
    int64_t calls = 0;
    int64_t tensor_bytes = 0;  // sum of whole-tensor sizes
    int64_t wire_bytes = 0;    // sum of wire_bytes(op, group size, tensor bytes)
    bool operator==(const Count&) const = default;
  };
  using ByOp = std::map<std::string, Count>;   // "all_reduce" -> count
  using ByAxis = std::map<std::string, ByOp>;  // "data" -> ...

  void add(std::string_view axis, CommOp op, int64_t tensor_bytes, int64_t wire_bytes);
  ByAxis totals() const;  // since construction or the last reset
  void reset();
  int64_t wire_bytes() const;

 private:
  mutable std::mutex counts_mutex_;
  ByAxis counts_;
};

class TracedComm final : public Communicator {
 public:
  struct Sinks {
    CommVolume* volume = nullptr;  // not owned, may be null
    Ledger* ledger = nullptr;      // not owned, may be null
    // Not owned. Null: calls that are recorded count once, when they are recorded.
    RecordedCalls* recorded = nullptr;
    CallTimes* times = nullptr;  // not owned, may be null
    // What of a host's network a group has that spans hosts, for traces; 0: it stays in one.
    double network_share = 0;
  };
  TracedComm(std::unique_ptr<Communicator> inner, std::string axis, const Sinks& sinks);
  // One of several that count calls of the same group, which must outlive it.
  TracedComm(Communicator& inner, std::string axis, const Sinks& sinks);

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  SumOrder sum_order() const override { return inner_.sum_order(); }
  void all_reduce(Tensor& inout, ReduceOp op, Stream& stream) override;
  void all_gather(const Tensor& shard, Tensor& full, Stream& stream) override;
  void reduce_scatter(const Tensor& full, Tensor& shard, ReduceOp op, Stream& stream) override;
  void all_to_all(const Tensor& in, Tensor& out, Stream& stream) override;
  void broadcast(Tensor& inout, int root, Stream& stream) override;
  void send(const Tensor& tensor, int to, Stream& stream) override;
  void recv(Tensor& tensor, int from, Stream& stream) override;
  void exchange(const Exchange& messages, Stream& stream,
                const std::function<void()>& meanwhile) override;
  void barrier() override;
  std::unique_ptr<Communicator> split(int color, int key) override;  // counted on the same axis
  void check() override { inner_.check(); }
  bool is_recordable() const override { return inner_.is_recordable(); }
  void follow_replay(Stream& stream, Event begin) override {
    inner_.follow_replay(stream, std::move(begin));
  }
  void abort() noexcept override { inner_.abort(); }
  MemoryResource& memory() override { return inner_.memory(); }

  // Around a call that is made without being called for: its entry in the ledger.
  uint64_t enter(CommOp op, int64_t tensor_bytes, std::string_view label);
  void leave(uint64_t entry, CommOp op, int64_t tensor_bytes, const Event& done);

 private:
  void timed(CommOp op, int64_t tensor_bytes, Stream* stream, const std::function<void()>& call);
  template <class Call>
  void traced(CommOp op, size_t bytes, Stream* stream, const Call& call);
  void count(CommOp op, int64_t tensor_bytes);

  const std::unique_ptr<Communicator> own_;  // null: another's
  Communicator& inner_;
  const std::string axis_;
  const Sinks sinks_;
  uint64_t sequence_ = 0;
};

}  // namespace ds
