#include <fstream>

#include "core/status/error.h"
#include "launcher/verbs/elastic.h"
#include "launcher/verbs/engine_verb.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

std::string elastic(const std::string& text, ElasticVerbOptions options = {}) {
  const testing::TemporaryDirectory here;
  options.config = (here.path() / "train.json").string();
  std::ofstream(options.config) << text;
  return elastic_text(options);
}

// The example of DeepSpeed's documentation and tests.
constexpr const char* kExample = R"({"elasticity": {"enabled": true,
    "max_train_batch_size": 10000, "micro_batch_sizes": [8, 12, 16, 17], "min_gpus": 32,
    "max_gpus": 1500, "min_time": 20, "version": 0.1}})";

}  // namespace

TEST_CASE("elastic prints the batch, the worlds and the micro batch", "[launcher]") {
  ElasticVerbOptions options;
  options.json = true;
  CHECK_THAT(elastic(kExample, options),
             Catch::StartsWith("{\"final_batch_size\": 9792, \"valid_gpus\": [32, ") &&
                 Catch::EndsWith("\"micro_batch_size\": null}\n"));
  options.world_size = 64;
  CHECK_THAT(elastic(kExample, options), Catch::EndsWith("\"micro_batch_size\": 17}\n"));
}

TEST_CASE("elastic refuses worlds and files that do not fit", "[launcher]") {
  ElasticVerbOptions options;
  options.world_size = 128;
  CHECK_THROWS_AS(elastic(kExample, options), ConfigError);
  CHECK_THROWS_WITH(elastic(R"({"train_batch_size": 8})"),
                    Catch::Contains("elasticity.enabled is not true"));
}

TEST_CASE("plan is told the ranks that run would use, unless the user says", "[launcher]") {
  using Arguments = std::vector<std::string>;
  const Arguments given = completed_arguments({"plan", "t.json"}, "");
  REQUIRE(given.size() == 3);
  CHECK_THAT(given[2], Catch::StartsWith("--num-ranks="));
  for (const Arguments& gpus : {Arguments{"plan", "t.json", "--device", "cuda"},
                                Arguments{"plan", "--device=cuda", "t.json"}}) {
    Arguments one = gpus;
    one.emplace_back("--num-ranks=1");  // there are none here
    CHECK(completed_arguments(gpus, "") == one);
  }
  for (const Arguments& complete :
       {Arguments{"plan", "t.json", "--num-ranks", "3"},
        Arguments{"plan", "--num-ranks=3", "t.json"}, Arguments{"generate", "folder"}}) {
    CHECK(completed_arguments(complete, "") == complete);
  }
}

}  // namespace ds
