// What can go wrong with a file, and that each of it is said once, with the path and the reason.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "core/files/file.h"
#include "core/files/input_files.h"
#include "core/files/mapped_file.h"
#include "core/values/rng.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

void put(FileSystem& fs, const std::string& path, std::string_view text) {
  fs.create(path)->write(0, bytes_of(text));
}

std::string in(const testing::TemporaryDirectory& scratch, std::string_view name) {
  return join_path(scratch.path().string(), name);
}

enum class Kind { kMissing, kFull, kOther };

Kind kind_of(int error_number) {
  try {
    throw_io_error("poke", "/p", error_number);
  } catch (const InputMissing&) {
    return Kind::kMissing;
  } catch (const DiskFull&) {
    return Kind::kFull;
  } catch (const IoError&) {
    return Kind::kOther;
  }
}

TEST_CASE("an error number is a missing input, a full disk or a failed disk", "[core]") {
  for (const int missing : {ENOENT, ENOTDIR}) CHECK(kind_of(missing) == Kind::kMissing);
  for (const int full : {ENOSPC, EDQUOT}) CHECK(kind_of(full) == Kind::kFull);
  for (const int other : {EIO, EACCES, EPERM, EROFS, EFBIG, ELOOP, ENAMETOOLONG, EMFILE, ESTALE}) {
    CAPTURE(other);
    CHECK(kind_of(other) == Kind::kOther);
  }
}

TEST_CASE("the room that is left is told of the nearest folder that is there", "[core]") {
  const auto message_for = [](const char* path) -> std::string {
    try {
      throw_io_error("write", path, ENOSPC);
    } catch (const DiskFull& error) {
      return error.what();
    }
  };
  CHECK_THAT(message_for("/there/is/none/of/these"), Catch::Contains(" bytes are free there)"));
  // A path without any folder has no nearest one: the reason stands alone.
  CHECK(message_for("no_such_relative_file") ==
        "write no_such_relative_file: No space left on device");
}

TEST_CASE("a read beyond the end names how far the file goes and what was wanted", "[core]") {
  const testing::TemporaryDirectory scratch;
  RealFileSystem fs;
  put(fs, in(scratch, "f"), "0123456789");
  const auto file = fs.open(in(scratch, "f"));
  std::vector<std::byte> into(6);
  CHECK_NOTHROW(file->read(4, into));
  CHECK(into[0] == std::byte{'4'});
  CHECK_THROWS_WITH(file->read(5, into),
                    Catch::Contains("the file ends at byte 10, expected at least 11 bytes"));
  CHECK_THROWS_WITH(file->read(50, into), Catch::Contains("ends at byte 50, expected at least 56"));
  CHECK_THROWS_AS(file->read(5, into), IoError);
  CHECK_THROWS_AS(file->read(-1, into), IoError);
  CHECK_NOTHROW(file->read(50, std::span<std::byte>()));  // nothing is there, and nothing wanted
}

TEST_CASE("a device without room is a full disk, a closed one says so", "[core]") {
  const Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  REQUIRE(full.valid());
  CHECK_THROWS_AS(write_fully(full.get(), 0, bytes_of("x"), "/dev/full"), DiskFull);
  CHECK_THROWS_WITH(write_fully(full.get(), 7, bytes_of("x"), "/dev/full"),
                    Catch::StartsWith("write at byte 7 of /dev/full: No space left on device"));
  CHECK_NOTHROW(write_fully(full.get(), 0, {}, "/dev/full"));
  std::vector<std::byte> into(1);
  CHECK_THROWS_WITH(read_fully(-1, 3, into, "/f"), "read at byte 3 of /f: Bad file descriptor");
  CHECK_THROWS_WITH(write_fully(-1, 3, bytes_of("x"), "/f"),
                    "write at byte 3 of /f: Bad file descriptor");
}

TEST_CASE("a limit on file sizes is named with the file that met it", "[core]") {
  const testing::TemporaryDirectory scratch;
  const std::string path = in(scratch, "f");
  // In a child, because the limit is the whole process's.
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100, 100};
    int code = ::setrlimit(RLIMIT_FSIZE, &limit) == 0 ? 1 : 2;
    try {
      RealFileSystem fs;
      fs.create(path)->write(0, bytes_of(std::string(200, 'x')));
    } catch (const DiskFull&) {
      code = 3;
    } catch (const IoError& error) {
      const bool said = std::string_view(error.what()).find("ulimit -f") != std::string_view::npos;
      code = said ? 0 : 4;
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(RealFileSystem().open(path)->size() == 100);
}

TEST_CASE("a file that is open for reading is not written, and one for writing not read",
          "[core]") {
  const testing::TemporaryDirectory scratch;
  RealFileSystem fs;
  const auto out = fs.create(in(scratch, "f"));
  out->write(0, bytes_of("abc"));
  std::vector<std::byte> into(3);
  CHECK_THROWS_AS(out->read(0, into), IoError);
  const auto file = fs.open(in(scratch, "f"));
  CHECK_THROWS_WITH(file->write(0, bytes_of("x")), Catch::Contains(in(scratch, "f")));
  CHECK_THROWS_WITH(file->allocate(10), Catch::Contains("reserve 10 bytes for"));
  CHECK(fs.read_text(in(scratch, "f"), 3) == "abc");
}

TEST_CASE("reserved storage counts to the file, and none is reserved for nothing", "[core]") {
  const testing::TemporaryDirectory scratch;
  RealFileSystem fs;
  const auto file = fs.create(in(scratch, "f"));
  file->allocate(0);
  CHECK(file->size() == 0);
  file->allocate(1000);
  CHECK(file->size() == 1000);
  file->write(990, bytes_of("twenty bytes or more"));
  CHECK(file->size() == 1010);
  CHECK(file->path() == in(scratch, "f"));
}

TEST_CASE("a text that is cached is found in memory", "[core]") {
  const testing::TemporaryDirectory scratch;
  RealFileSystem fs;
  put(fs, in(scratch, "f"), "abc");
  put(fs, in(scratch, "empty"), "");
  CHECK(fs.open(in(scratch, "f"))->is_cached());
  CHECK_FALSE(fs.open(in(scratch, "empty"))->is_cached());
}

TEST_CASE("a folder is listed by name, with what each entry is", "[core]") {
  const testing::TemporaryDirectory scratch;
  RealFileSystem fs;
  put(fs, in(scratch, "b"), "x");
  put(fs, in(scratch, "B"), "x");
  fs.make_directory(in(scratch, "a"));
  REQUIRE(::symlink("b", in(scratch, "link").c_str()) == 0);
  REQUIRE(::symlink("nowhere", in(scratch, "dangling").c_str()) == 0);
  REQUIRE(::mkfifo(in(scratch, "fifo").c_str(), 0600) == 0);
  std::string listed;
  for (const DirectoryEntry& entry : fs.list(scratch.path())) {
    const char* kind = "other";
    if (entry.kind == DirectoryEntry::Kind::kFile) kind = "file";
    if (entry.kind == DirectoryEntry::Kind::kDirectory) kind = "directory";
    listed += fmt::format("{} {}\n", entry.name, kind);
  }
  CHECK(listed ==
        "B file\n"
        "a directory\n"
        "b file\n"
        "dangling other\n"
        "fifo other\n"
        "link other\n");
  CHECK(fs.exists(in(scratch, "link")));
  CHECK_FALSE(fs.exists(in(scratch, "dangling")));
  CHECK_FALSE(fs.exists(in(scratch, "b/below_a_file")));
}

TEST_CASE("a folder that is not empty is neither removed nor replaced", "[core]") {
  const testing::TemporaryDirectory scratch;
  RealFileSystem fs;
  fs.make_directories(in(scratch, "full/inner"));
  fs.make_directory(in(scratch, "empty"));
  CHECK_THROWS_WITH(fs.remove(in(scratch, "full")), Catch::Contains("not empty"));
  CHECK_THROWS_WITH(fs.rename(in(scratch, "empty"), in(scratch, "full")),
                    Catch::Contains(in(scratch, "empty") + " to " + in(scratch, "full")));
  CHECK_THROWS_AS(fs.remove_tree(in(scratch, "none")), InputMissing);
  CHECK_THROWS_AS(fs.sync_directory(in(scratch, "none")), InputMissing);
  CHECK_THROWS_AS(fs.free_bytes(in(scratch, "none")), InputMissing);
  CHECK_THROWS_AS(fs.list(in(scratch, "none")), InputMissing);
  fs.remove_tree(in(scratch, "full"));
  fs.remove(in(scratch, "empty"));
  CHECK(fs.list(scratch.path()).empty());
}

TEST_CASE("folders are made by several at once, and not below a file", "[core]") {
  const testing::TemporaryDirectory scratch;
  const std::string deep = in(scratch, "a/b/c/d/e");
  std::vector<std::thread> ranks;
  std::atomic<int> failed{0};
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&] {
      try {
        RealFileSystem().make_directories(deep);
      } catch (const Error&) {
        ++failed;
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  CHECK(failed == 0);
  RealFileSystem fs;
  CHECK(fs.exists(deep));
  put(fs, in(scratch, "file"), "x");
  CHECK_THROWS_AS(fs.make_directories(in(scratch, "file/below")), Error);
}

TEST_CASE("what a replacement left behind before does not stop the next one", "[core]") {
  MemoryFileSystem fs;
  fs.make_directory("/d");
  put(fs, "/d/text.tmp", "half of an earl");
  fs.write_text_atomically("/d/text", "whole");
  CHECK(fs.read_text("/d/text", 100) == "whole");
  CHECK_FALSE(fs.exists("/d/text.tmp"));
  fs.write_text_atomically("/d/text", "");
  CHECK(fs.read_text("/d/text", 0).empty());
}

TEST_CASE("a descriptor has one owner", "[core]") {
  const auto is_open = [](int fd) { return ::fcntl(fd, F_GETFD) >= 0; };
  Fd first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Fd second(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int one = first.get(), two = second.get();
  REQUIRE(first.valid());
  first = std::move(second);
  CHECK_FALSE(is_open(one));
  CHECK(first.get() == two);
  CHECK_FALSE(second.valid());  // NOLINT(bugprone-use-after-move): what is promised of it
  Fd third(std::move(first));
  CHECK(third.get() == two);
  const int released = third.release();
  CHECK(released == two);
  CHECK_FALSE(third.valid());
  CHECK(is_open(two));
  { const Fd last(released); }
  CHECK_FALSE(is_open(two));
  CHECK_FALSE(Fd().valid());
}

TEST_CASE("several threads read one file at once", "[core]") {
  const testing::TemporaryDirectory scratch;
  RealFileSystem fs;
  std::string text(40000, ' ');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 23);
  put(fs, in(scratch, "f"), text);
  const auto file = fs.open(in(scratch, "f"));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Rng rng(t, "reads");
      std::vector<std::byte> into;
      for (uint64_t i = 0; i < 200; ++i) {
        const size_t begin = rng.bits(2 * i) % text.size();
        into.resize(rng.bits(2 * i + 1) % (text.size() - begin));
        file->read(static_cast<int64_t>(begin), into);
        const auto expected = bytes_of(std::string_view(text).substr(begin, into.size()));
        if (!std::ranges::equal(into, expected)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a mapping is refused for what is no file, and replaces the one it is assigned to",
          "[core]") {
  const testing::TemporaryDirectory scratch;
  RealFileSystem fs;
  put(fs, in(scratch, "a"), "first");
  put(fs, in(scratch, "b"), "the second");
  CHECK_THROWS_WITH(MappedFile(in(scratch, "none")),
                    Catch::Contains(in(scratch, "none") + ": No such file"));
  CHECK_THROWS_AS(MappedFile(scratch.path().string()), DataError);
  MappedFile map(in(scratch, "a"));
  map = MappedFile(in(scratch, "b"));
  CHECK(std::ranges::equal(map.bytes(), bytes_of("the second")));
  MappedFile none;
  CHECK(none.bytes().empty());
  none = std::move(map);
  CHECK(std::ranges::equal(none.bytes(), bytes_of("the second")));
}

TEST_CASE("inputs are read through and through, and refuse every change by name", "[core]") {
  MemoryFileSystem below;
  below.make_directory("/d");
  put(below, "/d/f", "text");
  InputFiles inputs(below);
  CHECK(inputs.exists("/d/f"));
  CHECK(inputs.list("/d").size() == 1);
  const auto file = inputs.open("/d/f");
  CHECK(file->size() == 4);
  CHECK(file->path() == "/d/f");
  const std::vector<std::pair<const char*, std::function<void()>>> changes{
      {"create /x", [&] { inputs.create("/x"); }},
      {"rename /d/f", [&] { inputs.rename("/d/f", "/d/g"); }},
      {"make directory /x", [&] { inputs.make_directory("/x"); }},
      {"sync /d", [&] { inputs.sync_directory("/d"); }},
      {"remove /d/f", [&] { inputs.remove("/d/f"); }},
      {"free space of /d", [&] { static_cast<void>(inputs.free_bytes("/d")); }},
      {"write /d/f", [&] { file->write(0, bytes_of("x")); }},
      {"allocate /d/f", [&] { file->allocate(1); }},
      {"sync /d/f", [&] { file->sync(); }}};
  for (const auto& [what, change] : changes) {
    CAPTURE(what);
    CHECK_THROWS_AS(change(), InternalError);
    CHECK_THROWS_WITH(change(), Catch::StartsWith(what));
  }
  CHECK(below.read_text("/d/f", 10) == "text");
}

}  // namespace
}  // namespace ds
