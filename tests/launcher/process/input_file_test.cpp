#include "launcher/process/input_file.h"

#include <sys/stat.h>

#include <fstream>

#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_directory.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

fs::path written(const testing::TemporaryDirectory& here, const std::string& text) {
  const fs::path path = here.path() / "file";
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

}  // namespace

TEST_CASE("a file up to the limit is read whole, and a byte more is refused", "[launcher]") {
  const testing::TemporaryDirectory here;
  const std::string binary("a\0\xff\n", 4);
  for (const std::string& text : {std::string(), binary, std::string(200'000, 'x')}) {
    const fs::path path = written(here, text);
    CHECK(read_input_file(path, text.size()) == text);
    if (text.empty()) continue;
    CHECK_THROWS_AS(read_input_file(path, text.size() - 1), DataError);
    CHECK_THROWS_WITH(
        read_input_file(path, text.size() - 1),
        path.string() + " has more than " + std::to_string(text.size() - 1) + " bytes");
  }
}

TEST_CASE("what is no regular file is refused at once, also a pipe that nobody writes",
          "[launcher]") {
  const testing::TemporaryDirectory here;
  const fs::path pipe = here.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_AS(read_input_file(pipe, 10), DataError);
  CHECK_THROWS_WITH(read_input_file(here.path(), 10), here.path().string() + " is no file");
  CHECK_THROWS_AS(read_input_file("/dev/zero", 10), DataError);
}

TEST_CASE("a file that is missing is an error or nothing, as the caller wants", "[launcher]") {
  const testing::TemporaryDirectory here;
  const fs::path missing = here.path() / "missing";
  CHECK_THROWS_AS(read_input_file(missing, 10), InputMissing);
  CHECK_THROWS_WITH(read_input_file(missing, 10),
                    "reading " + missing.string() + ": No such file or directory");
  CHECK_FALSE(read_input_file_if_there(missing, 10));
  CHECK(read_input_file_if_there(written(here, "text"), 10) == "text");
  // What is there and cannot be read is no file that is missing.
  CHECK_THROWS_AS(read_input_file_if_there(here.path(), 10), DataError);
}

}  // namespace ds
