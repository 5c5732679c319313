// Token-bound batching, by tests/golden/token_batches.txt.
#include "data/efficiency/token_batches.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/status/error.h"
#include "tests/support/arguments.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

using namespace ds;
using ds::testing::Arguments;

namespace {

std::string answer(const std::string& command) {
  const Arguments args(command);
  TokenBatchOptions options{
      .max_tokens = args.integer("tokens"),
      .min_batch_size = args.integer("least", 1),
      .micro_batches_per_batch = args.integer("micro", 1),
      .sizes = args.has("equal") ? MicroBatchSizes::kEqual : MicroBatchSizes::kFree,
      .order = args.has("sorted") ? PackingOrder::kByLength : PackingOrder::kGiven};
  if (args.has("most")) options.max_batch_size = args.integer("most");
  try {
    std::string out;
    for (const TokenBatch& batch : token_batches(args.list<int64_t>("lengths"), options)) {
      for (const auto& samples : batch.micro_batches) {
        out += fmt::format("[{}] ", fmt::join(samples, " "));
      }
      out += fmt::format("samples {} longest {}\n", batch.samples, batch.longest);
    }
    return out;
  } catch (const ConfigError& error) {
    return fmt::format("error: {}\n", error.what());
  }
}

}  // namespace

TEST_CASE("token-bound batches follow the golden file", "[data]") {
  ds::testing::run_golden("token_batches.txt", answer);
}
