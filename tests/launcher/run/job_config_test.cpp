#include "launcher/run/job_config.h"

#include <fstream>

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

JobConfig load(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const testing::TemporaryDirectory here;
  const std::filesystem::path path = here.path() / "train.json";
  // What a run needs besides the keys under test.
  std::ofstream(here.path() / "rest.json")
      << R"({"model": {"family": "gpt2"}, "data": {"train": ["/a.txt"]},
             "optimizer": {"type": "AdamW"}, "train": {"steps": 1}})";
  std::ofstream(path) << R"({"include": ["rest.json"], )" << text.substr(1);
  JobConfig config = load_job_config(path.string(), overrides);
  CHECK(config.directory == here.path());
  CHECK(config.stem == "train");
  return config;
}

}  // namespace

TEST_CASE("a folder whose name is no UTF-8 is refused, because ranks could not be told it",
          "[launcher]") {
  const testing::TemporaryDirectory here;
  const std::filesystem::path folder = here.path() / "caf\xe9";
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "train.json")
      << R"({"model": {"family": "gpt2"}, "data": {"train": ["/a.txt"]}, "train_batch_size": 8,
             "optimizer": {"type": "AdamW"}, "train": {"steps": 1}})";
  const std::string path = (folder / "train.json").string();
  CHECK_THROWS_AS(load_job_config(path, {}), ConfigError);
  CHECK_THROWS_WITH(load_job_config(path, {}),
                    Catch::Contains("caf\xEF\xBF\xBD: the folder's name is no UTF-8"));
}

TEST_CASE("a model of runs/latest is that of the run which it names at the start", "[launcher]") {
  const testing::TemporaryDirectory here;
  const std::filesystem::path runs = here.path() / "runs";
  std::filesystem::create_directories(runs / "one" / "final");
  std::filesystem::create_directory_symlink("one", runs / "latest");
  const std::string folder = (runs / "latest" / "final").string();
  std::ofstream(here.path() / "train.json")
      << R"({"model": ")" << folder << R"(", "data": {"train": ["/a.txt"]},
      "train_batch_size": 8, "optimizer": {"type": "AdamW"}, "train": {"steps": 1}})";
  const std::string text =
      load_job_config((here.path() / "train.json").string(), {}).canonical_text;
  CHECK_THAT(text, Catch::Contains((runs / "one" / "final").string()));
  CHECK_THAT(text, !Catch::Contains("latest"));
}

TEST_CASE("elasticity.min_time is how long a world runs before it grows", "[launcher]") {
  CHECK(load(R"({"train_batch_size": 8})").shortest_run == std::chrono::minutes(0));
  CHECK(load(R"({"elasticity": {"enabled": true, "max_train_batch_size": 8, "version": 0.1,
                 "micro_batch_sizes": [2, 4], "min_time": 20}})")
            .shortest_run == std::chrono::minutes(20));
}

TEST_CASE("who looks at the hosts is told where swap files go from the place where ranks start",
          "[launcher]") {
  const JobConfig config = load(
      R"({"train_batch_size": 8, "zero_optimization": {"stage": 3,
          "offload_optimizer": {"device": "nvme", "nvme_path": "swap"}}})");
  CHECK(config.nvme_paths ==
        std::vector<std::string>{(std::filesystem::current_path() / "swap").string()});
}

TEST_CASE("equal configurations have one digest, whatever their spelling", "[launcher]") {
  const JobConfig a = load(R"({"train_batch_size": 8, "bf16": {"enabled": true}})");
  const JobConfig b = load("{bf16: {enabled: true}  # comment\n train_batch_size: 8}");
  CHECK(a.digest.size() == 64);
  CHECK(a.digest == b.digest);
  CHECK(load(R"({"train_batch_size": 8})").digest != a.digest);
  CHECK(load(R"({"train_batch_size": 8})", {"bf16.enabled=true"}).digest == a.digest);
}

TEST_CASE("the launcher takes its own settings from the config", "[launcher]") {
  const JobConfig config =
      load(R"({"train_batch_size": 8, "steps_per_print": 3, "train": {"resume": "never"}})");
  CHECK(config.steps_per_print == 3);
  CHECK(config.resume == ResumeMode::kNever);
  CHECK_FALSE(implied_ranks(config.batch));
}

TEST_CASE("three batch sizes leave one number of ranks", "[launcher]") {
  const JobConfig config = load(
      R"({"train_batch_size": 24, "train_micro_batch_size_per_gpu": 2,
          "gradient_accumulation_steps": 3})");
  CHECK(implied_ranks(config.batch) == 4);
  check_batch_sizes(config.batch, 4);
  CHECK_THROWS_WITH(check_batch_sizes(config.batch, 2), Catch::Contains("--num-ranks 4"));
  const JobConfig odd = load(
      R"({"train_batch_size": 25, "train_micro_batch_size_per_gpu": 2,
          "gradient_accumulation_steps": 3})");
  CHECK_FALSE(implied_ranks(odd.batch));
  CHECK_THROWS_AS(check_batch_sizes(odd.batch, 4), ConfigError);
}

TEST_CASE("the smallest world that the batch sizes fit", "[launcher]") {
  const auto smallest = [](const char* text) { return smallest_world(load(text).batch); };
  CHECK(smallest(R"({"train_batch_size": 8})") == 1);
  CHECK(smallest(R"({"train_micro_batch_size_per_gpu": 3})") == 1);
  CHECK(smallest(R"({"train_batch_size": 24, "train_micro_batch_size_per_gpu": 2,
                     "gradient_accumulation_steps": 3})") == 4);
  CHECK(smallest(R"({"train_batch_size": 24, "zero_optimization": {"stage": 3,
                     "mics_shard_size": 3}})") == 3);
  CHECK(smallest(R"({"train_batch_size": 24, "tensor_parallel": {"autotp_size": 2}})") == 2);
  CHECK(smallest(R"({"elasticity": {"enabled": true, "max_train_batch_size": 16, "version": 0.1,
                     "micro_batch_sizes": [4], "min_gpus": 3}})") == 4);
  CHECK_THROWS_WITH(smallest(R"({"train_batch_size": 25, "train_micro_batch_size_per_gpu": 2})"),
                    Catch::Contains("25 is no multiple of train_micro_batch_size_per_gpu 2"));
  CHECK_THROWS_WITH(smallest(R"({"train_batch_size": 25, "train_micro_batch_size_per_gpu": 2,
                                 "gradient_accumulation_steps": 3})"),
                    Catch::Contains("train_batch_size 25 is not"));
  CHECK_THROWS_WITH(smallest(R"({"train_batch_size": 8, "zero_optimization": {"stage": 3,
                                 "mics_shard_size": 3}})"),
                    Catch::Contains("mics_shard_size"));
}

TEST_CASE("a world with stages is whole pipelines, whose schedule can do with their micro-batches",
          "[launcher]") {
  const auto with = [](const char* schedule) {
    return load(fmt::format(R"({{"train_batch_size": 24, "train_micro_batch_size_per_gpu": 1,
        "model": {{"family": "gpt2", "n_layer": 8}},
        "pipeline": {{"stages": 4, "schedule": "{}"}}, "tensor_parallel": {{"autotp_size": 2}}}})",
                            schedule))
        .batch;
  };
  const BatchRequest plain = with("1f1b");
  check_batch_sizes(plain, 24);
  for (const int ranks : {8, 16, 24}) CHECK(same_batch(plain, 24, ranks));
  for (const int ranks : {4, 12, 20, 40}) CHECK_FALSE(same_batch(plain, 24, ranks));
  const BatchRequest rounds = with("interleaved");
  CHECK(same_batch(rounds, 8, 24));  // 24 and 8 micro-batches, in rounds of 4 stages
  CHECK(same_batch(rounds, 8, 16));
  CHECK_FALSE(same_batch(rounds, 8, 32));
  CHECK_THROWS_WITH(check_batch_sizes(rounds, 32),
                    Catch::Contains("pipeline.schedule: 6 micro-batches in a step"));
}

TEST_CASE("neighbourhoods that do not divide the ranks are found before ranks start",
          "[launcher]") {
  const JobConfig config = load(
      R"({"train_micro_batch_size_per_gpu": 2,
          "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 2}})");
  check_batch_sizes(config.batch, 4);
  CHECK_THROWS_WITH(check_batch_sizes(config.batch, 3),
                    Catch::Contains("zero_hpz_partition_size: 2 does not divide the 3 ranks"));
  const JobConfig elastic =
      load(R"({"train_batch_size": 12, "zero_optimization": {"stage": 3, "mics_shard_size": 2}})");
  CHECK(same_batch(elastic.batch, 4, 2));
  CHECK_FALSE(same_batch(elastic.batch, 4, 3));
}

TEST_CASE("what is wrong is found before anything starts", "[launcher]") {
  CHECK_THROWS_AS(load(R"({"train_batch_sise": 8})"), ConfigError);
  CHECK_THROWS_AS(load(R"({"train_batch_size": )"), ConfigError);
  CHECK_THROWS_AS(load(R"({"train_batch_size": 8})", {"no.such.key=1"}), ConfigError);
  CHECK_THROWS_AS(load_job_config("/nowhere/train.json", {}), InputMissing);
  CHECK_THROWS_WITH(load(R"({"train_batch_size": 8})", {"~model"}),
                    Catch::Contains("model: is needed to train"));
}

}  // namespace ds
