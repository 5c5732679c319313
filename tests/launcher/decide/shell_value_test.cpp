#include "launcher/decide/text/shell_value.h"

#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

const Environment kVariables{{"HOME", "/home/me"}, {"A", "x y"}, {"A1", "one"}, {"_B", "$A"}};

std::string answer(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  const ShellValue read = read_shell_value(text, kVariables);
  return fmt::format("[{}]{}", read.value, read.left.empty() ? "" : " left: " + read.left);
}

}  // namespace

TEST_CASE("values are read as a shell reads them", "[launcher]") {
  testing::run_golden("launcher/decide/shell_value.txt", answer);
}

TEST_CASE("an empty value is empty, and no home leaves the sign for it", "[launcher]") {
  CHECK(read_shell_value("", kVariables).value.empty());
  CHECK(read_shell_value("~/x", {}).value == "~/x");
  CHECK(read_shell_value("$HOME/x", {}).value == "/x");
}

}  // namespace ds
