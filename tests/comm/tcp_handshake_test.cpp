#include <cstring>

#include "comm/tcp/address.h"
#include "comm/tcp/comm.h"
#include "comm/tcp/handshake.h"
#include "comm/tcp/link.h"
#include "tests/support/catch.h"

using namespace ds;
using namespace ds::detail;
using State = TcpHandshake::State;
using Bytes = std::vector<std::byte>;

namespace {

HandshakeParty party(int rank) { return {rank, 4, 7, std::string(32, 's')}; }

ProofBytes challenge(unsigned char fill) {
  ProofBytes bytes{};
  bytes.fill(std::byte{fill});
  return bytes;
}

Bytes one_of(char message) { return {static_cast<std::byte>(message)}; }

// What a genuine dialler says to a genuine acceptor.
struct Recording {
  Bytes hello, proof;
};

Recording record(const HandshakeParty& dialler, const HandshakeParty& acceptor) {
  TcpHandshake dial = TcpHandshake::dial(dialler, acceptor.rank, challenge(1));
  TcpHandshake accept = TcpHandshake::accept(acceptor, challenge(2));
  Recording recording;
  recording.hello = dial.take_output();
  accept.feed(recording.hello);
  dial.feed(accept.take_output());
  recording.proof = dial.take_output();
  return recording;
}

void check_refused(const TcpHandshake& handshake, const std::string& why) {
  CHECK(handshake.state() == State::kRefused);
  CHECK_THAT(handshake.reason(), Catch::Contains(why));
  CHECK(handshake.wanted() == 0);
}

// A dialler of these properties is refused by rank 1 without an answer.
void check_hello_refused(const HandshakeParty& dialler, int to, const std::string& why) {
  TcpHandshake dial = TcpHandshake::dial(dialler, to, challenge(1));
  TcpHandshake accept = TcpHandshake::accept(party(1), challenge(2));
  accept.feed(dial.take_output());
  check_refused(accept, why);
  CHECK(accept.take_output().empty());
}

}  // namespace

TEST_CASE("two ranks with the same secret welcome each other, byte by byte", "[comm]") {
  TcpHandshake dial = TcpHandshake::dial(party(3), 1, challenge(1));
  TcpHandshake accept = TcpHandshake::accept(party(1), challenge(2));
  CHECK(accept.take_output().empty());
  const auto carry = [](TcpHandshake& from, TcpHandshake& to) {
    for (const std::byte byte : from.take_output()) {
      REQUIRE(to.wanted() > 0);
      to.feed({&byte, 1});
    }
  };
  carry(dial, accept);
  carry(accept, dial);
  carry(dial, accept);
  REQUIRE(accept.state() == State::kProven);
  CHECK(accept.peer() == 3);
  CHECK(dial.state() == State::kTalking);
  accept.welcome();
  carry(accept, dial);
  CHECK(dial.state() == State::kWelcome);
  CHECK(accept.state() == State::kWelcome);
}

TEST_CASE("an acceptor says nothing to who does not prove itself", "[comm]") {
  HandshakeParty stranger = party(3);
  stranger.secret = std::string(32, 'x');
  check_hello_refused(stranger, 1, "does not know the secret");
  HandshakeParty old = party(3);
  old.epoch = 6;
  check_hello_refused(old, 1, "it is of generation 6, this is generation 7");
  HandshakeParty other_world = party(3);
  other_world.size = 5;
  check_hello_refused(other_world, 1, "rank 3 of 5");
  check_hello_refused(party(3), 2, "for rank 2; this is rank 1");
  check_hello_refused(party(0), 1, "rank 0 of 4");  // it should have been dialled
  check_hello_refused(party(1), 1, "rank 1 of 4");
  HandshakeParty outside = party(1'000'000);
  check_hello_refused(outside, 1, "rank 1000000");
}

TEST_CASE("an acceptor refuses at the first byte that cannot begin a hello", "[comm]") {
  TcpHandshake accept = TcpHandshake::accept(party(1), challenge(2));
  accept.feed(one_of('d'));
  CHECK(accept.state() == State::kTalking);
  accept.feed(one_of('G'));
  check_refused(accept, "does not speak this protocol");
  CHECK(accept.take_output().empty());
}

TEST_CASE("a hello of another byte order is refused", "[comm]") {
  Bytes hello = TcpHandshake::dial(party(3), 1, challenge(1)).take_output();
  std::swap(hello[8], hello[11]);
  std::swap(hello[9], hello[10]);
  TcpHandshake accept = TcpHandshake::accept(party(1), challenge(2));
  accept.feed({hello.data(), 12});
  check_refused(accept, "byte order");
}

TEST_CASE("every byte of a hello is covered by its proof", "[comm]") {
  const Bytes hello = TcpHandshake::dial(party(3), 1, challenge(1)).take_output();
  for (size_t at = 0; at < hello.size(); ++at) {
    Bytes changed = hello;
    changed[at] ^= std::byte{1};
    TcpHandshake accept = TcpHandshake::accept(party(1), challenge(2));
    accept.feed(changed);
    CHECK(accept.state() == State::kRefused);
    CHECK(accept.take_output().empty());
  }
}

TEST_CASE("a recorded session played back is refused at the fresh challenge", "[comm]") {
  const Recording recording = record(party(3), party(1));
  TcpHandshake accept = TcpHandshake::accept(party(1), challenge(9));
  accept.feed(recording.hello);
  REQUIRE(accept.state() == State::kTalking);
  accept.feed(recording.proof);
  check_refused(accept, "plays back a recording");
  // In another epoch not even the hello is heard.
  HandshakeParty next = party(1);
  next.epoch = 8;
  next.secret = std::string(32, 't');
  TcpHandshake later = TcpHandshake::accept(next, challenge(9));
  later.feed(recording.hello);
  check_refused(later, "secret");
}

TEST_CASE("a dialler refuses who answers without the secret, or with its own words", "[comm]") {
  TcpHandshake dial = TcpHandshake::dial(party(3), 1, challenge(1));
  const Bytes hello = dial.take_output();
  dial.feed(Bytes(64));
  check_refused(dial, "secret");
  CHECK(dial.take_output().empty());
  TcpHandshake mirrored = TcpHandshake::dial(party(3), 1, challenge(1));
  // Its own challenge and its own proof, as a mirror would send them.
  mirrored.feed(std::span(hello).subspan(32, 64));
  check_refused(mirrored, "secret");
}

TEST_CASE("the proof of one step is not good for another", "[comm]") {
  TcpHandshake dial = TcpHandshake::dial(party(3), 1, challenge(1));
  TcpHandshake accept = TcpHandshake::accept(party(1), challenge(2));
  accept.feed(dial.take_output());
  const Bytes answer = accept.take_output();
  accept.feed(std::span(answer).subspan(32));
  check_refused(accept, "secret");
  TcpHandshake welcomed = TcpHandshake::dial(party(3), 1, challenge(1));
  welcomed.feed(answer);
  const Bytes spoken = welcomed.take_output();  // the hello and the proof
  const Bytes proof(spoken.end() - 32, spoken.end());
  REQUIRE(spoken.size() == 128);
  welcomed.feed(proof);
  check_refused(welcomed, "not genuine");
}

TEST_CASE("only literal addresses of one interface are listened on", "[comm]") {
  for (const char* address :
       {"0.0.0.0", "::", "::ffff:0.0.0.0", "255.255.255.255", "224.0.0.1", "ff02::1", "localhost",
        "", "127.0.0.1:80", "127.1", "[::1]", "127.0.0.1 "}) {
    CAPTURE(address);
    CHECK_THROWS_AS(TcpListener(address), ConfigError);
  }
  CHECK_THROWS_WITH(TcpListener("192.0.2.1"), Catch::Contains("is it an address of this host?"));
  const TcpListener listener("127.0.0.1");
  CHECK_THAT(listener.endpoint(), Catch::StartsWith("127.0.0.1:"));
  CHECK(listener.listening());
  CHECK(!TcpListener().listening());
}

TEST_CASE("endpoints are read strictly", "[comm]") {
  for (const char* good : {"10.0.0.1:4711", "[fd00::1]:65535"}) {
    CHECK(parse_data_endpoint(good).endpoint() == good);
  }
  for (const char* bad :
       {"", ":", "10.0.0.1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:1x", "host:1",
        "fd00::1:80", "[10.0.0.1]:80", "[fd00::1]", "[]:1", "10.0.0.1:-1"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_data_endpoint(bad), CommError);
  }
}

TEST_CASE("a frame that cannot be one is told from one", "[comm]") {
  Frame frame;
  frame.bytes = 100;
  CHECK(frame_error(frame) == "");
  const auto broken = [&](const auto& change) {
    Frame changed = frame;
    change(changed);
    return !frame_error(changed).empty();
  };
  CHECK(broken([](Frame& f) { f.magic = 1; }));
  CHECK(broken([](Frame& f) { f.zero = 1; }));
  CHECK(broken([](Frame& f) { f.kind = static_cast<FrameKind>(0); }));
  CHECK(broken([](Frame& f) { f.kind = static_cast<FrameKind>(99); }));
  CHECK(broken([](Frame& f) { f.bytes = uint64_t{1} << 63; }));
  CHECK(broken([](Frame& f) { f.kind = FrameKind::kTaken; }));
  CHECK(broken([](Frame& f) { f.kind = FrameKind::kFailed, f.bytes = 1 << 20; }));
  CHECK(broken([](Frame& f) { f.kind = FrameKind::kMessage; }));
  CHECK(broken([](Frame& f) { f.kind = FrameKind::kMessage, f.numel = -1; }));
  CHECK(broken([](Frame& f) {
    f.kind = FrameKind::kMessage, f.dtype = static_cast<DType>(200), f.numel = 25;
  }));
  CHECK(broken([](Frame& f) {
    // The product is 100 only modulo 2^64.
    f.kind = FrameKind::kMessage, f.dtype = DType::kF32, f.numel = (int64_t{1} << 62) + 25;
  }));
  CHECK(
      !broken([](Frame& f) { f.kind = FrameKind::kMessage, f.dtype = DType::kF32, f.numel = 25; }));
}
