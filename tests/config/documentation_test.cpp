// docs/config.md and docs/train.schema.json are generated; these tests fail when they are stale. To
// renew them: DS_REWRITE_GOLDEN=1 build/bin/config_tests "[generated]".
#include "config/documentation.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

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

}  // namespace ds
