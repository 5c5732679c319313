// Elastic batches: the rules one by one, the table of losses against a golden file, and refusals.
#include "config/elastic_batch.h"

#include "config/elastic_reader.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

ElasticOptions ten_thousand() {
  ElasticOptions o;
  o.max_train_batch_size = 10000;
  o.micro_batch_sizes = {8, 12, 16, 17};
  o.min_gpus = 32;
  o.max_gpus = 1500;
  o.version = 0.1;
  return o;
}

ElasticProblem problem_of(const ElasticOptions& options, ElasticWorld world) {
  try {
    elastic_batch(options, world);
  } catch (const ElasticError& error) {
    return error.problem();
  }
  FAIL("no error");
  return ElasticProblem::kConfig;
}

TEST_CASE("candidate batches are bases times highly composite numbers", "[config]") {
  const int64_t micros[] = {2, 4, 6};
  CHECK(candidate_batches(micros, 2000) == std::vector<int64_t>{1440, 1680});
  const int64_t one[] = {1};
  CHECK(candidate_batches(one, 720719) == std::vector<int64_t>{665280});
  const int64_t coprime[] = {9973, 9967, 9949};  // their multiple is beyond the bound
  CHECK(candidate_batches(coprime, 9973) == std::vector<int64_t>{9949, 9967, 9973});
}

TEST_CASE("a device count is valid when some micro batch divides its share", "[config]") {
  const int64_t micros[] = {4, 6};
  CHECK(valid_device_counts(24, micros, 1, 100) == std::vector<int64_t>{1, 2, 3, 4, 6});
  CHECK(valid_device_counts(24, micros, 3, 5) == std::vector<int64_t>{3, 4});
  CHECK(valid_device_counts(7, micros, 1, 100).empty());
}

TEST_CASE("version 0.1 finds the batch that most device counts divide", "[config]") {
  const ElasticBatch batch = elastic_batch(ten_thousand(), {.given = 64, .fallback = std::nullopt});
  CHECK(batch.train_batch_size == 9792);
  CHECK(batch.valid_counts->size() == 23);
  CHECK(batch.micro_batch_size == 17);
  CHECK(problem_of(ten_thousand(), {.given = 128, .fallback = std::nullopt}) ==
        ElasticProblem::kIncompatibleWorld);
}

TEST_CASE("version 0.2 counts nodes and serves an odd size alone", "[config]") {
  ElasticOptions o;
  CHECK(elastic_batch(o, {.given = 0, .fallback = 7}).train_batch_size == 1680);
  const ElasticBatch odd = elastic_batch(o, {.given = 0, .fallback = 11});
  CHECK(odd.train_batch_size == 1980);
  CHECK(odd.valid_counts == std::vector<int64_t>{11});
  CHECK(odd.micro_batch_size == 6);
  o.num_gpus_per_node = 8;
  o.model_parallel_size = 2;
  const ElasticBatch nodes = elastic_batch(o, {.given = 0, .fallback = 16});
  CHECK(nodes.train_batch_size == 1920);
  CHECK(nodes.valid_counts->size() == 20);
  CHECK(nodes.valid_counts->front() == 4);
  CHECK(nodes.valid_counts->back() == 960);
}

TEST_CASE("elasticity takes the batch over, with permission where keys are set", "[config]") {
  ElasticOptions o;
  o.max_train_batch_size = 32;
  o.micro_batch_sizes = {4, 9, 16};
  o.max_gpus = 16;
  o.version = 0.1;
  CHECK(elastic_batch_sizes(o, 1, BatchKeys::kAbsent) == BatchSizes{32, 16, 2});
  CHECK_THROWS_AS(elastic_batch_sizes(o, 1, BatchKeys::kPresent), ElasticError);
  o.ignore_non_elastic_batch_info = true;
  CHECK(elastic_batch_sizes(o, 1, BatchKeys::kPresent) == BatchSizes{32, 16, 2});
}

TEST_CASE("a world that no micro batch fits is told so, not that a batch is zero", "[config]") {
  ElasticOptions o;
  o.max_train_batch_size = 279;
  o.micro_batch_sizes = {14, 18};
  CHECK_THROWS_WITH(elastic_batch_sizes(o, 37, BatchKeys::kAbsent),
                    "elasticity: no micro batch fits 37 devices within the batch bound 279");
}

TEST_CASE("malformed elasticity is refused with its kind", "[config]") {
  const ElasticWorld four{.given = 4, .fallback = std::nullopt};
  const auto changed = [](auto change) {
    ElasticOptions o = ten_thousand();
    change(o);
    return o;
  };
  using enum ElasticProblem;
  CHECK(problem_of(changed([](auto& o) { o.micro_batch_sizes = {0, 2}; }), four) == kConfig);
  CHECK(problem_of(changed([](auto& o) { o.micro_batch_sizes = {}; }), four) == kConfig);
  CHECK(problem_of(changed([](auto& o) { o.micro_batch_sizes = {10001}; }), four) == kConfig);
  CHECK(problem_of(changed([](auto& o) { o.min_gpus = 0; }), four) == kConfig);
  CHECK(problem_of(changed([](auto& o) { o.max_gpus = 31; }), four) == kConfig);
  CHECK(problem_of(changed([](auto& o) { o.min_time = -1; }), four) == kConfig);
  CHECK(problem_of(changed([](auto& o) { o.model_parallel_size = 2; }), four) == kConfig);
  CHECK(problem_of(changed([](auto& o) { o.version = 0.3; }), four) == kConfig);
  CHECK(problem_of(changed([](auto& o) { o.version = 0.05; }), four) == kConfig);
  CHECK(problem_of(changed([](auto& o) { o.version = 0.2; }), {}) == kConfig);
  CHECK(problem_of(changed([](auto& o) {
                     o.version = 0.2;
                     o.num_gpus_per_node = 8;
                     o.model_parallel_size = 3;
                   }),
                   four) == kUnavailable);
}

TEST_CASE("versions before 0.3.8 know no elasticity", "[config]") {
  for (const char* version :
       {"0.3.7", "0.3.1", "0.2", "0", "abc", "0.3.8rc1", "0.3.8.dev0", "0.3.8-beta"}) {
    CHECK_THROWS_AS(require_elastic_version(version), ElasticError);
  }
  for (const char* version :
       {"0.3.8", "0.3.8.post1", "0.3.10", "0.4", "0.3.9.dev0", "1", "0.19.6+abc"}) {
    CHECK_NOTHROW(require_elastic_version(version));
  }
}

TEST_CASE("the scheduler's section is read by the section's own rules", "[config]") {
  const auto read = [](const char* text) {
    rapidjson::Document json;
    json.Parse(text);
    return read_elastic_options(json);
  };
  CHECK(read("{}").micro_batch_sizes == std::vector<int64_t>{2, 4, 6});
  CHECK(read(R"({"version": "0.1", "prefer_large_batch": false})").version == 0.1);
  CHECK_THROWS_WITH(read(R"({"enabled": true})"), Catch::Contains("max_train_batch_size"));
  CHECK_THROWS_AS(read(R"({"micro_batch_sizes": [2, 0.5]})"), ElasticError);
  CHECK_THROWS_AS(read(R"({"micro_batch_sizes": {"a": 1}})"), ElasticError);
  CHECK_THROWS_AS(read("[]"), ElasticError);
  ElasticOptions other = read("{}");
  CHECK_NOTHROW(require_same_elasticity(read(R"({"min_time": 3})"), other));
  CHECK_THROWS_WITH(require_same_elasticity(read(R"({"max_train_batch_size": 12})"), other),
                    Catch::Contains("max_train_batch_size is 12 for the scheduler, but 2000"));
}

// Commands: max micro,micro,... version nodes devices_per_node model_parallel max_lost
std::string losses(const std::string& command) {
  int64_t bound = 0, nodes = 0, devices = 0, model_parallel = 0, lost = 0;
  char list[64] = {};
  ElasticOptions o;
  if (std::sscanf(command.c_str(), "%ld %63s %lf %ld %ld %ld %ld", &bound, list, &o.version, &nodes,
                  &devices, &model_parallel, &lost) != 7) {
    return "bad command";
  }
  o.max_train_batch_size = bound;
  o.micro_batch_sizes.clear();
  for (char* at = list; *at;) {
    o.micro_batch_sizes.push_back(std::strtol(at, &at, 10));
    if (*at == ',') ++at;
  }
  o.num_gpus_per_node = o.version == 0.2 ? devices : 1;
  o.model_parallel_size = model_parallel;
  try {
    return elastic_table(o, nodes, devices, lost);
  } catch (const Error& error) {
    return std::string("error: ") + error.what();
  }
}

TEST_CASE("the table says what happens when nodes are lost", "[config]") {
  testing::run_golden("elastic_table.txt", losses);
}

}  // namespace
}  // namespace ds
