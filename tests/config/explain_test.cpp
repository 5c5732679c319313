// explain on the documents' own examples (repaired where they are broken): every value that does
// not come from a default, with its origin. Two data-parallel ranks.
#include "config/explain.h"

#include <fmt/format.h>

#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {

TEST_CASE("explain shows what the documents' examples set, and where", "[config]") {
  testing::run_golden("config/explain.txt", [](const std::string& command) {
    std::string out;
    const ReadConfig read = read_config_text(command, "f");
    for (const Problem& problem : read.problems.all()) out += problem.text() + "\n";
    for (const ExplainedValue& row : explain_all(read, 2)) {
      if (row.origin.starts_with("default")) continue;
      out += fmt::format("{} = {} ({})\n", row.path, row.value, row.origin);
    }
    return out;
  });
}

TEST_CASE("explain of one key says what it means and names the nearest key", "[config]") {
  const ReadConfig read = read_config_text("{\"zero_optimization\": {\"stage\": 2}}", "f");
  CHECK_THAT(explain_key(read, 1, "zero_optimization.stage"), Catch::Contains("= 2  (f:1:33)"));
  CHECK_THAT(explain_key(read, 1, "zero_optimization.max_live_parameters"),
             Catch::Contains("stage3_max_live_parameters = 1000000000  (default)"));
  CHECK_THAT(explain_key(read, 1, "zero_optimization.stage"), Catch::Contains("here: used\n"));
  CHECK_THAT(explain_key(read, 1, "zero_optimization.reduce_scatter"),
             Catch::Contains("here: always so: gradients are always reduced by reduce-scatter"));
  CHECK_THAT(explain_key(read, 1, "zero_optimization.zero_quantized_weights"),
             Catch::Contains("here: not yet\n"));
  CHECK_THROWS_WITH(explain_key(read, 1, "zero_optimization.stge"),
                    Catch::Contains("did you mean zero_optimization.stage?"));
}

}  // namespace ds
