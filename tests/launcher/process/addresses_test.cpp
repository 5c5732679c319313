#include "launcher/process/addresses.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "core/files/file.h"
#include "core/status/error.h"
#include "launcher/process/port_holder.h"
#include "tests/support/catch.h"

namespace ds {

TEST_CASE("names become literal addresses in their order, each with its own error", "[launcher]") {
  const std::string too_long(300, 'a');
  const std::vector<ResolvedHost> hosts =
      resolve_hosts({"127.0.0.1", "user@127.0.0.2", "no such name", too_long, "127.0.0.3"},
                    std::chrono::seconds(30));
  REQUIRE(hosts.size() == 5);
  CHECK(hosts[0].address == "127.0.0.1");
  CHECK(hosts[1].address == "127.0.0.2");  // whoever logs in there plays no part
  CHECK(hosts[4].address == "127.0.0.3");
  for (const size_t bad : {size_t{2}, size_t{3}}) {
    CHECK(hosts[bad].address.empty());
    CHECK_THAT(hosts[bad].error, Catch::StartsWith("its name cannot be resolved: ") ||
                                     Catch::StartsWith("its name was not resolved within "));
  }
  CHECK(resolve_hosts({}, std::chrono::seconds(1)).empty());
}

// Answers that come together: gai_suspend() leaves the resolver's threads a dead stack then.
TEST_CASE("names that are answered at once are answered every time", "[launcher]") {
  const std::vector<std::string> names(8, "no such name");
  for (int round = 0; round < 300; ++round) {
    for (const ResolvedHost& host : resolve_hosts(names, std::chrono::seconds(30))) {
      REQUIRE(host.address.empty());
    }
  }
}

TEST_CASE("the way to a loopback address begins at one", "[launcher]") {
  CHECK(local_address_towards("127.0.0.5") == "127.0.0.1");
  CHECK_THROWS_AS(local_address_towards("localhost"), CommError);
  CHECK_THROWS_WITH(local_address_towards("node-1"), "'node-1' is no literal address");
}

TEST_CASE("loopback addresses are told from others", "[launcher]") {
  for (const char* yes : {"127.0.0.1", "127.255.0.3", "::1"}) CHECK(is_loopback_address(yes));
  for (const char* no : {"10.0.0.1", "128.0.0.1", "::2", "fd00::1", "192.0.2.7"})
    CHECK_FALSE(is_loopback_address(no));
  for (const char* bad : {"", "localhost", "127.0.0", "127.0.0.1:80", "1.2.3.4.5"})
    CHECK_THROWS_AS(is_loopback_address(bad), CommError);
}

TEST_CASE("others are told of loopback only where there is nothing else", "[launcher]") {
  const std::vector<NetworkAddress> all = network_addresses();
  const bool others = std::ranges::any_of(all, [](const auto& a) { return !a.is_loopback; });
  const std::vector<std::string> reachable = reachable_addresses();
  REQUIRE_FALSE(reachable.empty());
  for (const std::string& address : reachable) CHECK(is_loopback_address(address) != others);
  for (const NetworkAddress& entry : all) {
    CHECK(is_loopback_address(entry.address) == entry.is_loopback);
    CHECK_FALSE(entry.interface.empty());
  }
}

TEST_CASE("whoever listens on a port is named", "[launcher]") {
  const Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(bind(listener.get(), generic, size) == 0);
  REQUIRE(getsockname(listener.get(), generic, &size) == 0);
  const int port = ntohs(address.sin_port);
  CHECK_FALSE(describe_port_holder(port));  // bound, but not listening
  REQUIRE(listen(listener.get(), 1) == 0);
  CHECK(describe_port_holder(port) == "pid " + std::to_string(getpid()) + " (launcher_tests)");
}

}  // namespace ds
