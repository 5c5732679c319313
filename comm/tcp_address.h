// Where a socket of the data plane is: a literal IPv4 or IPv6 address with a port. Nothing here asks a
// name server: whoever starts the ranks says exactly where they are.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <string_view>

namespace ds::detail {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

// "10.0.0.1" or "fd00::1". Throws ConfigError for anything else, and for addresses that are not one
// interface's own: wildcards, multicast and broadcast.
SocketAddress parse_interface_address(const std::string& address);
// "10.0.0.1:4711" or "[fd00::1]:4711". Throws CommError for anything else.
SocketAddress parse_endpoint(std::string_view endpoint);
std::string endpoint_text(const SocketAddress& address);

}  // namespace ds::detail
