// Names of the collective operations and what they cost: shared by the transports (mismatch
// errors), the ledger (who is where) and the traffic count (bytes on the wire).
#pragma once

#include <cstdint>
#include <string_view>

#include "comm/contract/communicator.h"

namespace ds {

// The name by which a trace hears of a call whose group spans hosts, in place of the operation's:
// it takes the time of the network. Its bytes are those with which one such group would keep the
// network of a host busy as long as the groups do that share it (mesh_layout.h, network_share).
inline constexpr std::string_view kBetweenHosts = "between_hosts";

enum class CommOp : uint8_t {
  kBarrier,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kSend,
  kRecv,
  kSplit
};

std::string_view name_of(CommOp op);    // "all_reduce", "barrier", ...
std::string_view name_of(ReduceOp op);  // "sum", "average", "min", "max", "product"

// Bytes that one rank of a group of n = `size` puts on the wire, by the usual bandwidth-optimal
// algorithms (Thakur, Rabenseifner, Gropp 2005). S = `bytes` of the *whole* tensor: the inout of an
// all_reduce or broadcast, the full side of an all_gather or reduce_scatter, the input of an
// all_to_all.
//   all_reduce                             2 (n-1)/n S
//   all_gather, reduce_scatter, all_to_all   (n-1)/n S
//   broadcast, send                                  S   (recv and barrier: 0; n = 1: 0)
int64_t wire_bytes(CommOp op, int size, int64_t bytes);

}  // namespace ds
