// Connections between hosts: listening on a literal address, to see who can connect there, and
// dialling many at once within a limit. No byte is sent or read.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "core/text/socket_address.h"

namespace ds {

// A socket that listens there and does not block, for `waiting` that the kernel takes in before
// anybody accepts; invalid, with errno, where that cannot be. Connections of an ended job that
// linger do not hold the port, a listener does.
Fd listening_socket(const SocketAddress& address, int waiting);

struct PeerListener {
  Fd listener;           // the kernel completes connections; nobody accepts
  std::string endpoint;  // "10.0.0.1:4000", "[fe80::1]:4000"
};

// On one literal address, never a wildcard; port 0: any free one. Throws CommError, UsageError.
PeerListener listen_for_dials(const std::string& address, int port);

struct PeerDial {
  std::string endpoint;
  Fd connection;  // not blocking; open where there is no error
  std::string error;
};

// All at once, in their order; an error for those that could not be reached within `limit`.
std::vector<PeerDial> dial_peers(const std::vector<std::string>& endpoints,
                                 std::chrono::milliseconds limit);

}  // namespace ds
