// Prompts and texts out of lines.
#include "cli/standard_input.h"

#include "tests/support/catch.h"

using namespace ds;

TEST_CASE("only the last line break is taken away", "[cli]") {
  CHECK(without_last_break("a\n") == "a");
  CHECK(without_last_break("a\r\n") == "a");
  CHECK(without_last_break("a\n\n") == "a\n");
  CHECK(without_last_break("a ") == "a ");
  CHECK(without_last_break("").empty());
}

TEST_CASE("lines that are not empty are texts", "[cli]") {
  CHECK(lines_of("a\n\nb\r\nc") == std::vector<std::string>{"a", "b", "c"});
  CHECK(lines_of("\n\n").empty());
  CHECK(lines_of("").empty());
}
