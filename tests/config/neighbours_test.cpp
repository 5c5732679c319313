// ZeRO++ and MiCS in a file: what excludes what, what has no effect at other stages, and how many
// ranks are near each other.
#include <fmt/format.h>

#include "config/available.h"
#include "config/config.h"
#include "config/load.h"
#include "config/sections/near_ranks.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

// What stands in zero_optimization, at stage 3, and what stands beside it.
ReadConfig read(const std::string& zero, const std::string& beside = "") {
  ReadConfig config = read_config_text(
      fmt::format(R"({{"zero_optimization": {{"stage": 3, {}}}{}}})", zero, beside), "f");
  check_available(config.config, config.origins, config.problems);
  return config;
}

std::string errors_of(const ReadConfig& config) {
  std::string text;
  for (const Problem& problem : config.problems.all()) {
    if (problem.severity == Severity::kError) text += problem.path + ": " + problem.message + "\n";
  }
  return text;
}

TEST_CASE("what of ZeRO++ and MiCS makes no sense together is one error", "[config]") {
  struct Row {
    const char* zero;
    const char* beside;
    const char* says;
  };
  for (const Row& row :
       {Row{R"("mics_shard_size": 2, "zero_hpz_partition_size": 2)", "",
            "zero_hpz_partition_size: excludes mics_shard_size"},
        Row{R"("mics_shard_size": 2, "zero_quantized_gradients": true)", "",
            "zero_quantized_gradients: excludes mics_shard_size"},
        Row{R"("zero_hpz_partition_size": 2, "offload_param": {"device": "cpu"})", "",
            "zero_hpz_partition_size: keeps a second copy of the weights on the device"},
        Row{R"("zero_quantized_gradients": true)", R"(, "communication_data_type": "bf16")",
            "communication_data_type: excludes zero_optimization.zero_quantized_gradients"}}) {
    CAPTURE(row.zero);
    const std::string said = errors_of(read(row.zero, row.beside));
    CHECK_THAT(said, Catch::Contains(row.says));
    CHECK(std::ranges::count(said, '\n') == 1);
  }
  for (const char* const fine :
       {R"("zero_hpz_partition_size": 2, "zero_quantized_weights": true,
            "zero_quantized_gradients": true)",
        R"("mics_shard_size": 2, "zero_quantized_weights": true)",
        R"("mics_shard_size": -1, "zero_hpz_partition_size": 2)",
        R"("zero_hpz_partition_size": 0, "offload_param": {"device": "cpu"})",
        R"("zero_quantized_gradients": true, "offload_optimizer": {"device": "cpu"})"}) {
    CAPTURE(fine);
    CHECK(errors_of(read(fine)).empty());
  }
}

TEST_CASE("neighbours are those of a shard, of the secondary partition, or of a host", "[config]") {
  const auto near = [](const std::string& zero, int64_t ranks, int64_t of_host) {
    return near_size(read(zero).config.zero_optimization, ranks, of_host);
  };
  CHECK(near(R"("zero_quantized_weights": true)", 8, 4) == 1);
  CHECK(near(R"("zero_hpz_partition_size": 2)", 8, 4) == 2);
  CHECK(near(R"("zero_hpz_partition_size": 2, "zero_quantized_gradients": true)", 8, 4) == 2);
  CHECK(near(R"("zero_quantized_gradients": true)", 8, 4) == 4);
  CHECK(near(R"("zero_hpz_partition_size": 1, "zero_quantized_gradients": true)", 8, 4) == 4);
  CHECK(near(R"("mics_shard_size": 8)", 8, 4) == 8);
  CHECK(near(R"("mics_shard_size": 0)", 8, 4) == 1);
  CHECK_THROWS_WITH(near(R"("mics_shard_size": 3)", 8, 4),
                    Catch::Contains("zero_optimization.mics_shard_size: 3 does not divide the 8 "
                                    "ranks, expected a divisor of 8"));
  CHECK_THROWS_WITH(near(R"("zero_hpz_partition_size": 16)", 8, 4),
                    Catch::Contains("zero_hpz_partition_size: 16 does not divide the 8 ranks"));
  CHECK_THROWS_WITH(near(R"("zero_quantized_gradients": true)", 8, 3),
                    Catch::Contains("hosts have different numbers of ranks (3 of 8"));
  const ReadConfig stage2 =
      read_config_text(R"({"zero_optimization": {"stage": 2, "zero_hpz_partition_size": 3}})", "f");
  CHECK(near_size(stage2.config.zero_optimization, 8, 4) == 1);
}

}  // namespace
}  // namespace ds
