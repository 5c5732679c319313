// Rank grids: coordinates, groups, labels and what is refused.
#include "checkpoint/deepspeed/rank_grid.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

const RankGrid kGrid({"pipe", "data", "model"}, {2, 2, 2});

TEST_CASE("the first axis varies slowest", "[comm]") {
  CHECK(kGrid.coordinates(5) == std::vector<int>{1, 0, 1});
  CHECK(kGrid.rank({{"pipe", 1}, {"data", 0}, {"model", 1}}) == 5);
  CHECK(kGrid.size("data") == 2);
  CHECK(kGrid.size("nothing") == 0);
}

TEST_CASE("groups differ in one axis only", "[comm]") {
  CHECK(kGrid.groups("data") == std::vector<RankList>{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(kGrid.groups("nothing").empty());
  CHECK(kGrid.group_of(6, "pipe") == RankList{2, 6});
}

TEST_CASE("ranks are found by any subset of coordinates", "[comm]") {
  CHECK(kGrid.matching({{"pipe", 0}, {"data", 1}}) == RankList{2, 3});
  CHECK(kGrid.matching({{"data", 9}}).empty());
  CHECK(kGrid.matching({}).size() == 8);
  CHECK_THROWS_AS(kGrid.matching({{"nothing", 0}}), ConfigError);
}

TEST_CASE("a label leaves out what all ranks of a file share", "[comm]") {
  const std::string omit[] = {"data", "pipe"};
  CHECK(kGrid.label(3, omit) == "model_01");
  CHECK(RankGrid({"a", "b"}, {2, 2}).label(3, {}, ":", ",") == "a:01,b:01");
}

TEST_CASE("prime factors go in turn to pipe and data", "[comm]") {
  CHECK(prime_factors(24) == std::vector<int>{2, 2, 2, 3});
  CHECK(prime_factors(1).empty());
  CHECK(prime_factors(2147483647) == std::vector<int>{2147483647});
  CHECK_THROWS_AS(prime_factors(0), ConfigError);
  CHECK(default_pipeline_grid(24).size("pipe") == 4);
  CHECK(default_pipeline_grid(24).size("data") == 6);
}

TEST_CASE("the last stage's next is the first", "[comm]") {
  CHECK(next_stage_pairs(RankGrid({"pipe", "data"}, {2, 2})) ==
        std::vector<RankList>{{0, 2}, {1, 3}, {2, 0}, {3, 1}});
  CHECK(kGrid.moved(1, {{"pipe", 1}, {"data", 1}}) == 7);
}

TEST_CASE("coordinates that do not fit the grid are refused", "[comm]") {
  CHECK_THROWS_AS(kGrid.rank({{"pipe", 2}, {"data", 0}, {"model", 0}}), ConfigError);
  CHECK_THROWS_AS(kGrid.rank({{"pipe", 1}, {"data", 0}}), ConfigError);
  CHECK_THROWS_AS(kGrid.rank({{"pipe", 1}, {"data", 0}, {"zz", 0}}), ConfigError);
  CHECK_THROWS_AS(kGrid.coordinates(8), ConfigError);
  CHECK_THROWS_AS(RankGrid({"a", "a"}, {2, 2}), ConfigError);
  CHECK_THROWS_AS(RankGrid({"a"}, {0}), ConfigError);
  CHECK_THROWS_AS(RankGrid({"a"}, {1, 2}), ConfigError);
  CHECK_THROWS_AS(RankGrid({"a", "b"}, {65536, 65536}), ConfigError);
}

}  // namespace
}  // namespace ds
