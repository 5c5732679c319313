// What ranks tell each other over the host end: values, lists, files, and that all of them take the
// same way when one of them fails.
#include "comm/contract/host_exchange.h"

#include <mutex>
#include <set>

#include "comm/meta_comm.h"
#include "comm/traced_comm.h"
#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

using namespace ds;
using namespace ds::test;

namespace {

std::vector<std::byte> bytes_of(int rank, size_t count) {
  std::vector<std::byte> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<std::byte>(i * 7 + to_size(rank));
  return out;
}

void run_exchange(int ranks, const std::function<void(HostExchange&)>& body) {
  run_ranks(ranks, [&](Communicator& comm) {
    HostExchange exchange(comm);
    body(exchange);
  });
}

}  // namespace

TEST_CASE("values of all ranks are gathered in rank order", "[comm]") {
  struct Figures {
    double loss;
    int64_t flags;
    bool operator==(const Figures&) const = default;
  };
  const int ranks = GENERATE(1, 2, 4);
  run_exchange(ranks, [&](HostExchange& exchange) {
    const int rank = exchange.rank();
    require(exchange.size() == ranks, "{} ranks", exchange.size());
    const auto all = exchange.gather(std::vector{Figures{0.1 * rank, rank}, Figures{-1.5, 7}});
    require(all.size() == 2 * to_size(ranks), "{} values", all.size());
    for (int of = 0; of < ranks; ++of) {
      require(nth(all, 2 * of) == Figures{0.1 * of, of}, "the first of rank {}", of);
      require(nth(all, 2 * of + 1) == Figures{-1.5, 7}, "the second of rank {}", of);
    }
    // More than fits into the small messages of any transport.
    const std::vector<int64_t> long_one(3000, rank);
    const auto long_ones = exchange.gather(long_one);
    for (size_t i = 0; i < long_ones.size(); ++i) {
      require(long_ones[i] == static_cast<int64_t>(i / 3000), "element {}", i);
    }
  });
}

TEST_CASE("nothing of nobody is no call", "[comm]") {
  CommVolume volume;
  TracedComm nobody(std::make_unique<MetaComm>(1, 3), "host", {&volume, nullptr});
  HostExchange exchange(nobody);
  CHECK(exchange.gather(std::vector<int>{}).empty());
  CHECK(volume.totals().empty());
  // Absent ranks give zeros, which a dry run can add up.
  CHECK(exchange.gather(std::vector{4}) == std::vector{0, 0, 0});
  CHECK(volume.totals().at("host").at("all_gather").calls == 1);
}

TEST_CASE("lists of different lengths are gathered by rank", "[comm]") {
  run_exchange(4, [](HostExchange& exchange) {
    const std::vector<int64_t> mine(to_size(exchange.rank()), 10 * exchange.rank());
    const auto all = exchange.gather_lists(mine);
    require(all.size() == 4, "{} lists", all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      require(all[i] == std::vector<int64_t>(i, static_cast<int64_t>(10 * i)), "list {}", i);
    }
    const auto none = exchange.gather_lists(std::vector<int64_t>{});
    require(none == std::vector<std::vector<int64_t>>(4), "lists out of nothing");
    // One rank has something, and it is not the first.
    const auto one =
        exchange.gather_lists(exchange.rank() == 2 ? std::vector{'x', 'y'} : std::vector<char>{});
    require(one == std::vector<std::vector<char>>{{}, {}, {'x', 'y'}, {}}, "a list of one rank");
  });
}

TEST_CASE("ranks that gather different numbers of values are told so", "[comm]") {
  run_exchange(2, [](HostExchange& exchange) {
    const std::vector<int> mine(to_size(exchange.rank() + 1), 5);
    const std::string error =
        comm_error_of(std::chrono::seconds(10), [&] { exchange.gather(mine); });
    require(error.find("uint8 x 8") != std::string::npos, "{}", error);
    require(error.find("uint8 x 16") != std::string::npos, "{}", error);
  });
}

TEST_CASE("a rank that is gone is an error and no list without it", "[comm]") {
  auto group = make_thread_group(2);
  HostExchange exchange(*group[0]);
  group[1].reset();
  CHECK_THROWS_AS(exchange.gather_lists(std::vector{1}), CommError);
}

TEST_CASE("files travel between two ranks, and from one to all", "[comm]") {
  run_exchange(3, [](HostExchange& exchange) {
    const int rank = exchange.rank();
    constexpr size_t kBytes = 100'001;
    if (rank == 0) exchange.send(bytes_of(0, kBytes), 2);
    if (rank == 2) {
      std::vector<std::byte> taken(kBytes);
      exchange.receive(taken, 0);
      require(taken == bytes_of(0, kBytes), "what was sent is something else");
    }
    std::vector<std::byte> known = rank == 1 ? bytes_of(1, kBytes) : std::vector<std::byte>(kBytes);
    exchange.broadcast(known, 1);
    require(known == bytes_of(1, kBytes), "what was told to all is something else");
    exchange.barrier();
  });
}

TEST_CASE("a receiver that expects another size refuses", "[comm]") {
  auto group = make_thread_group(2);
  HostExchange from(*group[0]), to(*group[1]);
  from.send(bytes_of(0, 3), 1);
  std::vector<std::byte> taken(4);
  CHECK_THROWS_WITH(to.receive(taken, 0), Catch::Contains("x 3") && Catch::Contains("x 4"));
}

TEST_CASE("when one rank fails all of them stop, the others as peers", "[comm]") {
  std::mutex mutex;
  std::set<int> peers, failed;
  run_exchange(3, [&](HostExchange& exchange) {
    const std::string error = exchange.rank() == 1 ? "no space" : "";
    try {
      exchange.agree_on_success("save", error);
      throw InternalError("nobody noticed");
    } catch (const PeerIoError& failure) {
      require(std::string(failure.what()).starts_with("save: rank 1 on "), "{}", failure.what());
      const std::lock_guard lock(mutex);
      peers.insert(exchange.rank());
    } catch (const IoError& failure) {
      require(std::string(failure.what()).ends_with(": no space"), "{}", failure.what());
      const std::lock_guard lock(mutex);
      failed.insert(exchange.rank());
    }
    // It is an agreement and no end: they may go on together.
    exchange.agree_on_success("save again", "");
  });
  CHECK(peers == std::set<int>{0, 2});
  CHECK(failed == std::set<int>{1});
}

TEST_CASE("of several failures the lowest rank's is told, also to those that failed", "[comm]") {
  run_exchange(3, [](HostExchange& exchange) {
    const std::string error = exchange.rank() > 0 ? fmt::format("why {}", exchange.rank()) : "";
    try {
      exchange.agree_on_success("save", error);
    } catch (const IoError& failure) {
      require(std::string(failure.what()).ends_with(": why 1"), "{}", failure.what());
      return;
    }
    throw InternalError("nobody noticed");
  });
}

TEST_CASE("words that are too long are cut, and never run into what lies behind them", "[comm]") {
  WireFailure failure;
  failure.set(std::string(5000, 'x'));
  CHECK_THAT(in_words(3, failure), Catch::StartsWith("rank 3 on "));
  CHECK_THAT(in_words(3, failure), Catch::EndsWith(": " + std::string(399, 'x')));
  std::array<char, 4> text{'o', 'l', 'd', '!'};
  put_text(text, "a");
  CHECK(std::string(text.begin(), text.end()) == std::string("a\0\0\0", 4));
}

TEST_CASE("what goes wrong in a part of one's own is told in words", "[comm]") {
  CHECK(failure_of([] {}).empty());
  CHECK(failure_of([] { throw DataError("is odd"); }) == "is odd");
  CHECK_THROWS_AS(failure_of([] { throw std::logic_error("not ours"); }), std::logic_error);
}

TEST_CASE("the ledger says what a call of the host end was for", "[comm]") {
  ManualClock clock;
  Ledger ledger(8, clock);
  TracedComm traced(std::make_unique<MetaComm>(0, 2), "host", {nullptr, &ledger});
  HostExchange exchange(traced);
  exchange.agree_on_success("checkpoints", "");
  CHECK(ledger.current()->label == "checkpoints");
  {
    const Span span = exchange.labelled("sums of the step");
    exchange.gather(std::vector{1.0});
  }
  CHECK(ledger.current()->label == "sums of the step");
  exchange.gather(std::vector{1.0});
  CHECK(ledger.current()->label.empty());
  CHECK(ledger.current()->group == "host");
}
