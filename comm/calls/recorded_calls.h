// RecordedCalls: what traced groups (traced_comm.h) were called for while a stream was recorded
// into a graph. A replay makes these calls again on the device, without anybody calling: it is told
// to ledgers and volumes here. Confined to the thread that records and replays.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/contract/operation.h"
#include "core/device/stream.h"

namespace ds {

class TracedComm;

struct RecordedCall {
  TracedComm* group;  // outlives the graph
  CommOp op;
  int64_t bytes;  // of the whole tensor
  std::string label;
};

class RecordedCalls {
 public:
  void add(RecordedCall call) { calls_.push_back(std::move(call)); }
  std::vector<RecordedCall> take() { return std::exchange(calls_, {}); }

 private:
  std::vector<RecordedCall> calls_;
};

// `give` gives the stream a graph with these calls in it. To a ledger all of them are entered
// before and left when the graph is done: of which one a rank that is inside waits, it cannot say.
void replay_calls(std::span<const RecordedCall> calls, Stream& stream,
                  const std::function<void()>& give);

}  // namespace ds
