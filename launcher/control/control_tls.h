// The coordinator's end of TLS: 1.3, mutual, certificates of one job alone.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>
#include <vector>

#include "launcher/control/job_authority.h"
#include "proto/control.pb.h"

namespace ds {

std::shared_ptr<grpc::ServerCredentials> coordinator_credentials(
    const JobAuthority& authority, const std::vector<std::string>& addresses,
    const std::string& name);

// Whether the certificate of a connection over the network is that of this rank in this epoch.
bool certified_as(const grpc::AuthContext& connection, const std::string& job, int64_t epoch,
                  int rank);

// Whether the connection came over the network; the others were inherited.
bool came_by_network(const grpc::CallbackServerContext& context);

}  // namespace ds
