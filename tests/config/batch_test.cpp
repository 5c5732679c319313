// The batch triangle by a table that a reader can check, and its refusals.
#include "config/batch.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

constexpr auto kNone = std::nullopt;

TEST_CASE("every pair of batch numbers gives the third", "[config]") {
  const BatchSizes expected{.train = 32, .micro = 8, .accumulation = 2};
  CHECK(resolve_batch(32, 8, 2, 2) == expected);
  CHECK(resolve_batch(32, 8, kNone, 2) == expected);
  CHECK(resolve_batch(32, kNone, 2, 2) == expected);
  CHECK(resolve_batch(kNone, 8, 2, 2) == expected);
}

TEST_CASE("one batch number alone means a single micro-step", "[config]") {
  CHECK(resolve_batch(45, kNone, kNone, 3) == BatchSizes{45, 15, 1});
  CHECK(resolve_batch(kNone, 6, kNone, 64) == BatchSizes{384, 6, 1});
}

TEST_CASE("batch numbers that do not agree are told by what was written, with what would fit",
          "[config]") {
  CHECK_THROWS_WITH(resolve_batch(8, kNone, kNone, 3),
                    "batch sizes do not agree: train_batch_size 8 is no multiple of 3 "
                    "data-parallel ranks; a train_batch_size of 6 or 9 would fit, or 2 or 4 ranks");
  CHECK_THROWS_WITH(resolve_batch(8, kNone, kNone, 15),
                    "batch sizes do not agree: train_batch_size 8 is no multiple of 15 "
                    "data-parallel ranks; a train_batch_size of 15 would fit, or 8 ranks");
  CHECK_THROWS_WITH(resolve_batch(33, 16, kNone, 2),
                    "batch sizes do not agree: train_batch_size 33 is no multiple of "
                    "train_micro_batch_size_per_gpu 16 * 2 data-parallel ranks = 32; a "
                    "train_batch_size of 32 or 64 would fit");
  CHECK_THROWS_WITH(resolve_batch(32, kNone, 5, 2),
                    Catch::Contains("no multiple of gradient_accumulation_steps 5 * 2 "
                                    "data-parallel ranks = 10; a train_batch_size of 30 or 40"));
  CHECK_THROWS_WITH(resolve_batch(24, 2, 3, 2),
                    "batch sizes do not agree: train_batch_size 24 is not "
                    "train_micro_batch_size_per_gpu 2 * gradient_accumulation_steps 3 * 2 "
                    "data-parallel ranks = 12; a train_batch_size of 12 would fit, or 4 "
                    "data-parallel ranks");
  CHECK_THROWS_WITH(resolve_batch(33, 17, 2, 1), Catch::EndsWith("of 34 would fit"));
  CHECK_THROWS_WITH(resolve_batch(2, kNone, kNone, 3), Catch::EndsWith("or 2 ranks"));
  CHECK_THROWS_WITH(resolve_batch(1, kNone, kNone, 3), Catch::EndsWith("or 1 rank"));
}

TEST_CASE("batch numbers that are missing, zero, negative or too large are refused", "[config]") {
  CHECK_THROWS_AS(resolve_batch(kNone, kNone, 3, 8), ConfigError);
  CHECK_THROWS_WITH(resolve_batch(2, 1, kNone, 4), Catch::Contains("train_batch_size of 4"));
  CHECK_THROWS_WITH(resolve_batch(8, 0, kNone, 1),
                    Catch::Contains("train_micro_batch_size_per_gpu is 0"));
  CHECK_THROWS_AS(resolve_batch(kNone, -4, -1, 1), ConfigError);
  CHECK_THROWS_AS(resolve_batch(kNone, int64_t{1} << 40, int64_t{1} << 40, 1), ConfigError);
}

TEST_CASE("ranks that share a sample count once", "[config]") {
  CHECK(data_parallel_size(8, 2) == 4);
  CHECK_THROWS_AS(data_parallel_size(8, 3), ConfigError);
  CHECK_THROWS_AS(data_parallel_size(8, 0), ConfigError);
}

}  // namespace
}  // namespace ds
