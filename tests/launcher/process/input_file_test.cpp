#include "launcher/process/files/input_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

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
  CHECK_THROWS_WITH(read_input_file(here.path(), 10),
                    "open " + here.path().string() + ": it is a directory, not a regular file");
  CHECK_THROWS_AS(read_input_file("/dev/zero", 10), DataError);
}

TEST_CASE("a file that is missing is an error or nothing, as the caller wants", "[launcher]") {
  const testing::TemporaryDirectory here;
  const fs::path missing = here.path() / "missing";
  CHECK_THROWS_AS(read_input_file(missing, 10), InputMissing);
  CHECK_THROWS_WITH(read_input_file(missing, 10),
                    "open " + missing.string() + ": No such file or directory");
  CHECK_FALSE(read_input_file_if_there(missing, 10));
  CHECK(read_input_file_if_there(written(here, "text"), 10) == "text");
  // What is there and cannot be read is no file that is missing.
  CHECK_THROWS_AS(read_input_file_if_there(here.path(), 10), DataError);
}

TEST_CASE("a link to a regular file is one, a link to a device or to nothing is not",
          "[launcher]") {
  const testing::TemporaryDirectory here;
  fs::create_symlink(written(here, "text"), here.path() / "to_file");
  fs::create_symlink("/dev/zero", here.path() / "to_device");
  fs::create_symlink("nowhere", here.path() / "to_nothing");
  CHECK(read_input_file(here.path() / "to_file", 10) == "text");
  CHECK_THROWS_WITH(read_input_file_if_there(here.path() / "to_device", 10),
                    Catch::Contains("to_device: it is a device"));
  CHECK_FALSE(read_input_file_if_there(here.path() / "to_nothing", 10));
}

TEST_CASE("what is read in part or in lines is refused and bounded alike", "[launcher]") {
  const testing::TemporaryDirectory here;
  const auto ignore = [](std::string_view) {};
  const fs::path pipe = here.path() / "pipe";
  const fs::path socket = here.path() / "socket";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE(mknod(socket.c_str(), S_IFSOCK | 0600, 0) == 0);
  for (const fs::path& odd : {pipe, socket, here.path(), fs::path("/dev/zero")}) {
    CAPTURE(odd);
    CHECK_THROWS_AS(read_part(odd, 0, 10), DataError);
    CHECK_THROWS_AS(read_lines(odd, 10, ignore), DataError);
    CHECK(system_text(odd).empty());
  }
  const fs::path file = written(here, "0123456789");
  CHECK(read_part(file, 0, 100) == "0123456789");
  CHECK(read_part(file, 3, 4) == "3456");
  CHECK(read_part(file, 8, 4) == "89");
  CHECK(read_part(file, 10, 4).empty());
  CHECK(read_part(file, uintmax_t{1} << 63, 4).empty());
  CHECK(read_part(here.path() / "missing", 0, 4).empty());
  CHECK_FALSE(read_lines(here.path() / "missing", 10, ignore));
  CHECK(read_lines(file, 10, ignore));
  CHECK_THROWS_AS(read_lines(file, 9, ignore), DataError);
  CHECK_THAT(system_text("/proc/self/status"), Catch::Contains("Pid:"));
}

TEST_CASE("lines come one by one, only with their ends, and one that is too long in pieces",
          "[launcher]") {
  const testing::TemporaryDirectory here;
  const std::string endless(1 << 20, 'x');
  const fs::path file = written(here, "one\n\n" + endless + "\ntwo\nhalf");
  std::vector<std::string> lines;
  size_t longest = 0;
  size_t of_endless = 0;
  CHECK(read_lines(file, 2 << 20, [&](std::string_view line) {
    longest = std::max(longest, line.size());
    if (line.starts_with('x')) {
      of_endless += line.size();
    } else {
      lines.emplace_back(line);
    }
  }));
  CHECK(lines == std::vector<std::string>{"one", "", "two"});
  CHECK(of_endless == endless.size());
  CHECK(longest <= 128 << 10);
}

}  // namespace ds
