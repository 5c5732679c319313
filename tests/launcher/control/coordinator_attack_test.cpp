// What strangers may send: each is turned away within bounds, and a good rank still gets in.
#include "tests/launcher/raw_tls.h"
#include "tests/launcher/tls_plane.h"

namespace ds {
namespace {

Coordinator::Options listening(const JobAuthority& authority, const std::string& address,
                               int port = 0) {
  Coordinator::Options options;
  options.addresses = {address};
  options.port = port;
  options.authority = &authority;
  return options;
}

}  // namespace

TEST_CASE("only the literal address of one interface is listened on", "[launcher][security]") {
  const JobAuthority authority(JobAuthority::WallClock::now());
  for (const char* address :
       {"0.0.0.0", "::", "*", "", "localhost", "127.1", "2130706433", "127.0.0.1:80", "[::1]",
        "::ffff:127.0.0.1", "::ffff:0.0.0.0", "fe80::1", "fe80::1%lo", "127.0.0.1 "}) {
    INFO(address);
    CHECK_THROWS_AS(Coordinator(listening(authority, address)), UsageError);
  }
  CHECK_THROWS_AS(Coordinator(listening(authority, "127.0.0.1", 65536)), UsageError);
  CHECK_THROWS_AS(Coordinator(listening(authority, "127.0.0.1", -1)), UsageError);
  CHECK_THROWS_WITH(Coordinator(listening(authority, "192.0.2.1")),
                    Catch::Contains("no interface of this machine"));
  const Coordinator local(Coordinator::Options{});
  CHECK(local.endpoints().empty());
}

TEST_CASE("a port that is taken is said with its holder", "[launcher]") {
  const JobAuthority authority(JobAuthority::WallClock::now());
  const Coordinator first(listening(authority, "127.0.0.1"));
  const int port = port_of(first.endpoints().front());
  CHECK_THROWS_WITH(Coordinator(listening(authority, "127.0.0.1", port)),
                    Catch::Contains("taken by pid " + std::to_string(getpid())));
}

TEST_CASE("one coordinator may listen on several addresses", "[launcher][security]") {
  const JobAuthority authority(JobAuthority::WallClock::now());
  Coordinator::Options options = listening(authority, "127.0.0.1");
  options.addresses.push_back("::1");
  const Coordinator coordinator(options);
  REQUIRE(coordinator.endpoints().size() == 2);
  CHECK(coordinator.endpoints()[0].starts_with("127.0.0.1:"));
  CHECK(coordinator.endpoints()[1].starts_with("[::1]:"));
}

TEST_CASE("TLS below 1.3, no certificate, an expired one: not let in", "[launcher][security]") {
  TlsPlane plane;
  const int port = port_of(plane.endpoint());
  const TlsIdentity good = plane.authority().certify_rank(TlsPlane::kEpoch, 0);
  CHECK(RawTls(port, good.certificate, good.private_key).is_let_in());
  CHECK_FALSE(RawTls(port, good.certificate, good.private_key, TLS1_2_VERSION).is_let_in());
  CHECK_FALSE(RawTls(port, "", "").is_let_in());
  plane.check_open(0);

  const JobAuthority old(JobAuthority::WallClock::now() - std::chrono::hours(72),
                         std::chrono::hours(1));
  const Coordinator coordinator(listening(old, "127.0.0.1"));
  const TlsIdentity expired = old.certify_rank(1, 0);
  CHECK_FALSE(
      RawTls(port_of(coordinator.endpoints().front()), expired.certificate, expired.private_key)
          .is_let_in());
}

TEST_CASE("noise is not answered in clear", "[launcher][security]") {
  TlsPlane plane;
  const int port = port_of(plane.endpoint());
  const std::string noise = "GET / HTTP/1.1\r\n\r\n" + std::string(4000, '\xa5');
  for (const std::string& bytes : {noise, RawTls::greeting(), std::string(1, '\x16')}) {
    const Fd connection = dial(port);
    send(connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    shutdown(connection.get(), SHUT_WR);
    CHECK(is_closed(connection.get()));
  }
  plane.check_open(0);
}

TEST_CASE("noise inside TLS ends that connection alone", "[launcher][security]") {
  TlsPlane plane(2, "127.0.0.1",
                 {.proof_deadline = std::chrono::seconds(1), .max_stranger_failures = 1000});
  const TlsIdentity identity = plane.authority().certify_rank(TlsPlane::kEpoch, 1);
  const int port = port_of(plane.endpoint());
  const std::string join = RawTls::call("/ds.control.Control/Join");
  const std::string huge_metadata = [] {
    std::string more;
    for (int i = 0; i < 400; ++i) {
      more += RawTls::header("x-fill", std::string(100, 'x'));
    }
    return RawTls::call("/ds.control.Control/Join", more);
  }();
  for (const std::string& bytes :
       {std::string(100, '\xa5'), RawTls::frame(0xff, 0xff, 0x7fffffff, "?"),
        RawTls::frame(1, 4, 1, std::string(50, '\xff')), huge_metadata}) {
    RawTls peer(port, identity.certificate, identity.private_key);
    peer.send(RawTls::greeting() + bytes);
    peer.read_until("no such text, read until the end");
    CHECK(peer.ended());
  }
  {
    // gRPC waits for the 4 GiB that the length speaks of, until the time of the connection is over.
    RawTls peer(port, identity.certificate, identity.private_key);
    peer.send(RawTls::greeting() + join +
              RawTls::frame(0, 0, 1,
                            std::string("\0\xff\xff\xff\xff"
                                        "abc",
                                        8)));
    peer.read_until("no such text, read until the end");
    CHECK(peer.ended());
  }
  {
    RawTls peer(port, identity.certificate, identity.private_key);
    peer.send(RawTls::greeting() + RawTls::call("/ds.control.Control/Shutdown") +
              RawTls::frame(0, 1, 1, std::string(5, '\0')));
    peer.read_until("grpc-status");
    CHECK_FALSE(peer.ended());
  }
  CHECK(plane.coordinator().take_events().empty());
  plane.check_open(0);
}

TEST_CASE("who says nothing is cut", "[launcher][security]") {
  TlsPlane plane(2, "127.0.0.1", {.proof_deadline = std::chrono::milliseconds(300)});
  const int port = port_of(plane.endpoint());
  const Fd silent = dial(port);
  CHECK(is_closed(silent.get()));
  const Fd slow = dial(port);
  const std::string hello = "\x16\x03\x01\x02";  // the start of a TLS hello, a byte at a time
  for (size_t i = 0; send(slow.get(), &hello[i % hello.size()], 1, MSG_NOSIGNAL) == 1; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  CHECK(is_closed(slow.get()));
  const TlsIdentity identity = plane.authority().certify_rank(TlsPlane::kEpoch, 1);
  RawTls certified(port, identity.certificate, identity.private_key);
  certified.send(RawTls::greeting());
  certified.read_until("no such text, read until the end");  // never joins
  CHECK(certified.ended());
  plane.check_open(0);
}

TEST_CASE("many strangers do not keep a rank out", "[launcher][security]") {
  TlsPlane plane;
  const int port = port_of(plane.endpoint());
  std::vector<Fd> strangers;
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(dial(port));
  }
  plane.check_open(0);
  CHECK(plane.coordinator().strangers_turned_away() > 0);
  CHECK(is_closed(strangers.front().get()));
}

}  // namespace ds
