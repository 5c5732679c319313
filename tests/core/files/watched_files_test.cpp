// Files that tell how many bytes are read and written, and are otherwise those below.
#include "core/files/watched_files.h"

#include <array>

#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

namespace ds {

TEST_CASE("what is read and written is told once it is done", "[core]") {
  MemoryFileSystem below;
  std::vector<std::pair<int64_t, int64_t>> told;
  WatchedFiles files(below, [&](int64_t end, int64_t bytes) { told.emplace_back(end, bytes); });
  std::array<std::byte, 10> some{};
  {
    const std::unique_ptr<File> file = files.create("/a");
    file->write(0, some);
    file->append(std::span(some).first(3));
    file->sync();
    CHECK(file->size() == 13);
    CHECK(file->path() == "/a");
  }
  const std::unique_ptr<File> file = files.open("/a");
  file->read(4, std::span(some).first(2));
  using Told = std::vector<std::pair<int64_t, int64_t>>;
  CHECK(told == Told{{10, 10}, {13, 3}, {6, 2}});
  CHECK_THROWS_AS(file->read(10, some), IoError);
  CHECK(told.size() == 3);
  files.rename("/a", "/b");
  CHECK(files.exists("/b"));
  CHECK_FALSE(below.exists("/a"));
  CHECK_THROWS_AS(files.open("/a"), InputMissing);
}

}  // namespace ds
