// Checkpoints that DeepSpeed has written (tests/golden/deepspeed/make.py), whole and spoiled.

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "checkpoint/deepspeed/folder.h"
#include "core/status/error.h"
#include "core/values/index.h"
#include "model/hf/safetensors.h"
#include "tests/checkpoint/deepspeed_fixtures.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/files/unpack.h"

namespace ds::deepspeed {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

std::vector<float> floats_of(const SavedTensor& tensor) {
  REQUIRE(tensor.dtype.name == "float32");
  std::vector<float> values(to_size(tensor.numel()));
  read(tensor, 0, std::as_writable_bytes(std::span(values)));
  return values;
}

// A copy of a fixture that a test may spoil.
class Copied {
 public:
  explicit Copied(const std::string& name) {
    std::string pattern = (fs::temp_directory_path() / "deepspeed_XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
    fs::copy(fixture(name), path_, fs::copy_options::recursive);
  }
  Copied(const Copied&) = delete;  // removes the folder
  Copied& operator=(const Copied&) = delete;
  ~Copied() { fs::remove_all(path_); }
  std::string path() const { return path_.string(); }
  fs::path file(const std::string& name) const { return path_ / "global_step3" / name; }

 private:
  fs::path path_;
};

const char* const kFirstRank = "zero_pp_rank_0_mp_rank_00_optim_states.pt";
const char* const kSecondRank = "zero_pp_rank_1_mp_rank_00_optim_states.pt";
const char* const kModel = "mp_rank_00_model_states.pt";

TEST_CASE("weights are those that zero_to_fp32 makes, bit for bit", "[checkpoint]") {
  RealFileSystem files;
  for (const char* name : {"zero1_narrow", "zero2_fp32", "zero3_fp32", "zero1_bf16", "zero2_bf16",
                           "zero3_bf16", "zero2_fp16", "zero2_frozen", "zero3_frozen"}) {
    CAPTURE(name);
    const SafetensorsFile expected =
        SafetensorsFile::open(files, fixture(std::string(name) + "/consolidated.safetensors"));
    const DeepSpeedFolder folder = open(fixture(name));
    CHECK(folder.tensors(kWeightSlot).size() == expected.names().size());
    for (const std::string& parameter : expected.names()) {
      CAPTURE(parameter);
      const SavedTensor& tensor = folder.tensor(parameter, kWeightSlot);
      const SafetensorsInfo& info = expected.info(parameter);
      CHECK(Shape(tensor.shape) == info.shape);
      Bytes wanted(to_size(info.bytes));
      expected.read(parameter, wanted);
      CHECK(all_of(tensor) == wanted);
    }
  }
}

TEST_CASE("how far a run had come is told", "[checkpoint]") {
  for (const auto& [name, stage, ranks] : {std::tuple("zero0_narrow", 0, 1),
                                           {"zero1_narrow", 1, 1},
                                           {"zero2_bf16", 2, 2},
                                           {"zero3_fp32", 3, 2}}) {
    CAPTURE(name);
    const DeepSpeedFolder folder = open(fixture(name));
    const Progress& progress = folder.progress();
    CHECK(progress.steps == 3);
    CHECK(progress.skipped == 0);
    CHECK(progress.samples == 12);
    CHECK(progress.updates == 3);
    CHECK(progress.scheduler_steps == 3);
    CHECK(progress.stage == stage);
    CHECK(progress.data_ranks == ranks);
    CHECK(progress.version == "0.19.8");
    CHECK_FALSE(progress.scaler);
    CHECK(folder.slots() == std::vector<std::string>{"exp_avg", "exp_avg_sq"});
  }
}

TEST_CASE("steps that overflowed in fp16 are told, and where the loss scale stands",
          "[checkpoint]") {
  const Progress progress = open(fixture("zero2_fp16")).progress();
  CHECK(progress.steps == 3);
  CHECK(progress.skipped == 1);
  CHECK(progress.updates == 2);
  CHECK(progress.scheduler_steps == 2);
  CHECK(progress.scaler == SavedScaler{.is_dynamic = true,
                                       .scale = 65536,
                                       .iterations = 3,
                                       .last_overflow = 0,
                                       .hysteresis = 1});
}

// Largest difference over all parameters of two checkpoints.
float difference(const DeepSpeedFolder& one, const DeepSpeedFolder& other,
                 const std::string& slot) {
  float largest = 0;
  CHECK(one.tensors(slot).size() == other.tensors(slot).size());
  for (const auto& [name, tensor] : one.tensors(slot)) {
    const std::vector<float> a = floats_of(tensor), b = floats_of(other.tensor(name, slot));
    REQUIRE(a.size() == b.size());
    for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

// The same run under each stage, so the same numbers but for the order of sums; the update of a
// weight whose gradient is rounding alone is of either sign.
TEST_CASE("every stage keeps the same moments of the same parameters", "[checkpoint]") {
  constexpr float kThreeUpdates = 0.0075F;  // at the rates of the run
  const auto compare = [&](const char* one, const char* other) {
    CAPTURE(one, other);
    const DeepSpeedFolder a = open(fixture(one)), b = open(fixture(other));
    CHECK(difference(a, b, kWeightSlot) < kThreeUpdates);
    CHECK(difference(a, b, "exp_avg") < 1e-6F);
    CHECK(difference(a, b, "exp_avg_sq") < 1e-6F);
  };
  compare("zero0_narrow", "zero1_narrow");
  compare("zero2_fp32", "zero3_fp32");
}

TEST_CASE("tied and frozen parameters are told apart from trained ones", "[checkpoint]") {
  const auto count = [](const DeepSpeedFolder& folder, SavedParameter::Kind kind) {
    return std::ranges::count_if(folder.parameters(),
                                 [&](const SavedParameter& one) { return one.kind == kind; });
  };
  for (const char* name : {"zero0_narrow", "zero2_fp32", "zero3_bf16"}) {
    CAPTURE(name);
    const DeepSpeedFolder tied = open(fixture(name));
    CHECK(count(tied, SavedParameter::Kind::kShared) == 1);
    CHECK(all_of(tied.tensor("lm_head.weight", kWeightSlot)) ==
          all_of(tied.tensor("transformer.wte.weight", kWeightSlot)));
    CHECK_THROWS_AS(tied.tensor("lm_head.weight", "exp_avg"), DataError);
  }
  for (const char* name : {"zero2_frozen", "zero3_frozen"}) {
    CAPTURE(name);
    const DeepSpeedFolder frozen = open(fixture(name));
    CHECK(count(frozen, SavedParameter::Kind::kFrozen) == 2);
    CHECK_THROWS_WITH(frozen.tensor("model.norm.weight", "exp_avg"),
                      Catch::Contains("no exp_avg of model.norm.weight"));
  }
}

TEST_CASE("a range of a parameter is read over the ends of partitions", "[checkpoint]") {
  for (const char* name : {"zero2_fp32"}) {
    CAPTURE(name);
    const DeepSpeedFolder folder = open(fixture(name));
    const auto& tensors = folder.tensors(kWeightSlot);
    const auto cut = std::ranges::find_if(
        tensors, [](const auto& entry) { return entry.second.runs.size() > 1; });
    REQUIRE(cut != tensors.end());
    const std::vector<float> whole = floats_of(cut->second);
    for (size_t begin = 0; begin + 3 <= whole.size(); ++begin) {
      std::vector<float> part(3);
      read(cut->second, narrow<int64_t>(begin), std::as_writable_bytes(std::span(part)));
      REQUIRE(std::equal(part.begin(), part.end(), whole.begin() + std::ptrdiff_t(begin)));
    }
    std::vector<float> beyond(whole.size() + 1);
    CHECK_THROWS_AS(read(cut->second, 0, std::as_writable_bytes(std::span(beyond))), InternalError);
  }
}

TEST_CASE("a universal folder has what the checkpoint had that it was made of", "[checkpoint]") {
  const Copied copy("zero2_frozen");
  const fs::path folder = fs::path(copy.path()) / "universal";
  testing::unpack(fixture("universal.zip"), folder);
  const DeepSpeedFolder made = open((folder / "global_step3").string());
  const DeepSpeedFolder source = open(fixture("zero2_frozen"));
  CHECK(made.slots() == source.slots());
  CHECK(made.progress().steps == 3);
  CHECK(made.progress().updates == 3);
  for (const char* slot : {kWeightSlot, "exp_avg", "exp_avg_sq"}) {
    REQUIRE(made.tensors(slot).size() == source.tensors(slot).size());
    for (const auto& [name, tensor] : source.tensors(slot)) {
      CAPTURE(slot, name);
      CHECK(made.tensor(name, slot).shape == tensor.shape);
      CHECK(all_of(made.tensor(name, slot)) == all_of(tensor));
    }
  }
}

TEST_CASE("checkpoints of older versions have the weights that zero_to_fp32 made of them",
          "[checkpoint]") {
  for (const auto& [archive, version, stage, ranks, tensors] :
       {std::tuple("v0.14.5_zero2_fp16", "0.14.5", 2, 2, 29),
        {"v0.14.5_zero3_bf16", "0.14.5", 3, 2, 29},
        {"v0.19.6_zero1_bf16", "0.19.6", 1, 1, 29},
        {"v0.19.6_zero3_fp32", "0.19.6", 3, 2, 29}}) {
    CAPTURE(archive);
    const testing::TemporaryDirectory place;
    testing::unpack(fixture(std::string(archive) + ".zip"), place.path());
    const DeepSpeedFolder folder = open(place.path().string());
    CHECK(folder.progress().version == version);
    CHECK(folder.progress().stage == stage);
    CHECK(folder.progress().data_ranks == ranks);
    CHECK(folder.progress().steps == 3);
    CHECK(folder.progress().rate ==
          Approx(0.001 + 0.009 * (folder.progress().skipped > 0 ? 1 : 2) / 6));
    const Value sums = sums_in(place.path());
    CHECK(std::ssize(sums.members()) == tensors);
    for (const Member& sum : sums.members()) {
      CAPTURE(sum.key);
      const Bytes bytes = all_of(folder.tensor(sum.key, kWeightSlot));
      CHECK(checksum(bytes) == sum.value.as_integer());
    }
  }
}

TEST_CASE("a pipeline has the weights of its stages, shared ones of the first", "[checkpoint]") {
  for (const auto& [name, stage, ranks, tensor_ranks] : {std::tuple("pipeline_zero1_bf16", 1, 1, 1),
                                                         {"pipeline_zero1_fp32", 1, 2, 1},
                                                         {"pipeline_zero0_fp32", 0, 1, 1},
                                                         {"pipeline_tensor_fp32", 1, 2, 2},
                                                         {"pipeline_tensor_told_bf16", 1, 1, 2}}) {
    CAPTURE(name);
    const testing::TemporaryDirectory place;
    testing::unpack(fixture(std::string(name) + ".zip"), place.path());
    const DeepSpeedFolder folder = open(place.path().string());
    CHECK(folder.progress().steps == 3);
    CHECK(folder.progress().data_ranks == ranks);
    CHECK(folder.progress().stage == stage);
    CHECK(folder.progress().tensor_ranks == tensor_ranks);
    CHECK_FALSE(folder.needs_cuts());
    size_t weights = 0;
    const Value sums = sums_in(place.path());
    for (const Member& sum : sums.members()) {
      CAPTURE(sum.key);
      constexpr std::string_view kMoment = "exp_avg/";
      const bool is_moment = sum.key.starts_with(kMoment);
      const std::string parameter = is_moment ? sum.key.substr(kMoment.size()) : sum.key;
      const Bytes bytes = all_of(folder.tensor(parameter, is_moment ? "exp_avg" : kWeightSlot));
      CHECK(checksum(bytes) == sum.value.as_integer());
      weights += is_moment ? 0 : 1;
    }
    CHECK(folder.parameters().size() == weights);
    if (stage == 0) {
      CHECK_THROWS_AS(folder.slots(), Unsupported);
    } else {
      CHECK(folder.slots() == std::vector<std::string>{"exp_avg", "exp_avg_sq"});
    }
  }
}

TEST_CASE("a pipeline without one of its stages, or with one of another step, is refused",
          "[checkpoint]") {
  std::string archive = "pipeline_zero1_bf16.zip";
  const auto refusal = [&](const auto& spoil) -> std::string {
    const testing::TemporaryDirectory place;
    testing::unpack(fixture(archive), place.path());
    spoil(place.path() / "global_step3");
    try {
      open(place.path().string());
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::string last = "mp_rank_01_model_states.pt";
  const std::string optimizer = "bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt";
  CHECK_THAT(refusal([&](const fs::path& tag) { fs::remove(tag / "mp_rank_00_model_states.pt"); }),
             Catch::Contains("mp_rank_00_model_states.pt: is missing"));
  CHECK_THAT(refusal([&](const fs::path& tag) {
               fs::remove(tag / last);
               fs::remove(tag / optimizer);
             }),
             Catch::Contains(last + ": is missing; the checkpoint is of a pipeline of 2 stages"));
  CHECK_THAT(refusal([&](const fs::path& tag) { fs::remove(tag / optimizer); }),
             Catch::Contains("mp_rank_01_model_states.pt: is of ZeRO, but no file"));
  CHECK_THAT(refusal([&](const fs::path& tag) {
               const testing::TemporaryDirectory other;
               testing::unpack(fixture("pipeline_zero0_fp32.zip"), other.path());
               fs::copy_file(other.path() / "global_step3" / last, tag / last,
                             fs::copy_options::overwrite_existing);
             }),
             Catch::Contains(last));
  CHECK_THAT(refusal([&](const fs::path& tag) {
               fs::rename(tag / "layer_02-model_states.pt", tag / "layer_x-model_states.pt");
             }),
             Catch::Contains("its name says no layer"));
  archive = "pipeline_tensor_told_bf16.zip";
  CHECK_THAT(
      refusal([](const fs::path& tag) { fs::remove(tag / "layer_02-model_01-model_states.pt"); }),
      Catch::Contains("layer_02-model_01-model_states.pt: is missing; the checkpoint is of 2 "
                      "tensor-parallel ranks of a pipeline"));
  CHECK_THAT(refusal([](const fs::path& tag) {
               fs::remove(tag / "mp_rank_03_model_states.pt");
               fs::remove(tag / "bf16_zero_pp_rank_0_mp_rank_03_optim_states.pt");
             }),
             Catch::Contains("mp_rank_03_model_states.pt: is missing; the checkpoint is of a "
                             "pipeline, and each rank has files of its own"));
  CHECK_THAT(
      refusal([](const fs::path& tag) {
        for (const char* rank : {"02", "03"}) {
          fs::remove(tag / fmt::format("mp_rank_{}_model_states.pt", rank));
          fs::remove(tag / fmt::format("bf16_zero_pp_rank_0_mp_rank_{}_optim_states.pt", rank));
        }
      }),
      Catch::Contains("mp_rank_02_model_states.pt: is missing; the checkpoint is of a "
                      "pipeline of 2 stages with 2 tensor-parallel ranks"));
}

TEST_CASE("the tag that latest names is opened, or the one that is given", "[checkpoint]") {
  RealFileSystem files;
  const std::string path = fixture("zero2_fp32");
  CHECK(open(path).directory() == path + "/global_step3");
  CHECK(open(path + "/global_step3").directory() == path + "/global_step3");
  CHECK(DeepSpeedFolder::open(files, path, "global_step3").directory() == path + "/global_step3");
  CHECK_THROWS_AS(DeepSpeedFolder::open(files, path, "global_step4"), InputMissing);
  CHECK_THROWS_AS(open(path + "/nowhere"), InputMissing);
  const Copied copy("zero2_fp32");
  fs::remove(fs::path(copy.path()) / "latest");
  CHECK_THROWS_WITH(open(copy.path()), Catch::Contains("latest"));
}

TEST_CASE("a rank's file that is missing is named", "[checkpoint]") {
  const Copied copy("zero2_fp32");
  fs::remove(copy.file(kSecondRank));
  CHECK_THROWS_AS(open(copy.path()), InputMissing);
  CHECK_THROWS_WITH(open(copy.path()), Catch::Contains(copy.file(kSecondRank).string()));
  fs::remove(copy.file(kFirstRank));
  CHECK_THROWS_AS(open(copy.path()), InputMissing);
}

TEST_CASE("files of another checkpoint are named", "[checkpoint]") {
  const auto replace = [](const Copied& copy, const std::string& name, const std::string& other) {
    fs::copy_file(fixture(other + "/" + name), copy.file(name),
                  fs::copy_options::overwrite_existing);
  };
  const Copied stages("zero2_fp32");
  replace(stages, kSecondRank, "zero3_fp32");
  CHECK_THROWS_AS(open(stages.path()), DataError);
  CHECK_THROWS_WITH(open(stages.path()), Catch::Contains(stages.file(kSecondRank).string()));
  const Copied models("zero2_fp32");
  replace(models, kSecondRank, "zero2_frozen");
  CHECK_THROWS_AS(open(models.path()), DataError);
  const Copied ranks("zero2_fp32");
  fs::copy_file(ranks.file(kSecondRank), ranks.file("zero_pp_rank_2_mp_rank_00_optim_states.pt"));
  CHECK_THROWS_WITH(open(ranks.path()), Catch::Contains("zero_pp_rank_2"));
}

TEST_CASE("a file that was copied under the name of another rank is refused", "[checkpoint]") {
  const Copied copy("zero2_fp32");
  fs::copy_file(copy.file(kFirstRank), copy.file(kSecondRank),
                fs::copy_options::overwrite_existing);
  CHECK_THROWS_AS(open(copy.path()), DataError);
  CHECK_THROWS_WITH(open(copy.path()), Catch::Contains("one of them is a copy"));
}

TEST_CASE("a file that ends early is named", "[checkpoint]") {
  for (const char* name : {kModel, kSecondRank}) {
    CAPTURE(name);
    const Copied copy("zero2_fp32");
    fs::resize_file(copy.file(name), fs::file_size(copy.file(name)) / 2);
    CHECK_THROWS_AS(open(copy.path()), DataError);
    CHECK_THROWS_WITH(open(copy.path()), Catch::Contains(copy.file(name).string()));
  }
}

}  // namespace
}  // namespace ds::deepspeed
