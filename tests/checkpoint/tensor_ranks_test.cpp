// Checkpoints that tensor-parallel ranks of DeepSpeed have written
// (tests/golden/deepspeed/make_tensor_parallel.py), whole and spoiled.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>

#include "core/status/error.h"
#include "core/torch/torch_writer.h"
#include "tests/checkpoint/deepspeed_fixtures.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/files/unpack.h"

namespace ds::deepspeed {
namespace {

namespace fs = std::filesystem;

TEST_CASE("parts of tensor-parallel ranks are the whole that DeepSpeed trained", "[checkpoint]") {
  for (const auto& [name, stage, data_ranks] : {std::tuple("tensor_zero0_fp32", 0, 1),
                                                {"tensor_zero1_bf16", 1, 1},
                                                {"tensor_zero2_fp32", 2, 2},
                                                {"tensor_zero3_fp32", 3, 1}}) {
    CAPTURE(name);
    const testing::TemporaryDirectory place;
    testing::unpack(fixture(std::string(name) + ".zip"), place.path());
    const DeepSpeedFolder folder = open(place.path().string());
    CHECK(folder.progress().tensor_ranks == 2);
    CHECK_FALSE(folder.needs_cuts());
    CHECK(folder.progress().stage == stage);
    CHECK(folder.progress().data_ranks == data_ranks);
    CHECK(folder.progress().updates == 3);
    CHECK(folder.slots() == std::vector<std::string>{"exp_avg", "exp_avg_sq"});
    for (const auto& [slot, sums] :
         {std::pair(kWeightSlot, "weights.json"), {"exp_avg", "moments.json"}}) {
      const Value all = sums_in(place.path(), sums);
      CHECK(all.members().size() == folder.tensors(slot).size());
      for (const Member& sum : all.members()) {
        CAPTURE(slot, sum.key);
        CHECK(checksum(all_of(folder.tensor(sum.key, slot))) == sum.value.as_integer());
      }
    }
  }
}

TEST_CASE("any range of a joined tensor is read", "[checkpoint]") {
  const testing::TemporaryDirectory place;
  testing::unpack(fixture("tensor_zero2_fp32.zip"), place.path());
  const DeepSpeedFolder folder = open(place.path().string());
  for (const char* name :
       {"model.layers.0.mlp.down_proj.weight", "lm_head.weight", "model.norm.weight"}) {
    CAPTURE(name);
    const SavedTensor& tensor = folder.tensor(name, kWeightSlot);
    const std::vector<std::byte> whole = all_of(tensor);
    std::vector<std::byte> part(std::min<size_t>(15 * sizeof(float), whole.size()));
    for (size_t begin = 0; begin + part.size() <= whole.size(); begin += sizeof(float)) {
      read(tensor, narrow<int64_t>(begin / sizeof(float)), part);
      REQUIRE(std::ranges::equal(part, std::span(whole).subspan(begin, part.size())));
    }
  }
}

TEST_CASE("where no file says how parts are cut they are joined by the model, or not at all",
          "[checkpoint]") {
  const testing::TemporaryDirectory place;
  testing::unpack(fixture("tensor_untold.zip"), place.path());
  DeepSpeedFolder folder = open(place.path().string());
  CHECK(folder.needs_cuts());
  CHECK(folder.slots() == std::vector<std::string>{"exp_avg", "exp_avg_sq"});
  CHECK_THROWS_AS(folder.tensors(kWeightSlot), Unsupported);
  const FamilyCut rows{.whole = {64, 16},
                       .ranks = {{{{{0, 32}}, {{0, 16}}}}, {{{{32, 64}}, {{0, 16}}}}}};
  const auto join = [&](const FamilyCut& cut) {
    folder.join([&](const std::string& name) {
      return name == "lm_head.weight" ? std::optional(cut) : std::nullopt;
    });
  };
  // Those of other names are parts, too, and the model has no place for them.
  CHECK_NOTHROW(join(rows));
  CHECK(folder.tensor("lm_head.weight", kWeightSlot).shape == std::vector<int64_t>{64, 16});
  CHECK_THROWS_WITH(all_of(folder.tensor("model.layers.0.self_attn.q_proj.weight", kWeightSlot)),
                    Catch::Contains("q_proj.weight is another than in"));
  DeepSpeedFolder other = open(place.path().string());
  const FamilyCut wider{.whole = {80, 16}, .ranks = rows.ranks};
  CHECK_THROWS_WITH(other.join([&](const std::string&) { return std::optional(wider); }),
                    Catch::Contains("mp_rank_00") && Catch::Contains("[80, 16]"));
}

// What is said of a folder that was spoiled, read to its end.
template <class Spoil>
std::string refusal(const std::string& archive, const Spoil& spoil) {
  const testing::TemporaryDirectory place;
  testing::unpack(fixture(archive + ".zip"), place.path());
  spoil(place.path() / "global_step3");
  try {
    const DeepSpeedFolder folder = open(place.path().string());
    for (const auto& [name, tensor] : folder.tensors(kWeightSlot)) all_of(tensor);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("a tensor-parallel rank that is missing is named", "[checkpoint]") {
  const auto without = [](const std::string& archive, std::vector<std::string> names) {
    return refusal(archive, [&](const fs::path& tag) {
      for (const std::string& name : names) REQUIRE(fs::remove(tag / name));
    });
  };
  const std::string optimizer = "bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt";
  CHECK_THAT(without("tensor_zero1_bf16", {"mp_rank_00_model_states.pt"}),
             Catch::Contains("mp_rank_00_model_states.pt: is missing"));
  CHECK_THAT(without("tensor_zero1_bf16", {"mp_rank_01_model_states.pt"}),
             Catch::Contains("mp_rank_01_model_states.pt: is missing"));
  CHECK_THAT(without("tensor_zero1_bf16", {"mp_rank_01_model_states.pt", optimizer}),
             Catch::Contains("mp_rank_01_model_states.pt: is missing; the checkpoint is of 2"));
  CHECK_THAT(without("tensor_zero0_fp32", {"mp_rank_01_model_states.pt"}),
             Catch::Contains("mp_rank_01_model_states.pt: is missing; the checkpoint is of 2"));
  CHECK_THAT(without("tensor_zero1_bf16", {optimizer}),
             Catch::Contains("mp_rank_01_model_states.pt: is of ZeRO, but no file"));
  CHECK_THAT(without("tensor_zero2_fp32", {"zero_pp_rank_1_mp_rank_01_optim_states.pt"}),
             Catch::Contains("zero_pp_rank_1_mp_rank_01_optim_states.pt: is missing"));
  CHECK_THAT(without("tensor_zero3_fp32", {"zero_pp_rank_0_mp_rank_01_model_states.pt",
                                           "zero_pp_rank_0_mp_rank_01_optim_states.pt"}),
             Catch::Contains("zero_pp_rank_0_mp_rank_01_model_states.pt: is missing"));
}

TEST_CASE("a tensor-parallel rank of another run is named", "[checkpoint]") {
  CHECK_THAT(refusal("tensor_zero0_fp32",
                     [&](const fs::path& tag) {
                       const testing::TemporaryDirectory other;
                       testing::unpack(fixture("tensor_zero1_bf16.zip"), other.path());
                       fs::copy_file(other.path() / "global_step3/mp_rank_01_model_states.pt",
                                     tag / "mp_rank_01_model_states.pt",
                                     fs::copy_options::overwrite_existing);
                     }),
             Catch::Contains("mp_rank_01_model_states.pt"));
}

// --- what universal_checkpoint_info can say

// Two ranks without ZeRO; each tensor has its rank and the place of each element in it.
class TwoRanks {
 public:
  struct Saved {
    std::string name;
    std::vector<int64_t> shape;
    std::optional<float> both{};  // the value of all elements on both ranks
  };
  TwoRanks(const std::vector<Saved>& tensors, const TorchItem::Dict& info) {
    RealFileSystem files;
    for (int rank = 0; rank < 2; ++rank) {
      TorchItem::Dict module;
      std::vector<std::vector<float>> values;
      for (const Saved& tensor : tensors) {
        module.emplace_back(tensor.name, TorchItem::Elements{DType::kF32, tensor.shape});
        int64_t numel = 1;
        for (const int64_t extent : tensor.shape) numel *= extent;
        std::vector<float>& own = values.emplace_back(to_size(numel));
        for (size_t i = 0; i < own.size(); ++i) {
          own[i] = tensor.both.value_or(static_cast<float>(10 * rank) + static_cast<float>(i));
        }
      }
      const TorchItem::Dict states{{"module", module},
                                   {"universal_checkpoint_info", info},
                                   {"global_steps", 1},
                                   {"mp_world_size", 2},
                                   {"ds_version", "0.19.8"}};
      write_torch_file(files, (place_.path() / fmt::format("mp_rank_0{}_model_states.pt", rank)),
                       states,
                       [&](size_t index) { return std::as_bytes(std::span(values[index])); });
    }
  }
  std::vector<float> joined(const std::string& name) const {
    const DeepSpeedFolder folder = open(place_.path().string());
    const std::vector<std::byte> bytes = all_of(folder.tensor(name, kWeightSlot));
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::string refusal(const std::string& name) const {
    try {
      joined(name);
    } catch (const Error& error) {
      return error.what();
    }
    return "joined";
  }

 private:
  testing::TemporaryDirectory place_;
};

TorchItem::List patterns(const std::vector<std::string>& all) {
  TorchItem::List list;
  for (const std::string& one : all) list.emplace_back(one);
  return list;
}

TEST_CASE("patterns say how parts are joined, as DeepSpeed's converter has them", "[checkpoint]") {
  using Floats = std::vector<float>;
  const TorchItem::Dict fused{{"patterns", patterns({"fused"})},
                              {"shape", TorchItem::List{TorchItem::List{4, 2}, -1}},
                              {"partition_dim", 0}};
  const TorchItem::Dict thirds{
      {"patterns", patterns({"thirds"})}, {"shape", TorchItem::List{3, -1}}, {"partition_dim", 0}};
  const TorchItem::Dict uneven{{"patterns", patterns({"^uneven$"})},
                               {"shape", TorchItem::List{TorchItem::List{3, 1}}},
                               {"partition_dim", 0}};
  const TwoRanks ranks({{"same", {2}, 3.0F},
                        {"mean", {2}},
                        {"pair", {4}},
                        {"rows.weight", {2, 1}},
                        {"words", {2, 2}},
                        {"fused", {3, 1}},
                        {"thirds", {3, 1}},
                        {"uneven", {2}},
                        {"else", {1}}},
                       {{"tp_replicated_parameter_patterns", patterns({"same"})},
                        {"parameter_to_average_patterns", patterns({"me.n"})},
                        {"parameter_with_2_sub_params_cat_dim_0", patterns({"pair"})},
                        {"parameter_with_row_parallelism_patterns", patterns({R"(\w+\.weight)"})},
                        {"vocabulary_parameter_patterns", patterns({"words"})},
                        {"original_vocab_size", 3},
                        {"parameter_with_sub_params", TorchItem::List{fused, thirds, uneven}},
                        {"sub_param_shard_widths",
                         TorchItem::Dict{{"^uneven$", TorchItem::List{TorchItem::List{2, 1},
                                                                      TorchItem::List{0, 1}}}}}});
  CHECK(ranks.joined("same") == Floats{3, 3});
  CHECK(ranks.joined("mean") == Floats{5, 6});
  CHECK(ranks.joined("pair") == Floats{0, 1, 10, 11, 2, 3, 12, 13});
  CHECK(ranks.joined("rows.weight") == Floats{0, 10, 1, 11});
  CHECK(ranks.joined("words") == Floats{0, 1, 2, 3, 10, 11});
  CHECK(ranks.joined("fused") == Floats{0, 1, 10, 11, 2, 12});
  CHECK(ranks.joined("thirds") == Floats{0, 10, 1, 11, 2, 12});
  CHECK(ranks.joined("uneven") == Floats{0, 1, 10, 11});
  CHECK(ranks.joined("else") == Floats{0, 10});
}

TEST_CASE("what patterns do not fit is refused with the tensor and the file", "[checkpoint]") {
  const auto said = [](const std::vector<int64_t>& shape, const TorchItem::Dict& info) {
    return TwoRanks({{"norm", shape}}, info).refusal("norm");
  };
  CHECK_THAT(said({2}, {{"tp_replicated_parameter_patterns", patterns({"norm"})}}),
             Catch::Contains("mp_rank_01_model_states.pt: norm is another than in") &&
                 Catch::Contains("mp_rank_00_model_states.pt"));
  CHECK_THAT(
      said({2}, {{"parameter_with_row_parallelism_patterns", patterns({"norm"})}}),
      Catch::Contains("mp_rank_00") && Catch::Contains("norm: its ranks have the shapes [2]"));
  CHECK_THAT(said({2}, {{"vocabulary_parameter_patterns", patterns({"norm"})}}),
             Catch::Contains("original_vocab_size is missing"));
  CHECK_THAT(said({2}, {{"tp_replicated_parameter_patterns", patterns({"no(rm"})}}),
             Catch::Contains("tp_replicated_parameter_patterns: 'no(rm'") ||
                 Catch::Contains("no regular expression"));
  CHECK_THAT(said({2}, {{"tp_replicated_parameter_patterns", TorchItem::List{3}}}),
             Catch::Contains("patterns of names"));
  CHECK_THAT(said({2}, {{"parameter_with_sub_params", TorchItem::List{3}}}),
             Catch::Contains("a list of dicts"));
  const TorchItem::Dict beyond{
      {"patterns", patterns({"norm"})}, {"shape", TorchItem::List{2}}, {"partition_dim", 1}};
  CHECK_THAT(said({2}, {{"parameter_with_sub_params", TorchItem::List{beyond}}}),
             Catch::Contains("an axis of its shape"));
  CHECK_THAT(said({2}, {{"autotp_unsupported_parameter_patterns",
                         TorchItem::Dict{{"norm", "it is too odd"}}}}),
             Catch::Contains("does not say how norm is cut over ranks: it is too odd"));
}

}  // namespace
}  // namespace ds::deepspeed
