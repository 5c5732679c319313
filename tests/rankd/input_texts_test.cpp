// Prompts and texts out of files and lines.
#include "rankd/verbs/input_texts.h"

#include "tests/support/catch.h"
#include "tests/support/memory_file_system.h"

using namespace ds;

TEST_CASE("only the last line break is taken away", "[rankd]") {
  CHECK(without_last_break("a\n") == "a");
  CHECK(without_last_break("a\r\n") == "a");
  CHECK(without_last_break("a\n\n") == "a\n");
  CHECK(without_last_break("a ") == "a ");
  CHECK(without_last_break("").empty());
}

TEST_CASE("lines that are not empty are texts", "[rankd]") {
  CHECK(lines_of("a\n\nb\r\nc") == std::vector<std::string>{"a", "b", "c"});
  CHECK(lines_of("\n\n").empty());
  CHECK(lines_of("").empty());
}

TEST_CASE("a file is a text as it is", "[rankd]") {
  MemoryFileSystem files;
  const std::string text = "two\nlines\n";
  files.create("/a.txt")->write(0, std::as_bytes(std::span(text)));
  CHECK(read_text_file(files, "/a.txt") == text);
  CHECK_THROWS_AS(read_text_file(files, "/b.txt"), InputMissing);
}
