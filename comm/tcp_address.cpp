#include "comm/tcp_address.h"

#include <arpa/inet.h>

#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "core/error.h"

namespace ds::detail {
namespace {

SocketAddress make(const sockaddr_in& address) {
  SocketAddress result;
  std::memcpy(&result.storage, &address, sizeof(address));
  result.bytes = sizeof(address);
  return result;
}

SocketAddress make(const sockaddr_in6& address) {
  SocketAddress result;
  std::memcpy(&result.storage, &address, sizeof(address));
  result.bytes = sizeof(address);
  return result;
}

std::optional<SocketAddress> parse_literal(const std::string& text, uint16_t port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) return make(v4);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  if (inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) return make(v6);
  return std::nullopt;
}

bool is_shared_v4(in_addr_t address) {
  const in_addr_t host = ntohl(address);
  return host == INADDR_ANY || host == INADDR_BROADCAST || IN_MULTICAST(host);
}

bool is_one_interface(const SocketAddress& address) {
  if (address.family() == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address.storage, sizeof(v4));
    return !is_shared_v4(v4.sin_addr.s_addr);
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, &address.storage, sizeof(v6));
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    in_addr_t inside = 0;
    std::memcpy(&inside, &v6.sin6_addr.s6_addr[12], sizeof(inside));
    return !is_shared_v4(inside);
  }
  return !IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr) && !IN6_IS_ADDR_MULTICAST(&v6.sin6_addr);
}

}  // namespace

SocketAddress parse_interface_address(const std::string& address) {
  const std::optional<SocketAddress> parsed = parse_literal(address, 0);
  if (!parsed) {
    throw ConfigError(fmt::format("data address \"{}\": expected a literal IPv4 or IPv6 address of "
                                  "this host, such as 10.0.0.1",
                                  address));
  }
  if (!is_one_interface(*parsed)) {
    throw ConfigError(fmt::format("data address \"{}\" is not the address of one interface; name the "
                                  "one that the other hosts reach",
                                  address));
  }
  return *parsed;
}

SocketAddress parse_endpoint(std::string_view endpoint) {
  const size_t colon = endpoint.rfind(':');
  if (colon != std::string_view::npos) {
    std::string_view host = endpoint.substr(0, colon);
    const std::string_view digits = endpoint.substr(colon + 1);
    const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (bracketed) host = host.substr(1, host.size() - 2);
    uint16_t port = 0;
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, port);
    if (error == std::errc() && stop == end && port != 0) {
      const auto parsed = parse_literal(std::string(host), port);
      if (parsed && (parsed->family() == AF_INET6) == bracketed) return *parsed;
    }
  }
  throw CommError(fmt::format("\"{}\" is no data endpoint; expected address:port or [address]:port",
                              endpoint));
}

std::string endpoint_text(const SocketAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.family() == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address.storage, sizeof(v4));
    inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return fmt::format("{}:{}", text.data(), ntohs(v4.sin_port));
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, &address.storage, sizeof(v6));
  inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  return fmt::format("[{}]:{}", text.data(), ntohs(v6.sin6_port));
}

}  // namespace ds::detail
