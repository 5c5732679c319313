// docs/config.md and docs/models.md are generated; these tests fail when one is stale. To
// renew them: DS_REWRITE_GOLDEN=1 build/bin/config_tests "[generated]".
#include "config/explain/documentation.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "config/catalogue.h"
#include "config/explain/models_page.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {

namespace {

void check_page(const std::string& name, const std::string& expected) {
  const std::string path = fmt::format("{}/docs/{}", testing::source_directory(), name);
  if (std::getenv("DS_REWRITE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << expected;
  }
  std::ostringstream found;
  found << std::ifstream(path, std::ios::binary).rdbuf();
  INFO(path << " is stale; run DS_REWRITE_GOLDEN=1 build/bin/config_tests \"[generated]\"");
  CHECK((found.str() == expected));
}

}  // namespace

TEST_CASE("docs/config.md says what fields() says", "[config][generated]") {
  check_page("config.md", config_documentation());
}

TEST_CASE("docs/models.md says what families say", "[config][generated]") {
  check_page("models.md", models_page());
}

TEST_CASE("every key by which people see what a run does is there", "[config]") {
  const std::set<std::string> wanted{"tensorboard",
                                     "wandb",
                                     "comet",
                                     "csv_monitor",
                                     "flops_profiler",
                                     "comms_logger",
                                     "timers",
                                     "eigenvalue",
                                     "wall_clock_breakdown",
                                     "steps_per_print",
                                     "memory_breakdown",
                                     "dump_state",
                                     "dataloader_drop_last",
                                     "log_level",
                                     "data_efficiency.seed",
                                     "train.log_every",
                                     "elasticity.min_time"};
  std::set<std::string> seen;
  for (const CatalogueEntry& entry : catalogue()) {
    for (const std::string& path : {entry.path, entry.path.substr(0, entry.path.find('.'))}) {
      if (!wanted.contains(path)) continue;
      seen.insert(path);
      INFO(entry.path);
      CHECK(entry.effect != Effect::kNotYet);
    }
  }
  CHECK(seen == wanted);
}

}  // namespace ds
