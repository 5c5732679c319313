#include "comm/tcp/address.h"

#include "core/status/error.h"

namespace ds::detail {

SocketAddress parse_interface_address(const std::string& address) {
  const std::optional<SocketAddress> parsed = parse_address(address, 0);
  if (!parsed) {
    throw ConfigError(
        fmt::format("data address \"{}\": expected a literal IPv4 or IPv6 address of "
                    "this host, such as 10.0.0.1",
                    address));
  }
  if (parsed->is_wildcard() || parsed->is_group()) {
    throw ConfigError(
        fmt::format("data address \"{}\" is not the address of one interface; name the "
                    "one that the other hosts reach",
                    address));
  }
  return *parsed;
}

SocketAddress parse_data_endpoint(std::string_view endpoint) {
  if (const std::optional<SocketAddress> parsed = parse_endpoint(endpoint)) return *parsed;
  throw CommError(
      fmt::format("\"{}\" is no data endpoint; expected address:port or [address]:port", endpoint));
}

}  // namespace ds::detail
