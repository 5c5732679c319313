// What the user named and cannot be read: never an error that a second try could mend, and never a
// wait.
#include "core/files/input_files.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/files/mapped_file.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/files/temporary_directory.h"

using namespace ds;

namespace {

// Every read of it fails as a worn disk does.
class BrokenFile final : public File {
 public:
  using File::File;
  int64_t size() const override { return 10; }
  void read(int64_t, std::span<std::byte>) const override {
    throw_io_error("read at byte 0 of", path(), EIO);
  }
  bool is_cached() const override { return false; }
  void write(int64_t, std::span<const std::byte>) override {}
  void allocate(int64_t) override {}
  void sync() override {}
};

class BrokenDisk final : public MemoryFileSystem {
 public:
  using FileSystem::open;
  std::unique_ptr<File> open(const std::string& path, Caching) override {
    return std::make_unique<BrokenFile>(path);
  }
  bool exists(const std::string& path) const override { throw_io_error("stat", path, EACCES); }
};

}  // namespace

TEST_CASE("what is no regular file is refused at once, and by what it is", "[core]") {
  const testing::TemporaryDirectory scratch;
  const std::string root = scratch.path();
  REQUIRE(::mkdir((root + "/folder").c_str(), 0700) == 0);
  REQUIRE(::mkfifo((root + "/fifo").c_str(), 0600) == 0);
  const Fd listener(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string socket = root + "/socket";
  REQUIRE(socket.size() < sizeof(address.sun_path));
  socket.copy(address.sun_path, socket.size());
  REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  RealFileSystem real;
  InputFiles inputs(real);
  const std::vector<std::pair<std::string, std::string>> cases = {{root + "/folder", "a directory"},
                                                                  {root + "/fifo", "a FIFO"},
                                                                  {socket, "a socket"},
                                                                  {"/dev/null", "a device"}};
  for (const auto& [path, what] : cases) {
    CHECK_THROWS_AS(inputs.open(path), DataError);
    CHECK_THROWS_WITH(inputs.open(path), Catch::Contains(path + ": it is " + what));
    CHECK_THROWS_AS(inputs.read_text(path, 100), DataError);
    CHECK_THROWS_AS(real.open(path), NotAFile);
  }
  CHECK_THROWS_AS(MappedFile(root + "/fifo"), DataError);
}

TEST_CASE("an input that cannot be read is missing, not a full disk", "[core]") {
  BrokenDisk disk;
  InputFiles inputs(disk);
  std::array<std::byte, 4> bytes{};
  CHECK_THROWS_AS(inputs.open("/a")->read(0, bytes), InputMissing);
  CHECK_THROWS_AS(inputs.exists("/a"), InputMissing);
  MemoryFileSystem fs;
  InputFiles memory(fs);
  fs.create("/long")->write(0, std::as_bytes(std::span(std::string_view("12345"))));
  CHECK(memory.read_text("/long", 5) == "12345");
  CHECK_THROWS_AS(memory.read_text("/long", 4), DataError);
  CHECK_THROWS_AS(memory.open("/none"), InputMissing);
  CHECK_THROWS_WITH(memory.open(std::string("/long\0/x", 8)), Catch::Contains("NUL"));
  CHECK_THROWS_AS(memory.create("/b"), InternalError);
  CHECK_THROWS_AS(memory.open("/long")->write(0, bytes), InternalError);
}
