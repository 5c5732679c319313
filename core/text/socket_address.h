// A SocketAddress says where a socket is: a literal IPv4 or IPv6 address with a port. Nothing here
// asks a name server, and nothing here opens a connection.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <string_view>

namespace ds {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(sockaddr_storage);  // the room there is, until a system call fills it in

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }

  // These are for IPv4 and IPv6 only; an IPv4-mapped IPv6 address (::ffff:10.0.0.1) is told by what
  // it maps.
  int port() const;
  std::string host() const;      // "10.0.0.1", "fd00::1"
  std::string endpoint() const;  // "10.0.0.1:4711", "[fd00::1]:4711"
  bool is_wildcard() const;
  bool is_group() const;  // multicast or broadcast
  bool is_loopback() const;
  bool is_link_local() const;  // of IPv6, which needs to be told the interface
  bool is_mapped_v4() const;
};

// "10.0.0.1" or "fd00::1", without scope; a port outside of 0 to 65535 is none.
std::optional<SocketAddress> parse_address(const std::string& literal, int port);
// "10.0.0.1:4711" or "[fd00::1]:4711", the port from 1.
std::optional<SocketAddress> parse_endpoint(std::string_view text);

SocketAddress address_from(const sockaddr* address, socklen_t bytes);

// Both ends of a socket; throw CommError with the system's reason.
SocketAddress own_address(int socket);
SocketAddress peer_address(int socket);

}  // namespace ds
