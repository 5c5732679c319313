// The connection a rank speaks to the launcher on: an inherited socket, or TLS to an address of the
// launcher's host, where each side proves by certificate that it belongs to this job.
#pragma once

#include <grpcpp/channel.h>

#include <memory>

#include "rankd/control/bootstrap.h"

namespace ds {

// Nothing is sent yet. Throws UsageError for an address that is none, or one on the network without
// certificates: nothing is ever said in clear there.
std::shared_ptr<grpc::Channel> open_control_channel(const Bootstrap& bootstrap);

// Throws Error(kClusterUnusable) if the launcher does not answer for 20 s, or for less where it
// would not wait so long for us.
void await_launcher(grpc::Channel& channel, const Bootstrap& bootstrap);

}  // namespace ds
