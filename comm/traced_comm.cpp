#include "comm/traced_comm.h"

namespace ds {
namespace {

Communicator& traced_group(const std::unique_ptr<Communicator>& group) {
  DS_CHECK(group != nullptr, "traced communicator: nothing to trace");
  return *group;
}

}  // namespace

void CommVolume::add(std::string_view axis, CommOp op, int64_t tensor_bytes, int64_t wire_bytes) {
  const std::lock_guard lock(counts_mutex_);
  Count& count = counts_[std::string(axis)][std::string(name_of(op))];
  ++count.calls;
  count.tensor_bytes += tensor_bytes;
  count.wire_bytes += wire_bytes;
}

CommVolume::ByAxis CommVolume::totals() const {
  const std::lock_guard lock(counts_mutex_);
  return counts_;
}

void CommVolume::reset() {
  const std::lock_guard lock(counts_mutex_);
  counts_.clear();
}

int64_t CommVolume::wire_bytes() const {
  const std::lock_guard lock(counts_mutex_);
  int64_t sum = 0;
  for (const auto& [axis, by_op] : counts_) {
    for (const auto& [op, count] : by_op) sum += count.wire_bytes;
  }
  return sum;
}

TracedComm::TracedComm(std::unique_ptr<Communicator> inner, std::string axis, const Sinks& sinks)
    : own_(std::move(inner)), inner_(traced_group(own_)), axis_(std::move(axis)), sinks_(sinks) {}

TracedComm::TracedComm(Communicator& inner, std::string axis, const Sinks& sinks)
    : inner_(inner), axis_(std::move(axis)), sinks_(sinks) {}

uint64_t TracedComm::enter(CommOp op, int64_t tensor_bytes, std::string_view label) {
  ++sequence_;
  if (sinks_.ledger == nullptr) return 0;
  return sinks_.ledger->enter(axis_, sequence_, op, tensor_bytes, label);
}

void TracedComm::leave(uint64_t entry, CommOp op, int64_t tensor_bytes, const Event& done) {
  if (sinks_.ledger != nullptr) sinks_.ledger->exit(entry, done);
  count(op, tensor_bytes);
}

void TracedComm::count(CommOp op, int64_t tensor_bytes) {
  if (sinks_.volume == nullptr) return;
  sinks_.volume->add(axis_, op, tensor_bytes, wire_bytes(op, size(), tensor_bytes));
}

void TracedComm::timed(CommOp op, int64_t tensor_bytes, Stream* stream,
                       const std::function<void()>& call) {
  const auto now = [&] { return stream ? StreamMoment::of(*stream) : StreamMoment::of_host(); };
  StreamMoment begin = now();
  call();
  sinks_.times->on_call({.axis = axis_,
                         .op = op,
                         .bytes = tensor_bytes,
                         .ranks = size(),
                         .label = std::string(stream ? stream->label() : ""),
                         .begin = std::move(begin),
                         .end = now()});
}

// Counts after the call: one that fails was no traffic, and stays "inside" in the ledger.
template <class Call>
void TracedComm::traced(CommOp op, size_t bytes, Stream* stream, const Call& call) {
  const auto tensor_bytes = static_cast<int64_t>(bytes);
  const std::string_view label = stream != nullptr ? stream->label() : "";
  const bool is_recorded = stream != nullptr && stream->is_recorded();
  if (is_recorded && sinks_.recorded != nullptr) {
    call();
    sinks_.recorded->add(
        {.group = this, .op = op, .bytes = tensor_bytes, .label = std::string(label)});
    return;
  }
  const uint64_t entry = enter(op, tensor_bytes, label);
  if (sinks_.times == nullptr || !sinks_.times->is_on()) {
    call();
  } else {
    timed(op, tensor_bytes, stream, call);
  }
  const bool goes_on =
      stream != nullptr && stream->device().kind == Device::Kind::kCuda && !is_recorded;
  if (goes_on) {
    leave(entry, op, tensor_bytes, stream->mark());
  } else {
    if (sinks_.ledger != nullptr) sinks_.ledger->exit(entry);
    count(op, tensor_bytes);
  }
  if (stream != nullptr) {
    const auto wire = static_cast<double>(wire_bytes(op, size(), tensor_bytes));
    if (sinks_.network_share > 0) {
      stream->report(kBetweenHosts, {0, wire / sinks_.network_share});
    } else {
      stream->report(name_of(op), {0, wire});
    }
  }
}

void replay_calls(std::span<const RecordedCall> calls, Stream& stream,
                  const std::function<void()>& give) {
  std::vector<uint64_t> entries;
  for (const RecordedCall& call : calls) {
    entries.push_back(call.group->enter(call.op, call.bytes, call.label));
  }
  give();
  if (calls.empty()) return;
  const Event done = stream.mark();
  for (size_t i = 0; i < calls.size(); ++i) {
    calls[i].group->leave(entries[i], calls[i].op, calls[i].bytes, done);
  }
}

void TracedComm::all_reduce(Tensor& inout, ReduceOp op, Stream& stream) {
  traced(CommOp::kAllReduce, inout.bytes(), &stream, [&] { inner_.all_reduce(inout, op, stream); });
}

void TracedComm::all_gather(const Tensor& shard, Tensor& full, Stream& stream) {
  traced(CommOp::kAllGather, full.bytes(), &stream,
         [&] { inner_.all_gather(shard, full, stream); });
}

void TracedComm::reduce_scatter(const Tensor& full, Tensor& shard, ReduceOp op, Stream& stream) {
  traced(CommOp::kReduceScatter, full.bytes(), &stream,
         [&] { inner_.reduce_scatter(full, shard, op, stream); });
}

void TracedComm::all_to_all(const Tensor& in, Tensor& out, Stream& stream) {
  traced(CommOp::kAllToAll, in.bytes(), &stream, [&] { inner_.all_to_all(in, out, stream); });
}

void TracedComm::broadcast(Tensor& inout, int root, Stream& stream) {
  traced(CommOp::kBroadcast, inout.bytes(), &stream,
         [&] { inner_.broadcast(inout, root, stream); });
}

void TracedComm::send(const Tensor& tensor, int to, Stream& stream) {
  traced(CommOp::kSend, tensor.bytes(), &stream, [&] { inner_.send(tensor, to, stream); });
}

void TracedComm::recv(Tensor& tensor, int from, Stream& stream) {
  traced(CommOp::kRecv, tensor.bytes(), &stream, [&] { inner_.recv(tensor, from, stream); });
}

// If a device's stream makes the calls, the group has to know of both before either is made, and
// what is meanwhile takes no time; elsewhere that is no part of the messages' time.
void TracedComm::exchange(const Exchange& messages, Stream& stream,
                          const std::function<void()>& meanwhile) {
  if (!inner_.is_recordable()) return Communicator::exchange(messages, stream, meanwhile);
  traced(CommOp::kSend, messages.out.bytes(), &stream,
         [&] { inner_.exchange(messages, stream, meanwhile); });
  traced(CommOp::kRecv, messages.in.bytes(), &stream, [] {});
}

void TracedComm::barrier() {
  traced(CommOp::kBarrier, 0, nullptr, [&] { inner_.barrier(); });
}

std::unique_ptr<Communicator> TracedComm::split(int color, int key) {
  std::unique_ptr<Communicator> group;
  traced(CommOp::kSplit, 0, nullptr, [&] { group = inner_.split(color, key); });
  return std::make_unique<TracedComm>(std::move(group), axis_, sinks_);
}

}  // namespace ds
