// Texts out of files.
#include "rankd/verbs/terminal/input_texts.h"

#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

using namespace ds;

TEST_CASE("a file is a text as it is", "[rankd]") {
  MemoryFileSystem files;
  const std::string text = "two\nlines\n";
  files.create("/a.txt")->write(0, std::as_bytes(std::span(text)));
  CHECK(read_text_file(files, "/a.txt") == text);
  CHECK_THROWS_AS(read_text_file(files, "/b.txt"), InputMissing);
}
