// The meshes that ranks can make: which there are, how each makes the same batch, what hosts are
// apart costs them, and how they are ranked and told.
#include "train/plan/suggest.h"

#include <set>
#include <tuple>

#include "config/reader/json_reader.h"
#include "tests/support/catch.h"
#include "tests/train/runs/small_engine.h"

namespace ds {
namespace {

using testing::options_of;

TEST_CASE("so many ranks make every mesh that multiplies to them, once", "[train]") {
  CHECK(meshes_of(1).size() == 1);
  CHECK(meshes_of(7).size() == 5);
  // There are 15 * 5 ways to write 12 = 2^2 * 3 as a product of five in order, of which rings and
  // trades are two.
  const std::vector<MeshSizes> meshes = meshes_of(12);
  CHECK(meshes.size() == 75);
  std::set<std::tuple<int, int, int, int, int>> seen;
  for (const MeshSizes& mesh : meshes) {
    CHECK(mesh.pipe * mesh.data * mesh.sequence * mesh.tensor == 12);
    CHECK(mesh.sequence % mesh.ring == 0);
    seen.insert({mesh.pipe, mesh.data, mesh.sequence, mesh.ring, mesh.tensor});
  }
  CHECK(seen.size() == meshes.size());
  CHECK(meshes.front().data == 12);
  CHECK(meshes.back().data == 1);
  CHECK_THROWS_AS(meshes_of(0), InternalError);
}

TEST_CASE("a batch stays as large, in micro-batches that are no larger than wanted", "[train]") {
  CHECK(batch_over(24, 1, 4) == BatchSizes{24, 4, 6});
  CHECK(batch_over(24, 2, 4) == BatchSizes{24, 4, 3});
  CHECK(batch_over(24, 4, 4) == BatchSizes{24, 3, 2});
  CHECK(batch_over(24, 8, 4) == BatchSizes{24, 3, 1});
  CHECK(batch_over(7, 1, 4) == BatchSizes{7, 1, 7});
  CHECK_THROWS_WITH(batch_over(24, 5, 4),
                    "train_batch_size: 5 ranks that see different samples cannot have equally many "
                    "of 24; expected a multiple of 5");
}

RankPlan class_of(std::vector<int> ranks, size_t bytes, double seconds) {
  RankPlan plan;
  plan.ranks = std::move(ranks);
  nth(plan.memory, Tier::kDevice).bytes_peak = bytes;
  plan.seconds_per_step = seconds;
  return plan;
}

MeshRow row_of(const MeshSizes& mesh, std::vector<RankPlan> classes) {
  return {.mesh = mesh,
          .settings = {"a=1"},
          .zero_stage = 1,
          .micro_batch = 3,
          .micro_steps = 2,
          .plan = RunPlan{.mesh = mesh, .classes = std::move(classes)}};
}

// What is written out here by hand: two meshes that are possible, two that are not.
MeshTable table() {
  MeshTable table{.ranks = 4, .hosts = 2};
  MeshRow too_large = row_of({.data = 4}, {class_of({0, 1, 2, 3}, 1 << 30, 0.25)});
  too_large.ruled_out = "memory.device_limit: too little";
  table.rows.push_back(std::move(too_large));
  table.rows.push_back({.mesh = {.tensor = 4}, .ruled_out = "heads"});
  table.rows.push_back(row_of({.sequence = 4, .ring = 2}, {class_of({0, 1, 2, 3}, 2048, 0.5)}));
  MeshRow uneven = row_of({.data = 2, .tensor = 2},
                          {class_of({0, 2}, 1024, 0.125), class_of({1, 3}, 1536, 0.5)});
  uneven.plan->classes[0].wire_bytes = {{"data", {{"all_reduce", 100}, {"all_gather", 50}}},
                                        {"tensor", {{"all_reduce", 7}}}};
  uneven.plan->classes[1].wire_bytes = {{"data", {{"all_reduce", 120}, {"all_gather", 20}}},
                                        {"tensor", {{"all_reduce", 9}}},
                                        {"sequence", {{"all_to_all", 0}}}};
  table.rows.push_back(std::move(uneven));
  table.sort();
  return table;
}

TEST_CASE("the fastest mesh is the first, and of two as fast the one that needs less", "[train]") {
  const MeshTable sorted = table();
  REQUIRE(sorted.best() == &sorted.rows.front());
  CHECK(sorted.rows[0].mesh.tensor == 2);
  CHECK(sorted.rows[1].mesh.sequence == 4);
  CHECK(sorted.rows[2].ruled_out == "memory.device_limit: too little");
  CHECK(sorted.rows[3].ruled_out == "heads");
  MeshTable none{.rows = {{.ruled_out = "heads"}}};
  none.sort();
  CHECK(none.best() == nullptr);
  CHECK_THAT(suggestions_text(none), Catch::EndsWith("none: every mesh is ruled out\n"));
}

TEST_CASE("a table of meshes says what each takes, and what rules the others out", "[train]") {
  CHECK(suggestions_text(table()) ==
        "ranks         4 on 2 hosts\n"
        "meshes        2 of 4 are possible\n"
        "    s/step      memory  stage  micro-batch  mesh                                          "
        "  bytes per step and rank\n"
        "       0.5     1.5 KiB      1        2 x 3  data 2 x tensor 2                             "
        "  data 150 B, tensor 9 B\n"
        "       0.5     2.0 KiB      1        2 x 3  data 1 x sequence 4 (ulysses 2 x ring 2)      "
        "  none\n"
        "ruled out     data 4, ZeRO stage 1: memory.device_limit: too little\n"
        "ruled out     data 1 x tensor 4: heads\n"
        "fastest       data 2 x tensor 2: a=1\n");
  const Value json = read_config_document(suggestions_json(table()), "suggest");
  CHECK(json.find("world_size")->as_integer() == 4);
  CHECK(json.find("hosts")->as_integer() == 2);
  REQUIRE(json.find("meshes")->items().size() == 2);
  const Value& best = json.find("meshes")->items().front();
  CHECK(best.find("mesh")->find("tensor")->as_integer() == 2);
  CHECK(best.find("settings")->items().front().as_string() == "a=1");
  CHECK(best.find("zero_stage")->as_integer() == 1);
  CHECK(best.find("micro_batch")->as_integer() == 3);
  CHECK(best.find("micro_steps")->as_integer() == 2);
  CHECK(best.find("seconds_per_step")->as_number() == 0.5);
  CHECK(best.find("device_bytes_peak")->as_integer() == 1536);
  CHECK(best.find("communication")->find("data")->as_number() == 150);
  CHECK(best.find("communication")->find("sequence") == nullptr);
  CHECK(best.find("ruled_out") == nullptr);
  REQUIRE(json.find("ruled_out")->items().size() == 2);
  const Value& large = json.find("ruled_out")->items().front();
  CHECK(large.find("ruled_out")->as_string() == "memory.device_limit: too little");
  CHECK(large.find("device_bytes_peak")->as_integer() == 1 << 30);
  CHECK(json.find("ruled_out")->items().back().find("seconds_per_step") == nullptr);
}

TEST_CASE("what leaves a host takes the time of its network, which groups share", "[train]") {
  EngineOptions options = options_of({.ranks = 2, .stage = 2});
  const MeshSizes mesh{.data = 2, .tensor = 2};
  const auto talk = [&](int ranks_of_host) {
    const DeviceCeilings ceilings{
        .bytes_per_s = 1e9, .network_bytes_per_s = 1e6, .ranks_of_host = ranks_of_host};
    const RunPlan plan = dry_run(options, mesh, ceilings);
    return std::pair(nth(plan.of_rank(0).busy, Busy::kPeers), plan.of_rank(0).wire_bytes);
  };
  const auto [alone, wire] = talk(0);
  std::map<std::string, double> bytes;
  for (const auto& [axis, ops] : wire) {
    for (const auto& [op, of_op] : ops) bytes[axis] += of_op;
  }
  REQUIRE(bytes.at("data") > 0);
  REQUIRE(bytes.at("tensor") > 0);
  const double rest = bytes["world"] + bytes["host"];
  CHECK(alone == Approx((bytes["data"] + bytes["tensor"] + rest) / 1e9));
  // Two hosts of two ranks: layers stay in a host, of whose network each of two data groups has
  // half.
  CHECK(talk(2).first == Approx(bytes["tensor"] / 1e9 + bytes["data"] / 1e6 * 2 + rest / 1e6));
  // A host for each rank: everything leaves it, one group at a time.
  CHECK(talk(1).first == Approx((bytes["data"] + bytes["tensor"] + rest) / 1e6));
  CHECK(talk(4).first == Approx(alone));
}

}  // namespace
}  // namespace ds
