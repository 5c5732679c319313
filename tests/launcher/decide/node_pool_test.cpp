// Which nodes the next world takes.
#include "launcher/decide/node_pool.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

NodePool::Options three_nodes() {
  return {.nodes = {{"a", {0, 1}}, {"b", {0, 1}}, {"c", {4, 5, 6}}},
          .spares = 0,
          .min_nodes = 0,
          .fits = nullptr};
}

std::string shown(const std::optional<std::vector<RankPlacement>>& world) {
  if (!world) return "none";
  std::string out;
  for (const RankPlacement& rank : *world) {
    out += fmt::format("{}:{} {}/{} ", rank.host, rank.slot, rank.local_rank, rank.local_size);
  }
  return out;
}

}  // namespace

TEST_CASE("ranks are numbered through nodes and slots", "[launcher]") {
  CHECK(shown(NodePool(three_nodes()).next_world()) ==
        "a:0 0/2 a:1 1/2 b:0 0/2 b:1 1/2 c:4 0/3 c:5 1/3 c:6 2/3 ");
}

TEST_CASE("spares wait until another node is lost", "[launcher]") {
  NodePool::Options options = three_nodes();
  options.spares = 1;
  options.fits = [](int) { return true; };
  NodePool pool(options);
  CHECK(shown(pool.next_world()) == "a:0 0/2 a:1 1/2 b:0 0/2 b:1 1/2 ");
  pool.lose("a");
  CHECK(shown(pool.next_world()) == "b:0 0/2 b:1 1/2 c:4 0/3 c:5 1/3 c:6 2/3 ");
}

TEST_CASE("without rules every world but the first is refused", "[launcher]") {
  NodePool pool(three_nodes());
  pool.lose("b");
  CHECK(shown(pool.next_world()) == "none");
  CHECK_THAT(pool.why_not(), Catch::Contains("2 of 3 nodes are left, at least 3"));
  pool.bring_back("b");
  CHECK(pool.next_world()->size() == 7);
}

TEST_CASE("the largest world that fits is taken", "[launcher]") {
  NodePool::Options options = three_nodes();
  options.min_nodes = 1;
  options.fits = [](int ranks) { return ranks == 4 || ranks == 2; };
  NodePool pool(options);
  CHECK(pool.next_world()->size() == 4);
  pool.lose("a");
  CHECK(shown(pool.next_world()) == "b:0 0/2 b:1 1/2 c:4 0/2 c:5 1/2 ");
  pool.lose("c");
  CHECK(pool.next_world()->size() == 2);
  options.fits = [](int ranks) { return ranks > 7; };
  CHECK(shown(NodePool(options).next_world()) == "none");
  CHECK_THAT(NodePool(options).why_not(), Catch::EndsWith("7 ranks that are left"));
  options.unit = 8;
  CHECK_THAT(NodePool(options).why_not(),
             Catch::EndsWith("multiple of the 8 ranks that work on one sample"));
}

TEST_CASE("spares and a minimum must leave something", "[launcher]") {
  NodePool::Options options = three_nodes();
  options.spares = 3;
  CHECK_THROWS_AS(NodePool(options), UsageError);
  options.spares = 0;
  options.min_nodes = 4;
  CHECK_THROWS_AS(NodePool(options), UsageError);
}

}  // namespace ds
