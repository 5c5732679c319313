// Names, layouts, consolidation and merging of DeepSpeed checkpoints.
#include "checkpoint/deepspeed/consolidate.h"
#include "checkpoint/deepspeed/names.h"
#include "checkpoint/deepspeed/reshape.h"
#include "checkpoint/deepspeed/state_tree.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds::deepspeed {
namespace {

using Names = std::vector<std::string>;

TEST_CASE("names are spelt as DeepSpeed spells them", "[checkpoint]") {
  CHECK(optimizer_states_name("t", 11, 1, HalfType::kBF16) ==
        "t/bf16_zero_pp_rank_11_mp_rank_01_optim_states.pt");
  CHECK(model_states_name("t", 101) == "t/mp_rank_101_model_states.pt");
  CHECK(partitioned_model_states_name("t", 3, 0) == "t/zero_pp_rank_3_mp_rank_00_model_states.pt");
  CHECK(expert_states_name(std::nullopt, -1, 4, 2) == "expert_4_mp_rank_02_model_states.pt");
  CHECK(model_states_name("", 1) == "mp_rank_01_model_states.pt");
  const RankGrid grid({"pipe", "data", "model"}, {2, 2, 4});
  CHECK(layer_states_name(grid, 12, 0) == "layer_00-model_00-model_states.pt");
  CHECK(layer_states_name(RankGrid({"pipe", "data"}, {2, 2}), 1, 100) ==
        "layer_100-model_states.pt");
  CHECK(module_prefix("t", grid, 12) == "t/module-pipe_01-model_00");
}

TEST_CASE("digits sort as numbers of any length", "[checkpoint]") {
  Names names = {
      "x10", "x9", "x", "10", "9a", "x99999999999999999999999", "x99999999999999999999998",
      "x09", ""};
  natural_sort(names);
  CHECK(names == Names{"", "9a", "10", "x", "x9", "x09", "x10", "x99999999999999999999998",
                       "x99999999999999999999999"});
}

TEST_CASE("ZeRO files are those of the first prefix, by their ranks", "[checkpoint]") {
  const Names names = {"bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
                       "zero_pp_rank_10_mp_rank_00_optim_states.pt",
                       "zero_pp_rank_9_mp_rank_01_optim_states.pt", "latest"};
  CHECK(zero_files(names) == Names{"zero_pp_rank_9_mp_rank_01_optim_states.pt",
                                   "zero_pp_rank_10_mp_rank_00_optim_states.pt"});
  CHECK(zero_files(Names{"latest"}).empty());
  CHECK_THROWS_AS(zero_files(Names{"zero_pp_rank_x"}), DataError);
  CHECK_THROWS_AS(zero_files(Names{"zero_pp_rank_99999999999999999999_mp_rank_00"}), DataError);
}

TEST_CASE("a folder's names tell its layout", "[checkpoint]") {
  const Names names = {"mp_rank_00_model_states.pt",
                       "mp_rank_01_model_states.pt",
                       "layer_01-model_00-model_states.pt",
                       "zero_pp_rank_0_mp_rank_00_optim_states.pt",
                       "zero_pp_rank_0_mp_rank_01_optim_states.pt",
                       "zero_pp_rank_1_mp_rank_00_optim_states.pt",
                       "zero_pp_rank_1_mp_rank_01_optim_states.pt"};
  CHECK(layout_from_names(names) == Layout{.pipe = 2, .tensor = 1, .data = 2});
  CHECK_THROWS_AS(layout_from_names(Names{"latest"}), DataError);
  CHECK_THROWS_AS(layout_from_names(Names{"layer_01-model_states.pt"}), DataError);
}

TEST_CASE("a smaller layout reads every source file once", "[checkpoint]") {
  const auto maps = reshape_all_ranks({2, 2, 2}, {1, 2, 1});
  CHECK(maps.at(0).at(0, 0) == std::vector<int64_t>{0, 4, 2, 6});
  CHECK(maps.at(0).at(0, 1) == std::vector<int64_t>{1, 5, 3, 7});
  CHECK_THROWS_AS(reshape_all_ranks({2, 2, 2}, {4, 1, 1}), Unsupported);
  CHECK_THROWS_AS(reshape_all_ranks({2, 4, 2}, {2, 3, 2}), Unsupported);
  CHECK_THROWS_AS(reshape_all_ranks({2, 1, 4}, {2, 1, 3}), Unsupported);
  CHECK_THROWS_AS(reshape_all_ranks({2, 1, 4}, {2, 0, 4}), ConfigError);
}

TEST_CASE("Megatron's groups", "[checkpoint]") {
  const auto groups = model_parallel_groups({.pipe = 1, .tensor = 2, .data = 2});
  CHECK(groups.tensor == std::vector<std::vector<int64_t>>{{0, 1}, {2, 3}});
  CHECK(groups.pipe == std::vector<std::vector<int64_t>>{{0, 1}, {2, 3}});
  CHECK(groups.data == std::vector<std::vector<int64_t>>{{0, 2}, {1, 3}});
}

TEST_CASE("weights of stages 1 and 2 lie one after the other", "[checkpoint]") {
  const ParamGroups groups = {{{"a", {3}}, {"b", {1, 2}}}};
  const std::vector<RankPartitions> ranks = {{{1, 2, 3, 4}}, {{5, 0, 0, 0}}};
  const auto tensors = consolidate_flat(groups, ranks);
  CHECK(tensors.at(1).values == std::vector<float>{4, 5});
  const std::vector<RankPartitions> few = {{{1, 2}}, {{3, 4}}};
  CHECK_THROWS_AS(consolidate_flat(groups, few), DataError);
  const std::vector<RankPartitions> many = {{{1, 2, 3, 4, 5, 6, 7}}, {{1, 2, 3, 4, 5, 6, 7}}};
  CHECK_THROWS_AS(consolidate_flat(groups, many), DataError);
  CHECK_THROWS_AS(consolidate_flat({{{"a", {-1}}}}, ranks), DataError);
  CHECK_THROWS_AS(consolidate_flat({{}, {}}, ranks), DataError);
  CHECK_THROWS_AS(consolidate_flat(groups, {}), DataError);
}

TEST_CASE("weights of stage 3 are zipped per parameter", "[checkpoint]") {
  const ParamGroups groups = {{{"a", {3}}}, {{"b", {4}}}};
  const std::vector<RankPartitions> ranks = {{{1, 2}, {4, 5}}, {{3, 0}, {6, 7}}};
  const auto tensors = consolidate_partitioned(groups, ranks);
  CHECK(tensors.at(0).values == std::vector<float>{1, 2, 3});
  CHECK(tensors.at(1).values == std::vector<float>{4, 5, 6, 7});
  const std::vector<RankPartitions> short_rank = {{{1, 2}, {4, 5}}, {{3}, {6, 7}}};
  CHECK_THROWS_AS(consolidate_partitioned(groups, short_rank), DataError);
}

TEST_CASE("merging joins tensors and refuses what does not match", "[checkpoint]") {
  const StateTree a{StateMap{{"w", {StateTensor{1}}}, {"n", {int64_t{5}}}, {"only_a", {true}}}};
  const StateTree b{StateMap{{"w", {StateTensor{2}}}, {"n", {int64_t{6}}}, {"only_b", {false}}}};
  const StateTree merged = merge_states(a, b);
  const auto& map = std::get<StateMap>(merged.value);
  REQUIRE(map.size() == 3);
  CHECK(std::get<StateTensor>(map[0].second.value) == StateTensor{1, 2});
  CHECK(std::get<int64_t>(map[1].second.value) == 5);
  CHECK(map[2].first == "only_b");
  CHECK_THROWS_AS(merge_states({int64_t{1}}, {1.5}), DataError);
  CHECK_THROWS_WITH(
      merge_states({StateMap{{"l", {StateList{{true}}}}}}, {StateMap{{"l", {StateList{}}}}}),
      Catch::Contains(".l is a list"));
}

}  // namespace
}  // namespace ds::deepspeed
