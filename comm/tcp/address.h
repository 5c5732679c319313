// What the data plane takes for an address: strict, and with words for who gave it.
#pragma once

#include <string>
#include <string_view>

#include "core/text/socket_address.h"

namespace ds::detail {

// "10.0.0.1" or "fd00::1". Throws ConfigError for anything else, and for addresses that are not one
// interface's own: wildcards, multicast and broadcast.
SocketAddress parse_interface_address(const std::string& address);
// "10.0.0.1:4711" or "[fd00::1]:4711". Throws CommError for anything else.
SocketAddress parse_data_endpoint(std::string_view endpoint);

}  // namespace ds::detail
