// Elastic batches over many generated sections: the steps against plain loops, and what must hold
// of every batch that is decided and of every loss of nodes.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "config/elastic_batch.h"
#include "tests/support/catch.h"
#include "tests/support/draws.h"

namespace ds {
namespace {

class SectionMaker : public test::Draws {
 public:
  using Draws::Draws;
  ElasticOptions options(double version) {
    ElasticOptions o;
    o.version = version;
    o.micro_batch_sizes.clear();
    for (int64_t i = pick(1, 4); i > 0; --i) o.micro_batch_sizes.push_back(pick(1, 24));
    o.max_train_batch_size = pick(200, 5000);
    o.min_gpus = pick(1, 8);
    o.max_gpus = pick(40, 400);
    o.prefer_larger_batch = pick(0, 1) == 1;
    if (version == 0.2) {
      o.num_gpus_per_node = int64_t{1} << pick(0, 3);
      o.model_parallel_size = int64_t{1} << pick(0, 3);
      while (o.num_gpus_per_node % o.model_parallel_size != 0) o.model_parallel_size /= 2;
    }
    return o;
  }
};

// Divisors are counted, not looked up.
int64_t largest_highly_composite(int64_t bound) {
  int64_t best = 1, most = 0;
  for (int64_t n = 1; n <= bound; ++n) {
    int64_t divisors = 0;
    for (int64_t d = 1; d <= n; ++d) divisors += n % d == 0 ? 1 : 0;
    if (divisors > most) {
      most = divisors;
      best = n;
    }
  }
  return best;
}

}  // namespace

TEST_CASE("candidates are what counting divisors says", "[config]") {
  std::vector<int64_t> largest(1001);
  for (int64_t bound = 1; bound <= 1000; ++bound) {
    const int64_t micros[] = {1};
    const auto index = static_cast<size_t>(bound);
    // The largest changes seldom: counting for each of its values is enough.
    if (bound == 1 || candidate_batches(micros, bound) != std::vector{largest[index - 1]}) {
      largest[index] = largest_highly_composite(bound);
    } else {
      largest[index] = largest[index - 1];
    }
    REQUIRE(candidate_batches(micros, bound) == std::vector{largest[index]});
  }
  SectionMaker maker(1);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<int64_t> micros;
    for (int64_t i = maker.pick(1, 4); i > 0; --i) micros.push_back(maker.pick(1, 30));
    const int64_t bound = maker.pick(30, 1000);
    std::set<int64_t> expected;
    std::vector<int64_t> bases = micros;
    bases.push_back(std::accumulate(micros.begin(), micros.end(), int64_t{1},
                                    [](int64_t a, int64_t b) { return std::lcm(a, b); }));
    for (const int64_t base : bases) {
      if (base <= bound) expected.insert(base * largest[static_cast<size_t>(bound / base)]);
    }
    CAPTURE(micros, bound);
    CHECK(candidate_batches(micros, bound) ==
          std::vector<int64_t>(expected.begin(), expected.end()));
  }
}

TEST_CASE("valid counts are those that a plain search finds", "[config]") {
  SectionMaker maker(2);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<int64_t> micros;
    for (int64_t i = maker.pick(1, 4); i > 0; --i) micros.push_back(maker.pick(1, 12));
    const int64_t batch = maker.pick(1, 3000), low = maker.pick(1, 20), high = maker.pick(1, 500);
    std::vector<int64_t> expected;
    for (int64_t count = low; count <= high; ++count) {
      if (std::ranges::any_of(micros, [&](int64_t m) { return batch % (m * count) == 0; })) {
        expected.push_back(count);
      }
    }
    CAPTURE(batch, micros, low, high);
    REQUIRE(valid_device_counts(batch, micros, low, high) == expected);
  }
}

TEST_CASE("every valid world of a batch gets sizes that multiply to it", "[config]") {
  size_t worlds = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    SectionMaker maker(seed);
    const ElasticOptions o = maker.options(seed % 2 == 0 ? 0.1 : 0.2);
    const ElasticWorld whole{.given = 0,
                             .fallback = o.num_gpus_per_node * o.model_parallel_size * 4};
    const ElasticBatch batch = elastic_batch(o, whole);
    CAPTURE(seed, o.version, o.micro_batch_sizes, o.max_train_batch_size);
    CHECK(batch.train_batch_size <= o.max_train_batch_size);
    if (batch.train_batch_size == 0) {  // one sample for each rank is too much already
      const int64_t ranks = *whole.fallback / o.model_parallel_size;
      CHECK(*std::ranges::min_element(o.micro_batch_sizes) * ranks > o.max_train_batch_size);
      continue;
    }
    if (o.version != 0.1 || !batch.valid_counts) continue;
    CHECK(std::ranges::is_sorted(*batch.valid_counts));
    for (const int64_t world : *batch.valid_counts) {
      CHECK(world >= o.min_gpus);
      CHECK(world <= o.max_gpus);
      const BatchSizes sizes = elastic_batch_sizes(o, world, BatchKeys::kAbsent);
      CHECK(sizes.train == batch.train_batch_size);
      CHECK(sizes.micro * sizes.accumulation * world == sizes.train);
      CHECK(std::ranges::find(o.micro_batch_sizes, sizes.micro) != o.micro_batch_sizes.end());
      ++worlds;
    }
  }
  CHECK(worlds > 500);
}

TEST_CASE("no world but the valid ones is served, and the refusal lists those", "[config]") {
  SectionMaker maker(5);
  const ElasticOptions o = maker.options(0.1);
  const ElasticBatch batch = elastic_batch(o, {});
  REQUIRE(batch.valid_counts);
  for (int64_t world = 1; world <= 450; ++world) {
    const bool valid = std::ranges::binary_search(*batch.valid_counts, world);
    if (valid) {
      CHECK_NOTHROW(elastic_batch(o, {.given = world, .fallback = std::nullopt}));
      continue;
    }
    try {
      elastic_batch(o, {.given = world, .fallback = std::nullopt});
      FAIL("world " << world << " was served");
    } catch (const ElasticError& error) {
      CHECK(error.problem() == ElasticProblem::kIncompatibleWorld);
      CHECK_THAT(error.what(),
                 Catch::Contains(fmt::format("{} is not a valid data-parallel size", world)) &&
                     Catch::Contains(fmt::format("{}", batch.valid_counts->front())));
    }
  }
}

TEST_CASE("whatever is lost, the batch stays and what is left adds up", "[config]") {
  size_t rows_seen = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    SectionMaker maker(seed + 1000);
    const ElasticOptions o = maker.options(seed % 2 == 0 ? 0.1 : 0.2);
    const int64_t nodes = maker.pick(1, 12);
    const int64_t devices = o.version == 0.2 ? o.num_gpus_per_node : maker.pick(1, 8);
    std::vector<ElasticRow> rows;
    try {
      rows = elastic_losses(o, nodes, devices, maker.pick(0, 20));
    } catch (const ElasticError&) {
      continue;  // the whole cluster has no batch; said by the cases above
    }
    CAPTURE(seed, o.version, nodes, devices);
    std::set<int64_t> batches;
    for (size_t lost = 0; lost < rows.size(); ++lost) {
      const ElasticRow& row = rows[lost];
      CHECK(row.nodes_lost == static_cast<int64_t>(lost));
      CHECK(row.nodes == nodes - row.nodes_lost);
      CHECK(row.nodes >= 1);
      CHECK(row.devices == row.nodes * devices);
      CHECK(row.idle_devices + row.data_parallel_size * o.model_parallel_size == row.devices);
      CHECK(row.idle_devices >= 0);
      if (row.data_parallel_size == 0) {
        CHECK(row.batch == BatchSizes{});
        continue;
      }
      batches.insert(row.batch.train);
      CHECK(row.batch.micro * row.batch.accumulation * row.data_parallel_size == row.batch.train);
      ++rows_seen;
    }
    CHECK(batches.size() <= 1);
  }
  CHECK(rows_seen > 300);
}

TEST_CASE("fewer ranks are never used while more are left", "[config]") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SectionMaker maker(seed + 2000);
    const ElasticOptions o = maker.options(0.1);
    const auto rows = elastic_losses(o, 12, 4, 11);
    for (size_t i = 1; i < rows.size(); ++i) {
      CAPTURE(seed, i);
      CHECK(rows[i].data_parallel_size <= rows[i - 1].data_parallel_size);
    }
  }
}

TEST_CASE("problems of elasticity have DeepSpeed's names", "[config]") {
  CHECK(to_string(ElasticProblem::kConfig) == "ElasticityConfigError");
  CHECK(to_string(ElasticProblem::kUnavailable) == "ElasticityError");
  CHECK(to_string(ElasticProblem::kIncompatibleWorld) == "ElasticityIncompatibleWorldSize");
}

TEST_CASE("each number of a section that cannot be is named with its value", "[config]") {
  const auto said = [](auto change) {
    ElasticOptions o;
    change(o);
    try {
      validate(o);
    } catch (const ElasticError& error) {
      return std::string(error.what());
    }
    return std::string("valid");
  };
  CHECK(said([](auto&) {}) == "valid");
  CHECK(said([](auto& o) {
          o.micro_batch_sizes = {2, 0};
        }) == "elasticity: micro_batch_sizes entry is 0, expected 1 or more");
  CHECK(said([](auto& o) { o.min_gpus = 0; }) == "elasticity: min_gpus is 0, expected 1 or more");
  CHECK(said([](auto& o) { o.max_gpus = -3; }) == "elasticity: max_gpus is -3, expected 1 or more");
  CHECK(said([](auto& o) { o.model_parallel_size = 0; }) ==
        "elasticity: model_parallel_size is 0, expected 1 or more");
  CHECK(said([](auto& o) { o.num_gpus_per_node = 0; }) ==
        "elasticity: num_gpus_per_node is 0, expected 1 or more");
  CHECK(said([](auto& o) { o.min_time = -0.5; }) ==
        "elasticity: min_time is -0.5, expected 0 or more");
  CHECK(said([](auto& o) { o.min_time = std::nan(""); }) ==
        "elasticity: min_time is nan, expected 0 or more");
  CHECK(said([](auto& o) { o.version = 0.3; }) ==
        "elasticity: version 0.3 is newer than 0.2, the newest known");
}

}  // namespace ds
