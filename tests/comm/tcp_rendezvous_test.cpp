// Strangers at the door: what they get, and that the ranks meet all the same.
#include <poll.h>
#include <sys/socket.h>

#include "comm/tcp/address.h"
#include "comm/tcp/handshake.h"
#include "tests/support/catch.h"
#include "tests/support/tcp_ranks.h"

using namespace ds;
using ds::test::require;
using ds::test::TcpRanks;
using namespace std::chrono_literals;

namespace {

Fd connect_to(const std::string& endpoint) {
  const SocketAddress address = detail::parse_data_endpoint(endpoint);
  Fd socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(socket.get(), address.get(), address.bytes) == 0);
  return socket;
}

void say(const Fd& socket, std::span<const std::byte> bytes) {
  // A connection that was dropped meanwhile takes nothing, which is what the reader will see.
  (void)!send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

std::vector<std::byte> hear(const Fd& socket, size_t bytes) {
  std::vector<std::byte> heard(bytes);
  const ssize_t got = recv(socket.get(), heard.data(), bytes, MSG_WAITALL);
  heard.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return heard;
}

bool silent_for(const Fd& socket, std::chrono::milliseconds time) {
  pollfd watched{socket.get(), POLLIN, 0};
  return poll(&watched, 1, static_cast<int>(time.count())) == 0;
}

// Dropped without a word.
bool dropped(const Fd& socket) { return hear(socket, 1).empty(); }

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Rank 0, which waits for the others in a thread of its own.
class WaitingRank {
 public:
  explicit WaitingRank(TcpRanks& ranks, const TcpOptions& options = {})
      : thread_([this, &ranks, options] {
          try {
            ranks.open(0, options)->barrier();
          } catch (const std::exception& e) {
            error_ = e.what();
          }
        }) {}
  std::string error() {  // empty if all went well
    thread_.join();
    return error_;
  }

 private:
  std::string error_;
  std::jthread thread_;  // last: it uses the others
};

// Rank 0 of a world of two waits for the other while `visit` does as it likes; then rank 1 comes,
// and both must find each other.
template <class Visit>
void visit_before_rank_1(const Visit& visit, const TcpOptions& options = {}) {
  TcpRanks ranks(2);
  WaitingRank waiting(ranks, options);
  visit(ranks);
  ranks.open(1, options)->barrier();
  CHECK(waiting.error() == "");
}

detail::HandshakeParty party_of(const TcpRanks& ranks, int rank) {
  return {rank, ranks.world.size, ranks.world.epoch, ranks.world.secret};
}

// Joins as this rank by hand; what it said is the recording.
struct HandMade {
  Fd socket;
  std::vector<std::byte> hello, proof, welcome;
};

HandMade join_by_hand(const TcpRanks& ranks, int rank, int to) {
  HandMade hand{connect_to(ranks.world.endpoints[static_cast<size_t>(to)]), {}, {}, {}};
  auto handshake =
      detail::TcpHandshake::dial(party_of(ranks, rank), to, detail::random_challenge());
  hand.hello = handshake.take_output();
  say(hand.socket, hand.hello);
  handshake.feed(hear(hand.socket, handshake.wanted()));
  hand.proof = handshake.take_output();
  say(hand.socket, hand.proof);
  hand.welcome = hear(hand.socket, handshake.wanted());
  return hand;
}

}  // namespace

TEST_CASE("a port scanner hears nothing, and the group forms", "[comm]") {
  Fd scanner;
  visit_before_rank_1([&](const TcpRanks& ranks) {
    scanner = connect_to(ranks.world.endpoints[0]);
    CHECK(silent_for(scanner, 100ms));
  });
  CHECK(dropped(scanner));
}

TEST_CASE("who proves nothing is dropped when patience is over", "[comm]") {
  visit_before_rank_1(
      [&](const TcpRanks& ranks) {
        const Fd silent = connect_to(ranks.world.endpoints[0]);
        const Fd slow = connect_to(ranks.world.endpoints[0]);
        say(slow, bytes_of("dsda"));
        CHECK(dropped(silent));
        CHECK(dropped(slow));
      },
      {.patience = 50ms});
}

TEST_CASE("garbage is dropped at once without an answer", "[comm]") {
  visit_before_rank_1([&](const TcpRanks& ranks) {
    for (const std::string_view garbage :
         {"GET / HTTP/1.1\r\n\r\n", "dsdataXX", "\x16\x03\x01", "d\n"}) {
      const Fd visitor = connect_to(ranks.world.endpoints[0]);
      say(visitor, bytes_of(garbage));
      CHECK(dropped(visitor));
    }
    const Fd wordy = connect_to(ranks.world.endpoints[0]);
    say(wordy, std::vector<std::byte>(1 << 20));
    CHECK(dropped(wordy));
  });
}

TEST_CASE("many idle connections do not keep a rank out", "[comm]") {
  std::vector<Fd> idle;
  visit_before_rank_1([&](const TcpRanks& ranks) {
    for (int i = 0; i < 300; ++i) idle.push_back(connect_to(ranks.world.endpoints[0]));
  });
}

TEST_CASE("a wrong secret or epoch is kept out, and told so by its own timeout", "[comm]") {
  const auto try_as = [](TcpRanks ranks_copy, const std::string& own) {
    try {
      (void)open_tcp_group(TcpListener("127.0.0.1"), ranks_copy.of(1), {.timeout = 300ms});
    } catch (const CommError& e) {
      CHECK_THAT(e.what(), Catch::Contains("timed out waiting for rank 0") &&
                               Catch::Contains("it closed the connection"));
      return;
    }
    FAIL("got in with " + own);
  };
  visit_before_rank_1([&](const TcpRanks& ranks) {
    TcpRanks thief(0);
    thief.world = ranks.world;
    thief.world.secret = std::string(32, 'x');
    try_as(std::move(thief), "a wrong secret");
    TcpRanks late(0);
    late.world = ranks.world;
    late.world.epoch = 2;
    try_as(std::move(late), "a wrong epoch");
  });
}

TEST_CASE("a recorded session that is played back gets no welcome", "[comm]") {
  TcpRanks first(2);
  WaitingRank waiting(first, {.timeout = 200ms});
  const HandMade genuine = join_by_hand(first, 1, 0);
  CHECK(genuine.welcome.size() == 32);
  CHECK_THAT(waiting.error(),
             Catch::Contains("rank 1"));  // who joined by hand takes part in no barrier
  visit_before_rank_1([&](const TcpRanks& ranks) {
    const Fd replay = connect_to(ranks.world.endpoints[0]);
    say(replay, genuine.hello);
    CHECK(hear(replay, 64).size() == 64);  // a fresh challenge
    say(replay, genuine.proof);
    CHECK(dropped(replay));
  });
}

TEST_CASE("a rank that is claimed twice keeps its first claimant", "[comm]") {
  TcpRanks ranks(3);
  WaitingRank waiting(ranks, {.timeout = 500ms});
  const HandMade first = join_by_hand(ranks, 1, 0);
  CHECK(first.welcome.size() == 32);
  const HandMade second = join_by_hand(ranks, 1, 0);
  CHECK(second.welcome.empty());
  const std::string error = waiting.error();
  CHECK_THAT(error, Catch::Contains("timed out waiting for rank 2"));
  CHECK_THAT(error, !Catch::Contains("rank 1"));
}

TEST_CASE("a rank that sends no frames is an error that names it", "[comm]") {
  TcpRanks ranks(2);
  WaitingRank waiting(ranks);
  const HandMade broken = join_by_hand(ranks, 1, 0);
  say(broken.socket, std::vector<std::byte>(100));
  CHECK_THAT(waiting.error(), Catch::Contains("rank 1 died: it sent something that is no frame"));
}

TEST_CASE("ranks that do not come are named with what was tried", "[comm]") {
  TcpRanks ranks(3);
  ranks.listeners[0] = TcpListener();  // nobody listens there any more
  try {
    (void)ranks.open(1, {.timeout = 200ms});
    FAIL("a group without its peers");
  } catch (const CommError& e) {
    CHECK_THAT(e.what(), Catch::Contains("rank 0 at 127.0.0.1:") && Catch::Contains("refused") &&
                             Catch::Contains("rank 2 at 127.0.0.1:"));
  }
}

TEST_CASE("a world that is told nonsense is refused before anything is dialled", "[comm]") {
  TcpRanks ranks(2);
  const auto refused = [&](const auto& change) {
    TcpWorld world = ranks.of(0);
    change(world);
    CHECK_THROWS_AS(open_tcp_group(TcpListener("127.0.0.1"), world), Error);
  };
  refused([](TcpWorld& w) { w.rank = 2; });
  refused([](TcpWorld& w) { w.endpoints.pop_back(); });
  refused([](TcpWorld& w) { w.secret.pop_back(); });
  refused([](TcpWorld& w) { w.rank = 1, w.endpoints[0] = "somewhere:80"; });
  refused([](TcpWorld& w) { w.endpoints[1] = ""; });
  CHECK_THROWS_WITH(open_tcp_group({}, ranks.of(0)), Catch::Contains("does not listen"));
}
