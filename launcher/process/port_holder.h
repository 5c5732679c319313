// Who listens on a TCP port of this machine, for the message that says a port is taken.
#pragma once

#include <optional>
#include <string>

namespace ds {

// "pid 123 (name)"; nothing if nobody does or we may not look (another user's process).
std::optional<std::string> describe_port_holder(int port);

}  // namespace ds
