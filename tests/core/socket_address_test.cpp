#include "core/text/socket_address.h"

#include "core/files/file.h"
#include "core/status/error.h"
#include "core/tasks/host.h"
#include "core/values/rng.h"
#include "tests/support/catch.h"

using namespace ds;

namespace {

SocketAddress address(const char* literal) {
  const std::optional<SocketAddress> parsed = parse_address(literal, 0);
  REQUIRE(parsed);
  return *parsed;
}

}  // namespace

TEST_CASE("endpoints go there and back", "[core]") {
  for (const char* text : {"10.0.0.1:4711", "[fd00::1]:65535", "127.0.0.1:1"}) {
    CAPTURE(text);
    REQUIRE(parse_endpoint(text));
    CHECK(parse_endpoint(text)->endpoint() == text);
  }
  CHECK(parse_endpoint("[FD00:0::1]:80")->endpoint() == "[fd00::1]:80");
  CHECK(parse_address("fd00::1", 80)->port() == 80);
}

TEST_CASE("what is no literal endpoint is none", "[core]") {
  for (const char* text : {"", ":", "10.0.0.1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536",
                           "10.0.0.1:1x", "host:1", "fd00::1:80", "[10.0.0.1]:80", "[fd00::1]",
                           "[]:1", "10.0.0.1:-1", "[fe80::1%lo]:1", "127.1:1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_endpoint(text));
  }
  for (const int port : {-1, 65536}) CHECK_FALSE(parse_address("10.0.0.1", port));
  CHECK_FALSE(parse_address("localhost", 80));
}

TEST_CASE("addresses say what they are for", "[core]") {
  for (const char* text : {"0.0.0.0", "::", "::ffff:0.0.0.0"}) CHECK(address(text).is_wildcard());
  for (const char* text : {"224.0.0.1", "255.255.255.255", "ff02::1", "::ffff:224.0.0.1"}) {
    CAPTURE(text);
    CHECK(address(text).is_group());
  }
  for (const char* text : {"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"}) {
    CAPTURE(text);
    CHECK(address(text).is_loopback());
  }
  CHECK(address("fe80::1").is_link_local());
  CHECK(address("::ffff:10.0.0.1").is_mapped_v4());
  for (const char* text : {"10.0.0.1", "fd00::1"}) {
    CAPTURE(text);
    const SocketAddress plain = address(text);
    CHECK_FALSE((plain.is_wildcard() || plain.is_group() || plain.is_loopback() ||
                 plain.is_link_local() || plain.is_mapped_v4()));
  }
}

TEST_CASE("both ends of a connection have an address", "[core]") {
  const Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress any = address("127.0.0.1");
  REQUIRE(bind(listener.get(), any.get(), any.bytes) == 0);
  REQUIRE(listen(listener.get(), 1) == 0);
  const SocketAddress there = own_address(listener.get());
  CHECK(there.port() > 0);
  const Fd dialled(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(connect(dialled.get(), there.get(), there.bytes) == 0);
  CHECK(peer_address(dialled.get()).endpoint() == there.endpoint());
  CHECK_THROWS_AS(peer_address(listener.get()), CommError);
  CHECK_THROWS_WITH(own_address(-1), "getsockname: Bad file descriptor");
}

TEST_CASE("a host knows its name and what memory it has left", "[core]") {
  CHECK_FALSE(own_host_name().empty());
  CHECK(available_memory().value_or(0) > 0);
}

TEST_CASE("random endpoints of both families go there and back", "[core]") {
  const Rng rng(4, "endpoints");
  for (uint64_t i = 0; i < 200; ++i) {
    const auto word = [&](uint64_t at) { return rng.bits(16 * i + at); };
    const uint32_t port = 1 + word(0) % 65535;
    const std::string v4 = fmt::format("{}.{}.{}.{}:{}", word(1) % 256, word(2) % 256,
                                       word(3) % 256, word(4) % 256, port);
    REQUIRE(parse_endpoint(v4));
    CHECK(parse_endpoint(v4)->endpoint() == v4);
    // Groups that are not zero, so that there is nothing to shorten.
    std::string v6;
    for (uint64_t group = 0; group < 8; ++group) {
      v6 += fmt::format("{}{:x}", group == 0 ? "" : ":", 1 + word(5 + group) % 65535);
    }
    const auto parsed = parse_address(v6, static_cast<int>(port));
    REQUIRE(parsed);
    CHECK(parsed->host() == v6);
    CHECK(parsed->endpoint() == fmt::format("[{}]:{}", v6, port));
    CHECK(parsed->family() == AF_INET6);
  }
}

TEST_CASE("an address of the kernel is copied within the room there is", "[core]") {
  const SocketAddress plain = address("10.1.2.3");
  const SocketAddress copied = address_from(plain.get(), plain.bytes);
  CHECK(copied.host() == "10.1.2.3");
  CHECK(copied.bytes == sizeof(sockaddr_in));
  sockaddr_storage large{};
  large.ss_family = AF_INET;
  const auto too_many = static_cast<socklen_t>(sizeof(large) + 100);
  CHECK(address_from(reinterpret_cast<const sockaddr*>(&large), too_many).bytes == sizeof(large));
  CHECK(SocketAddress().host().empty());
}

TEST_CASE("an address is link-local only in IPv6, and mapped only there", "[core]") {
  CHECK_FALSE(address("169.254.1.1").is_link_local());
  CHECK_FALSE(address("10.0.0.1").is_mapped_v4());
  CHECK_FALSE(address("2001:db8::1").is_link_local());
  CHECK(address("febf::1").is_link_local());
  CHECK_FALSE(address("fec0::1").is_link_local());
  CHECK(address("239.255.255.255").is_group());
  CHECK_FALSE(address("240.0.0.1").is_group());
  CHECK_FALSE(address("128.0.0.1").is_loopback());
}
