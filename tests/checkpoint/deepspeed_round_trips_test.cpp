// DeepSpeed's files there and back: parameters of random shapes are partitioned by the rules of
// each stage and consolidated again, names are written and their layout read from them, and smaller
// layouts read every source file exactly once.
#include <numeric>
#include <random>
#include <set>

#include "checkpoint/deepspeed/consolidate.h"
#include "checkpoint/deepspeed/names.h"
#include "checkpoint/deepspeed/partition.h"
#include "checkpoint/deepspeed/reshape.h"
#include "checkpoint/deepspeed/state_tree.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds::deepspeed {
namespace {

using Names = std::vector<std::string>;

ParamGroups random_groups(std::mt19937& random) {
  ParamGroups groups(1 + random() % 3);
  for (auto& group : groups) {
    for (size_t i = 1 + random() % 5; i > 0; --i) {
      NamedShape parameter{std::string(1, static_cast<char>('a' + random() % 26)), {}};
      for (size_t axes = random() % 4; axes > 0; --axes) {
        parameter.shape.push_back(static_cast<int64_t>(random() % 5));
      }
      group.push_back(parameter);
    }
  }
  return groups;
}

// The parameters in order hold 1, 2, 3, ... over all groups; padding is -1.
std::vector<RankPartitions> flat_partitions(const ParamGroups& groups, int world) {
  std::vector<RankPartitions> ranks(static_cast<size_t>(world));
  float next = 1;
  for (const auto& group : groups) {
    std::vector<int64_t> numels;
    for (const NamedShape& parameter : group) numels.push_back(numel_of(parameter));
    const FlatPartition cut = partition_flat_group(numels, world, FlatOrder::kGiven);
    std::vector<float> flat(static_cast<size_t>(cut.aligned_numel), -1);
    for (int64_t i = 0; i < cut.numel; ++i) flat[static_cast<size_t>(i)] = next++;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const auto begin = flat.begin() + static_cast<ptrdiff_t>(rank) * cut.partition_numel;
      ranks[rank].emplace_back(begin, begin + cut.partition_numel);
    }
  }
  return ranks;
}

std::vector<RankPartitions> single_partitions(const ParamGroups& groups, int world) {
  std::vector<RankPartitions> ranks(static_cast<size_t>(world), RankPartitions(groups.size()));
  float next = 1;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const NamedShape& parameter : groups[g]) {
      const ParameterPartition cut = partition_parameter(numel_of(parameter), world);
      for (int64_t i = 0; i < cut.partition_numel * world; ++i) {
        const auto rank = static_cast<size_t>(i / cut.partition_numel);
        ranks[rank][g].push_back(i < numel_of(parameter) ? next++ : -1);
      }
    }
  }
  return ranks;
}

void check_consolidated(const std::vector<NamedTensor>& tensors, const ParamGroups& groups) {
  size_t at = 0;
  float next = 1;
  for (const auto& group : groups) {
    for (const NamedShape& parameter : group) {
      REQUIRE(at < tensors.size());
      CHECK(tensors[at].name == parameter.name);
      CHECK(tensors[at].shape == parameter.shape);
      std::vector<float> expected(static_cast<size_t>(numel_of(parameter)));
      for (float& value : expected) value = next++;
      REQUIRE(tensors[at].values == expected);
      ++at;
    }
  }
  CHECK(at == tensors.size());
}

TEST_CASE("weights partitioned over any number of ranks come back as they were", "[checkpoint]") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const ParamGroups groups = random_groups(random);
    const int world = static_cast<int>(1 + random() % 7);
    CAPTURE(trial, world);
    check_consolidated(consolidate_flat(groups, flat_partitions(groups, world)), groups);
    check_consolidated(consolidate_partitioned(groups, single_partitions(groups, world)), groups);
  }
}

TEST_CASE("partitions that are one element short or long are refused", "[checkpoint]") {
  std::mt19937 random(8);
  for (int trial = 0; trial < 100; ++trial) {
    const ParamGroups groups = random_groups(random);
    const int world = static_cast<int>(1 + random() % 5);
    auto ranks = single_partitions(groups, world);
    CAPTURE(trial, world);
    ranks.back().back().push_back(0);
    CHECK_THROWS_WITH(consolidate_partitioned(groups, ranks),
                      Catch::Contains(fmt::format("rank {} holds", world - 1)));
    ranks.back().back().pop_back();
    if (ranks.back().back().empty()) continue;
    ranks.back().back().pop_back();
    CHECK_THROWS_AS(consolidate_partitioned(groups, ranks), DataError);
  }
}

TEST_CASE("of a flat group as much is taken for padding as padding can be", "[checkpoint]") {
  const ParamGroups groups = {{{"w", {5}}}};
  const auto values = [](size_t per_rank) {
    return std::vector<RankPartitions>(2, {std::vector<float>(per_rank, 1)});
  };
  CHECK_THROWS_WITH(consolidate_flat(groups, values(2)),
                    Catch::Contains("parameter w needs 5 elements at 0, but group 0 has 4"));
  CHECK_NOTHROW(consolidate_flat(groups, values(3)));
  CHECK_NOTHROW(consolidate_flat(groups, values(4)));
  CHECK_THROWS_WITH(consolidate_flat(groups, values(5)),
                    Catch::Contains("group 0 has 10 elements, but its parameters take 5"));
}

TEST_CASE("a parameter of an impossible shape is named", "[checkpoint]") {
  const std::vector<RankPartitions> ranks = {{{1, 2, 3}}};
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{-1}, {int64_t{1} << 40, int64_t{1} << 40}}) {
    const ParamGroups groups = {{{"w", shape}}};
    CHECK_THROWS_WITH(consolidate_flat(groups, ranks),
                      Catch::Contains("parameter w has the impossible shape"));
    CHECK_THROWS_AS(consolidate_partitioned(groups, ranks), DataError);
  }
}

TEST_CASE("the names that a layout writes tell that layout", "[checkpoint]") {
  for (int64_t pipe = 1; pipe <= 3; ++pipe) {
    for (int64_t tensor = 1; tensor <= 4; ++tensor) {
      for (int64_t data = 1; data <= 3; ++data) {
        Names names = {"latest", "notes.txt"};
        for (int rank = 0; rank < pipe * tensor; ++rank) {
          names.push_back(model_states_name(std::nullopt, rank));
          for (int d = 0; d < data; ++d) {
            names.push_back(optimizer_states_name(std::nullopt, d, rank, HalfType::kF16));
          }
        }
        for (int t = 0; t < tensor && pipe > 1; ++t) {
          names.push_back(layer_states_name("layer_01", t));
          names.push_back(layer_states_name("layer_02", t));
        }
        CHECK(layout_from_names(names) == Layout{.pipe = pipe, .tensor = tensor, .data = data});
        CHECK(zero_files(names).size() == static_cast<size_t>(pipe * tensor * data));
      }
    }
  }
}

TEST_CASE("ZeRO files come by data rank, then model rank, however they were listed",
          "[checkpoint]") {
  Names names;
  for (int data = 0; data < 12; ++data) {
    for (int model = 0; model < 3; ++model) {
      names.push_back(optimizer_states_name(std::nullopt, data, model, HalfType::kBF16));
    }
  }
  const Names sorted = names;
  std::mt19937 random(2);
  for (int trial = 0; trial < 20; ++trial) {
    std::shuffle(names.begin(), names.end(), random);
    REQUIRE(zero_files(names) == sorted);
    natural_sort(names);
    REQUIRE(names == sorted);
  }
}

TEST_CASE("an empty tag leaves the folder out of every name", "[checkpoint]") {
  for (const Tag& none : {Tag(), Tag("")}) {
    CHECK(optimizer_states_name(none, 0, 0, HalfType::kF16) ==
          "zero_pp_rank_0_mp_rank_00_optim_states.pt");
    CHECK(expert_optimizer_states_name(none, 3, 12) == "expp_rank_3_mp_rank_12_optim_states.pt");
    CHECK(expert_states_name(none, 2, 3, 0) == "layer_2_expert_3_mp_rank_00_model_states.pt");
  }
  CHECK(expert_states_name("t", 0, 3, 0) == "t/layer_0_expert_3_mp_rank_00_model_states.pt");
  CHECK(model_states_name("07") == "mp_rank_07_model_states.pt");
}

TEST_CASE("every layout that a layout can shrink to reads each file exactly once", "[checkpoint]") {
  int possible = 0;
  for (int64_t pipe = 1; pipe <= 4; ++pipe) {
    for (int64_t tensor = 1; tensor <= 4; ++tensor) {
      for (int64_t data = 1; data <= 4; ++data) {
        const Layout source{.pipe = pipe, .tensor = tensor, .data = data};
        for (int64_t p = 1; p <= pipe; ++p) {
          for (int64_t t = 1; t <= tensor; ++t) {
            for (int64_t d = 1; d <= data; ++d) {
              if (pipe % p != 0 || tensor % t != 0 || data % d != 0) continue;
              std::multiset<int64_t> read;
              for (const RankMap& map :
                   reshape_all_ranks(source, {.pipe = p, .tensor = t, .data = d})) {
                for (int64_t i = 0; i < p; ++i) {
                  for (int64_t k = 0; k < t; ++k)
                    read.insert(map.at(i, k).begin(), map.at(i, k).end());
                }
              }
              std::multiset<int64_t> all;
              for (int64_t file = 0; file < pipe * tensor * data; ++file) all.insert(file);
              REQUIRE(read == all);
              ++possible;
            }
          }
        }
      }
    }
  }
  CHECK(possible == 8 * 8 * 8);
}

TEST_CASE("the same layout reads its own files", "[checkpoint]") {
  const Layout layout{.pipe = 2, .tensor = 3, .data = 2};
  const auto maps = reshape_all_ranks(layout, layout);
  for (int64_t d = 0; d < 2; ++d) {
    for (int64_t p = 0; p < 2; ++p) {
      for (int64_t t = 0; t < 3; ++t) {
        CHECK(maps[static_cast<size_t>(d)].at(p, t) == std::vector<int64_t>{d * 6 + p * 3 + t});
      }
    }
  }
}

TEST_CASE("Megatron's groups of every kind hold every rank exactly once", "[checkpoint]") {
  for (const Layout& layout :
       {Layout{1, 1, 1}, Layout{2, 3, 4}, Layout{4, 1, 2}, Layout{1, 4, 3}}) {
    const ModelParallelGroups groups = model_parallel_groups(layout);
    for (const auto* kind : {&groups.tensor, &groups.data, &groups.pipe}) {
      std::set<int64_t> seen;
      for (const auto& group : *kind) {
        for (const int64_t rank : group) CHECK(seen.insert(rank).second);
      }
      CHECK(std::ssize(seen) == layout.pipe * layout.tensor * layout.data);
      CHECK(*seen.rbegin() == layout.pipe * layout.tensor * layout.data - 1);
    }
    for (const auto& group : groups.tensor) CHECK(std::ssize(group) == layout.tensor);
    for (const auto& group : groups.data) CHECK(std::ssize(group) == layout.data);
    CHECK(std::ssize(groups.pipe) == layout.data);
  }
  CHECK_THROWS_AS(model_parallel_groups({.pipe = 0, .tensor = 1, .data = 1}), ConfigError);
}

TEST_CASE("states that cannot be merged are named with their path", "[checkpoint]") {
  const auto tree = [](StateTree leaf) {
    return StateTree{StateMap{{"model", {StateMap{{"layers", {StateList{{true}, leaf}}}}}}}};
  };
  CHECK_THROWS_WITH(merge_states(tree({int64_t{1}}), tree({std::string("x")})),
                    Catch::Contains("model.layers[1] has different kinds of value"));
  CHECK_THROWS_WITH(merge_states({int64_t{1}}, {2.0}), Catch::Contains("state has different"));
  CHECK_THROWS_WITH(merge_states({StateList{{true}}}, {StateList{}}),
                    Catch::Contains("a list of 1 entries in one file and 0 in another"));
}

TEST_CASE("leaves of a merge come from the first file, and keys in the order of the second",
          "[checkpoint]") {
  const StateTree merged =
      merge_states({StateMap{{"a", {std::string("first")}}, {"b", {1.5}}, {"c", {}}}},
                   {StateMap{{"c", {}}, {"b", {2.5}}, {"a", {std::string("second")}}}});
  const auto& map = std::get<StateMap>(merged.value);
  REQUIRE(map.size() == 3);
  CHECK(map[0].first == "c");
  CHECK(map[1].first == "b");
  CHECK(std::get<double>(map[1].second.value) == 1.5);
  CHECK(std::get<std::string>(map[2].second.value) == "first");
}

}  // namespace
}  // namespace ds::deepspeed
