// How the ranks of a world find each other: every rank dials those before it and accepts those
// after it, until there is one proven connection per pair. Strangers are dropped and logged; they
// can neither join nor keep the ranks from meeting. Knows nothing of what the connections are for.
#pragma once

#include <vector>

#include "comm/tcp/comm.h"

namespace ds::detail {

// Returns connections by rank; none for ourselves. They are nonblocking. The listener is closed
// when this returns. Throws CommError naming the ranks that did not come within the timeout, and
// why.
std::vector<Fd> meet_peers(TcpListener listener, const TcpWorld& world, const TcpOptions& options);

}  // namespace ds::detail
