#include "core/text/socket_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <system_error>

#include "core/status/error.h"

namespace ds {
namespace {

template <class Kind>
Kind as(const SocketAddress& address) {
  Kind out{};
  std::memcpy(&out, &address.storage, sizeof(out));
  return out;
}

in6_addr v6_of(const SocketAddress& address) { return as<sockaddr_in6>(address).sin6_addr; }

// In the host's byte order; of a mapped address what it maps.
std::optional<in_addr_t> v4_of(const SocketAddress& address) {
  if (address.family() == AF_INET) return ntohl(as<sockaddr_in>(address).sin_addr.s_addr);
  if (!address.is_mapped_v4()) return std::nullopt;
  const in6_addr v6 = v6_of(address);
  in_addr_t inside = 0;
  std::memcpy(&inside, &v6.s6_addr[12], sizeof(inside));
  return ntohl(inside);
}

template <class Call>
SocketAddress end_of(int socket, const char* name, const Call& call) {
  SocketAddress out;
  if (call(socket, out.get(), &out.bytes) != 0) {
    throw CommError(fmt::format("{}: {}", name, std::generic_category().message(errno)));
  }
  return out;
}

}  // namespace

int SocketAddress::port() const {
  return ntohs(family() == AF_INET6 ? as<sockaddr_in6>(*this).sin6_port
                                    : as<sockaddr_in>(*this).sin_port);
}

std::string SocketAddress::host() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (family() == AF_INET6) {
    const in6_addr v6 = v6_of(*this);
    inet_ntop(AF_INET6, &v6, text.data(), text.size());
  } else if (family() == AF_INET) {
    const in_addr v4 = as<sockaddr_in>(*this).sin_addr;
    inet_ntop(AF_INET, &v4, text.data(), text.size());
  }
  return text.data();
}

std::string SocketAddress::endpoint() const {
  return family() == AF_INET6 ? fmt::format("[{}]:{}", host(), port())
                              : fmt::format("{}:{}", host(), port());
}

bool SocketAddress::is_wildcard() const {
  if (const auto v4 = v4_of(*this)) return *v4 == INADDR_ANY;
  const in6_addr v6 = v6_of(*this);
  return IN6_IS_ADDR_UNSPECIFIED(&v6);
}

bool SocketAddress::is_group() const {
  if (const auto v4 = v4_of(*this)) return *v4 == INADDR_BROADCAST || IN_MULTICAST(*v4);
  return v6_of(*this).s6_addr[0] == 0xff;
}

bool SocketAddress::is_loopback() const {
  if (const auto v4 = v4_of(*this)) return *v4 >> 24 == IN_LOOPBACKNET;
  const in6_addr v6 = v6_of(*this);
  return IN6_IS_ADDR_LOOPBACK(&v6);
}

bool SocketAddress::is_link_local() const {
  const in6_addr v6 = v6_of(*this);
  return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6);
}

bool SocketAddress::is_mapped_v4() const {
  const in6_addr v6 = v6_of(*this);
  return family() == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6);
}

std::optional<SocketAddress> parse_address(const std::string& literal, int port) {
  if (port < 0 || port > std::numeric_limits<uint16_t>::max()) return std::nullopt;
  const uint16_t wire_port = htons(static_cast<uint16_t>(port));
  sockaddr_in v4{.sin_family = AF_INET, .sin_port = wire_port, .sin_addr = {}, .sin_zero = {}};
  if (inet_pton(AF_INET, literal.c_str(), &v4.sin_addr) == 1) {
    return address_from(reinterpret_cast<const sockaddr*>(&v4), sizeof(v4));
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = wire_port;
  if (inet_pton(AF_INET6, literal.c_str(), &v6.sin6_addr) == 1) {
    return address_from(reinterpret_cast<const sockaddr*>(&v6), sizeof(v6));
  }
  return std::nullopt;
}

std::optional<SocketAddress> parse_endpoint(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  uint16_t port = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, port);
  if (error != std::errc() || stop != end || port == 0) return std::nullopt;
  const auto parsed = parse_address(std::string(host), port);
  return parsed && (parsed->family() == AF_INET6) == bracketed ? parsed : std::nullopt;
}

SocketAddress address_from(const sockaddr* address, socklen_t bytes) {
  SocketAddress out;
  out.bytes = std::min<socklen_t>(bytes, sizeof(out.storage));
  std::memcpy(&out.storage, address, out.bytes);
  return out;
}

SocketAddress own_address(int socket) { return end_of(socket, "getsockname", getsockname); }
SocketAddress peer_address(int socket) { return end_of(socket, "getpeername", getpeername); }

}  // namespace ds
