// These functions tell where hosts are on the network: names become literal addresses once, here,
// with a time limit, so that ranks never ask a resolver. They open no connection to another host.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace ds {

struct ResolvedHost {
  std::string address;  // literal, empty where `error` says why
  std::string error;
};

// All names at once, in their order, each at most `limit`. A user before the name is ignored.
std::vector<ResolvedHost> resolve_hosts(const std::vector<std::string>& names,
                                        std::chrono::milliseconds limit);

// The address of this machine from which `literal` is reached. Throws CommError where no route
// leads.
std::string local_address_towards(const std::string& literal);

// Throws CommError for what is no literal address.
bool is_loopback_address(const std::string& literal);

// This is one address of an interface that is up. network_addresses() returns all of them, with
// link-local addresses left out, and throws IoError.
struct NetworkAddress {
  std::string interface;
  std::string address;  // literal
  bool is_loopback = false;
};
std::vector<NetworkAddress> network_addresses();

// What every other host can reach this machine by: its addresses, loopback only where there is
// nothing else. Throws IoError.
std::vector<std::string> reachable_addresses();

}  // namespace ds
