// Which files a DeepSpeed checkpoint is made of, and where parameters lie in them.
#include "checkpoint/deepspeed/folder_files.h"
#include "checkpoint/deepspeed/places.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds::deepspeed {
namespace {

using Names = std::vector<std::string>;

const Names kStage2 = {"bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
                       "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt",
                       "mp_rank_00_model_states.pt"};
const Names kStage3 = {
    "zero_pp_rank_0_mp_rank_00_model_states.pt",  "zero_pp_rank_0_mp_rank_00_optim_states.pt",
    "zero_pp_rank_10_mp_rank_00_model_states.pt", "zero_pp_rank_10_mp_rank_00_optim_states.pt",
    "zero_pp_rank_9_mp_rank_00_model_states.pt",  "zero_pp_rank_9_mp_rank_00_optim_states.pt"};

Names without(Names names, const std::string& name) {
  REQUIRE(std::erase(names, name) == 1);
  return names;
}
Names with(Names names, const std::string& name) {
  names.push_back(name);
  return names;
}

TEST_CASE("the files of all ranks are found, by rank", "[checkpoint]") {
  const FolderFiles two = files_of("/c", kStage2);
  CHECK(two.parts.front().model == Names{kStage2[2]});
  CHECK(two.parts.front().optimizer == Names{kStage2[0], kStage2[1]});
  CHECK_FALSE(two.is_universal);
  const FolderFiles three = files_of("/c", kStage3);
  CHECK(three.parts.front().model == Names{kStage3[0], kStage3[4], kStage3[2]});
  CHECK(three.parts.front().optimizer == Names{kStage3[1], kStage3[5], kStage3[3]});
  const FolderFiles universal =
      files_of("/c", Names{"zero", "mp_rank_00_model_states.pt", "mp_rank_01_model_states.pt"});
  CHECK(universal.is_universal);
  CHECK(universal.parts.front().model == Names{"mp_rank_00_model_states.pt"});
  const Names both{"zero", "mp_rank_00_model_states.pt",
                   "zero_pp_rank_0_mp_rank_00_model_states.pt"};
  CHECK(files_of("/c", both).parts.front().model == Names{"mp_rank_00_model_states.pt"});
  CHECK(is_checkpoint(kStage2));
  CHECK_FALSE(is_checkpoint(Names{"latest", "global_step3"}));
}

TEST_CASE("a pipeline has files of stages and of layers", "[checkpoint]") {
  const Names names{"layer_00-model_states.pt",
                    "layer_02-model_states.pt",
                    "layer_10-model_states.pt",
                    "mp_rank_00_model_states.pt",
                    "mp_rank_01_model_states.pt",
                    "zero_pp_rank_0_mp_rank_00_optim_states.pt",
                    "zero_pp_rank_0_mp_rank_01_optim_states.pt",
                    "zero_pp_rank_1_mp_rank_00_optim_states.pt",
                    "zero_pp_rank_1_mp_rank_01_optim_states.pt"};
  const FolderFiles files = files_of("/c", names);
  CHECK(files.layers == std::vector<Names>{{names[0], names[1], names[2]}});
  REQUIRE(files.parts.size() == 2);
  CHECK(files.parts[0].model == Names{names[3]});
  CHECK(files.parts[1].model == Names{names[4]});
  CHECK(files.parts[1].optimizer == Names{names[6], names[8]});
  CHECK_NOTHROW(require_ranks("/c", files.parts[1], 2));
  CHECK_THROWS_WITH(require_ranks("/c", files.parts[1], 3),
                    Catch::Contains("zero_pp_rank_2_mp_rank_01_optim_states.pt: is missing"));
  CHECK_THROWS_WITH(files_of("/c", without(names, names[3])),
                    Catch::Contains("/c/mp_rank_00_model_states.pt: is missing"));
  // Megatron-DeepSpeed has the tensor-parallel rank in names of layers, also where there is one.
  CHECK(files_of("/c", Names{"layer_00-model_00-model_states.pt", "mp_rank_00_model_states.pt"})
            .layers.size() == 1);
}

TEST_CASE("tensor-parallel ranks of a pipeline have files of each layer", "[checkpoint]") {
  const Names names{"layer_00-model_00-model_states.pt", "layer_00-model_01-model_states.pt",
                    "layer_10-model_00-model_states.pt", "layer_10-model_01-model_states.pt",
                    "layer_9-model_00-model_states.pt",  "layer_9-model_01-model_states.pt",
                    "mp_rank_00_model_states.pt",        "mp_rank_01_model_states.pt",
                    "mp_rank_02_model_states.pt",        "mp_rank_03_model_states.pt"};
  const FolderFiles files = files_of("/c", names);
  CHECK(files.layers ==
        std::vector<Names>{{names[0], names[4], names[2]}, {names[1], names[5], names[3]}});
  REQUIRE(files.parts.size() == 4);
  CHECK(files.parts[3].model == Names{names[9]});
  CHECK_THROWS_WITH(
      files_of("/c", without(names, names[3])),
      Catch::Contains("/c/layer_10-model_01-model_states.pt: is missing; the checkpoint is "
                      "of 2 tensor-parallel ranks of a pipeline"));
  CHECK_THROWS_AS(files_of("/c", without(names, names[2])), InputMissing);
  CHECK_THROWS_WITH(files_of("/c", without(names, names[9])),
                    Catch::Contains("mp_rank_03_model_states.pt: is missing"));
  CHECK_THROWS_WITH(files_of("/c", with(names, "layer_00-model_03-model_states.pt")),
                    Catch::Contains("layer_00-model_02-model_states.pt: is missing"));
}

TEST_CASE("tensor-parallel ranks have files each, of the model and of its optimizer",
          "[checkpoint]") {
  const std::string model = "mp_rank_01_model_states.pt";
  const Names names =
      with(with(with(kStage2, model), "bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt"),
           "bf16_zero_pp_rank_1_mp_rank_01_optim_states.pt");
  const FolderFiles files = files_of("/c", names);
  REQUIRE(files.parts.size() == 2);
  CHECK(files.layers.empty());
  CHECK(files.parts[1].model == Names{model});
  CHECK(files.parts[1].optimizer.size() == 2);
  CHECK_THROWS_WITH(files_of("/c", without(names, model)),
                    Catch::Contains("/c/mp_rank_01_model_states.pt: is missing; the checkpoint is "
                                    "of tensor-parallel ranks"));
  Names parted = kStage3;
  for (const std::string& name : kStage3) {
    std::string other = name;
    parted.push_back(other.replace(other.find("mp_rank_00"), 10, "mp_rank_01"));
  }
  CHECK(files_of("/c", parted).parts.at(1).model.size() == 3);
}

TEST_CASE("a missing or foreign rank is named", "[checkpoint]") {
  CHECK_NOTHROW(require_ranks("/c", files_of("/c", kStage2).parts.front(), 2));
  CHECK_THROWS_WITH(
      require_ranks("/c", files_of("/c", kStage2).parts.front(), 3),
      Catch::Contains("/c/bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt: is missing"));
  CHECK_THROWS_AS(require_ranks("/c", files_of("/c", kStage2).parts.front(), 3), InputMissing);
  CHECK_THROWS_AS(require_ranks("/c", files_of("/c", kStage2).parts.front(), 1), DataError);
  CHECK_THROWS_WITH(
      require_ranks("/c", files_of("/c", without(kStage2, kStage2[0])).parts.front(), 2),
      Catch::Contains("bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt: is missing"));
  const Names whole = {"zero_pp_rank_0_mp_rank_00_model_states.pt",
                       "zero_pp_rank_0_mp_rank_00_optim_states.pt",
                       "zero_pp_rank_1_mp_rank_00_optim_states.pt"};
  CHECK_THROWS_WITH(require_ranks("/c", files_of("/c", whole).parts.front(), 2),
                    Catch::Contains("zero_pp_rank_1_mp_rank_00_model_states.pt: is missing"));
}

TEST_CASE("layouts that are not read are refused by name", "[checkpoint]") {
  for (const char* name :
       {"layer_0_expert_1_mp_rank_00_model_states.pt", "expp_rank_0_mp_rank_00_optim_states.pt"}) {
    CAPTURE(name);
    CHECK_THROWS_AS(files_of("/c", with(kStage2, name)), Unsupported);
    CHECK_THROWS_WITH(files_of("/c", with(kStage2, name)), Catch::Contains(name));
  }
}

TEST_CASE("files of several checkpoints in one folder are refused", "[checkpoint]") {
  CHECK_THROWS_AS(files_of("/c", with(kStage3, "mp_rank_00_model_states.pt")), DataError);
  CHECK_THROWS_AS(files_of("/c", with(kStage2, "zero_pp_rank_0_mp_rank_00_optim_states.pt")),
                  DataError);
  CHECK_THROWS_AS(files_of("/c", without(kStage2, kStage2[2])), DataError);
}

TEST_CASE("latest names one folder", "[checkpoint]") {
  CHECK(tag_of("/c/latest", "global_step3\n") == "global_step3");
  for (const char* text : {"", "\n", "..", ".", "../other", "/etc", "a/b"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(tag_of("/c/latest", text), DataError);
  }
}

using Runs = std::vector<PlacedRun>;

TEST_CASE("a parameter of a flat group goes on in the next rank's partition", "[checkpoint]") {
  const ParamGroups groups = {{{"a", {3}}, {"b", {2, 2}}, {"none", {0}}}, {{"c", {}}}};
  const std::vector<PartitionSizes> ranks = {{4, 1}, {0, 0}, {4, 0}};
  const auto placed = place_flat(groups, ranks);
  REQUIRE(placed.size() == 4);
  CHECK(placed[0].runs == Runs{{0, 0, 0, 3}});
  CHECK(placed[1].runs == Runs{{0, 0, 3, 1}, {2, 0, 0, 3}});
  CHECK(placed[2].runs.empty());
  CHECK(placed[3].runs == Runs{{0, 1, 0, 1}});
}

TEST_CASE("what aligns the next parameter is passed over", "[checkpoint]") {
  const ParamGroups groups = {{{"a", {3}, 1}, {"b", {2}, 0}}};
  const std::vector<PartitionSizes> ranks = {{3}, {3}};
  const auto placed = place_flat(groups, ranks);
  CHECK(placed.at(1).runs == Runs{{1, 0, 1, 2}});
  for (const int64_t padding : {int64_t{-1}, int64_t{4}, int64_t{1} << 62}) {
    CHECK_THROWS_AS(place_flat({{{"a", {3}, padding}}}, ranks), DataError);
  }
}

TEST_CASE("a parameter of stage 3 has a share in every rank, over the ends of groups",
          "[checkpoint]") {
  const ParamGroups groups = {{{"a", {3}}, {"b", {5}}}};
  const std::vector<PartitionSizes> ranks = {{3, 2}, {3, 2}};
  const auto placed = place_partitioned(groups, ranks);
  REQUIRE(placed.size() == 2);
  CHECK(placed[0].runs == Runs{{0, 0, 0, 2}, {1, 0, 0, 1}});
  CHECK(placed[1].runs == Runs{{0, 0, 2, 1}, {0, 1, 0, 2}, {1, 0, 2, 1}, {1, 1, 0, 1}});
}

TEST_CASE("shapes beyond what there is are refused before they are summed", "[checkpoint]") {
  const int64_t much = int64_t{1} << 62;
  const std::vector<PartitionSizes> ranks = {{4}, {4}};
  CHECK_THROWS_AS(place_partitioned({{{"a", {much}}, {"b", {much}}}}, ranks), DataError);
  CHECK_THROWS_AS(place_flat({{{"a", {much}}, {"b", {much}}}}, ranks), DataError);
  CHECK_THROWS_AS(place_flat({{{"a", {much, much}}}}, ranks), DataError);
  CHECK_THROWS_AS(place_partitioned({{{"a", {6}}}}, ranks), DataError);
}

}  // namespace
}  // namespace ds::deepspeed
