#include "comm/contract/collective_call.h"

#include "core/status/error.h"

namespace ds::detail {

std::string describe(const CollectiveCall& call) {
  std::string text = fmt::format("{} #{}", name_of(call.op), call.sequence);
  if (call.op == CommOp::kBarrier || call.op == CommOp::kSplit) return text;
  text += fmt::format(" of {} x {}", name_of(call.in), call.numel);
  if (call.op == CommOp::kAllReduce) text += fmt::format(", {}", name_of(call.reduce));
  if (call.op == CommOp::kReduceScatter) {
    text += fmt::format(" into {}, {}", name_of(call.out), name_of(call.reduce));
  }
  if (call.op == CommOp::kBroadcast) text += fmt::format(" from root {}", call.root);
  return text;
}

std::string disagreement(int rank, const CollectiveCall& mine, int peer,
                         const CollectiveCall& theirs) {
  return fmt::format("the ranks disagree: rank {} calls {}, rank {} calls {}", rank, describe(mine),
                     peer, describe(theirs));
}

}  // namespace ds::detail
