#include "comm/contract/operation.h"

namespace ds {

std::string_view name_of(CommOp op) {
  switch (op) {
    case CommOp::kBarrier:
      return "barrier";
    case CommOp::kAllReduce:
      return "all_reduce";
    case CommOp::kAllGather:
      return "all_gather";
    case CommOp::kReduceScatter:
      return "reduce_scatter";
    case CommOp::kAllToAll:
      return "all_to_all";
    case CommOp::kBroadcast:
      return "broadcast";
    case CommOp::kSend:
      return "send";
    case CommOp::kRecv:
      return "recv";
    case CommOp::kSplit:
      return "split";
  }
  return "unknown";  // the value may come from a peer's memory: it must not throw
}

std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kAverage:
      return "average";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kProduct:
      return "product";
  }
  return "unknown";
}

int64_t wire_bytes(CommOp op, int size, int64_t bytes) {
  if (size <= 1) return 0;
  switch (op) {
    case CommOp::kAllReduce:
      return 2 * bytes * (size - 1) / size;
    case CommOp::kAllGather:
    case CommOp::kReduceScatter:
    case CommOp::kAllToAll:
      return bytes * (size - 1) / size;
    case CommOp::kBroadcast:
    case CommOp::kSend:
      return bytes;
    case CommOp::kBarrier:
    case CommOp::kRecv:
    case CommOp::kSplit:
      return 0;
  }
  return 0;
}

}  // namespace ds
