#include <algorithm>

#include "config/effect.h"
#include "config/load.h"
#include "config/reader/json_reader.h"
#include "core/status/error.h"
#include "launcher/inventory/features.h"
#include "launcher/inventory/inventory_text.h"
#include "launcher/inventory/libraries.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

FeatureInputs fit_machine() {
  return {.bf16_products = true,
          .programs = {"ssh", "mpirun", "srun"},
          .has_mpi = true,
          .missing_keys = {}};
}

FeatureFact feature_of(const FeatureInputs& inputs, const std::string& name) {
  const std::vector<FeatureFact> features = judge_features(inputs);
  const auto found = std::ranges::find(features, name, &FeatureFact::name);
  REQUIRE(found != features.end());
  return *found;
}

}  // namespace

TEST_CASE("a feature that is there needs no advice, one that is not has some", "[launcher]") {
  for (const FeatureInputs& inputs :
       {FeatureInputs{.engine_problem = "no rankd", .missing_keys = keys_with_missing_features()},
        fit_machine()}) {
    for (const FeatureFact& feature : judge_features(inputs)) {
      INFO(feature.name);
      CHECK_FALSE(feature.needs.empty());
      CHECK(feature.how.empty() == (feature.has == true));
    }
  }
}

TEST_CASE("what rankd was not asked is not known", "[launcher]") {
  FeatureInputs inputs = fit_machine();
  CHECK(feature_of(inputs, "bf16 faster than fp32").has == true);
  inputs.engine_problem = "rankd is of another build";
  CHECK_FALSE(feature_of(inputs, "bf16 faster than fp32").has.has_value());
  const FeatureFact training = feature_of(inputs, "training on CPUs");
  CHECK(training.has == false);
  CHECK(training.how == "rankd is of another build");
}

TEST_CASE("a GPU in the machine is of no use to a build that does not train on GPUs",
          "[launcher]") {
  FeatureInputs inputs = fit_machine();
  inputs.gpus = 8;
  CHECK(feature_of(inputs, "GPUs").has == false);
  CHECK_THAT(feature_of(inputs, "GPUs").how, Catch::Contains("DS_WITH_CUDA=ON"));
  inputs.has_cuda = true;
  CHECK(feature_of(inputs, "GPUs").has == true);
  inputs.gpus = 0;
  CHECK_THAT(feature_of(inputs, "GPUs").how, Catch::Contains("this machine shows no GPU"));
}

TEST_CASE("features of train.json stand or fall with what check refuses", "[launcher]") {
  FeatureInputs inputs = fit_machine();
  CHECK(feature_of(inputs, "fp16").has == true);
  inputs.missing_keys = {"fp16", "activation_checkpointing.cpu_checkpointing",
                         "pipeline_of_another.name"};
  CHECK(feature_of(inputs, "fp16").has == false);
  CHECK(feature_of(inputs, "activations partitioned or on the CPU").has == false);
  CHECK(feature_of(inputs, "pipeline parallelism").has == true);
}

// A slip in a key would make a feature appear that is not there.
TEST_CASE("every key that a feature stands or falls with is a key of train.json", "[launcher]") {
  for (const FeatureFact& feature : judge_features({.missing_keys = {}})) {
    FeatureInputs inputs = fit_machine();
    inputs.missing_keys = keys_with_missing_features();
    if (feature.has != true || feature_of(fit_machine(), feature.name).has != true) continue;
    const FeatureFact today = feature_of(inputs, feature.name);
    if (today.has == true) continue;
    const size_t begin = today.how.find('"') + 1;
    const std::string key = today.how.substr(begin, today.how.rfind('"') - begin);
    INFO(key);
    const ReadConfig read = read_config_text("{}", "test", std::vector{key + "=null"});
    for (const Problem& problem : read.problems.all())
      CHECK_THAT(problem.text(), !Catch::Contains("unknown key"));
  }
}

TEST_CASE("the engine's answer is read, and anything else is refused", "[launcher]") {
  const EngineFacts facts = parse_engine_facts(
      R"({"build_id": "1+a", "libraries": [{"name": "oneDNN", "version": "2.6.3",
          "purpose": "products"},
          {"name": "MPI", "version": null, "purpose": "more"}], "onednn_isa": "AMX",
              "vectors": "AVX2",
          "bf16_products": true})");
  CHECK(facts.build_id == "1+a");
  REQUIRE(facts.libraries.size() == 2);
  CHECK(facts.libraries[0].version == "2.6.3");
  CHECK_FALSE(facts.libraries[1].version.has_value());
  CHECK(facts.bf16_products);
  CHECK_THROWS_AS(parse_engine_facts(R"({"build_id": "1+a"})"), DataError);
  CHECK_THROWS_AS(parse_engine_facts("usage: rankd"), Error);
}

TEST_CASE("what is not known is said to be unknown, to people and to programs", "[launcher]") {
  Inventory inventory;
  inventory.groups = {{"memory",
                       {{.key = "total", .value = int64_t{1} << 30, .unit = FactUnit::kBytes},
                        {.key = "cgroup_limit", .note = "the kernel does not say"}}}};
  inventory.libraries = {
      {.name = "NCCL", .use = LibraryUse::kUnused, .purpose = "GPUs", .missing = "no such file"},
      {.name = "libaio", .use = LibraryUse::kUnused, .purpose = "NVMe", .file = "/lib/libaio.so.1"},
      {.name = "cuDNN",
       .use = LibraryUse::kUnused,
       .version = "9.1.0",
       .purpose = "GPUs",
       .file = "/lib/libcudnn.so.9",
       .unusable = "cuDNN 9.1.0 has no function f"},
      {.name = "cuFile",
       .use = LibraryUse::kUnused,
       .purpose = "files",
       .file = "/lib/libcufile.so.0",
       .unusable = "cuFile (/lib/libcufile.so.0) has no function g"}};
  inventory.network = {{"eth0", {"10.0.0.2"}}};
  inventory.features = {{"bf16", "AMX", std::nullopt, "rankd could not be asked"}};
  inventory.missing_keys = {"fp16"};
  const std::string text = inventory_text(inventory);
  for (const char* const line :
       {"  total         1.0 GiB\n", "  cgroup limit  unknown (the kernel does not say)\n",
        "  NCCL    not found               for GPUs\n",
        "  libaio  found, version unknown  for NVMe   /lib/libaio.so.1\n",
        "  cuDNN   9.1.0                   for GPUs   /lib/libcudnn.so.9 (cuDNN 9.1.0 has no "
        "function f)\n",
        "  cuFile  found, version unknown  for files  cuFile (/lib/libcufile.so.0) has no function "
        "g\n",
        "  eth0  speed unknown  10.0.0.2\n", "  unknown  bf16  AMX  rankd could not be asked\n",
        "1 keys of train.json"}) {
    CHECK_THAT(text, Catch::Contains(line));
  }
  const Value json = read_config_document(inventory_json(inventory), "json");
  CHECK(json.find("memory")->find("total")->as_integer() == int64_t{1} << 30);
  CHECK(json.find("memory")->find("cgroup_limit")->is_null());
  CHECK(json.find("memory")->find("cgroup_limit_note")->as_string() == "the kernel does not say");
  CHECK_FALSE(json.find("libraries")->items()[0].find("found")->as_boolean());
  const Value& cudnn = json.find("libraries")->items()[2];
  CHECK(cudnn.find("found")->as_boolean());
  CHECK(cudnn.find("file")->as_string() == "/lib/libcudnn.so.9");
  CHECK(cudnn.find("unusable")->as_string() == "cuDNN 9.1.0 has no function f");
  CHECK(json.find("libraries")->items()[1].find("unusable") == nullptr);
  CHECK(json.find("features")->items()[0].find("has")->is_null());
  CHECK(json.find("network")->items()[0].find("megabits")->is_null());
}

}  // namespace ds
