// The real file system, the one in memory with its crash model, and the fault decorator.
#include "core/files/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/files/mapped_file.h"
#include "core/memory/aligned_buffer.h"
#include "tests/support/catch.h"
#include "tests/support/files/fault_file_system.h"
#include "tests/support/files/memory_file_system.h"

using namespace ds;

namespace {

class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string pattern = "/tmp/ds_file_test.XXXXXX";
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~ScratchDirectory() { RealFileSystem().remove_tree(path_); }
  std::string operator/(const std::string& name) const { return join_path(path_, name); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

void put(FileSystem& fs, const std::string& path, std::string_view text) {
  fs.create(path)->write(0, bytes_of(text));
}

std::string text_of(FileSystem& fs, const std::string& path) { return fs.read_text(path, 1 << 20); }

// What every file system must do the same way.
void check_conformance(FileSystem& fs, const std::string& root) {
  fs.make_directories(join_path(root, "a/b/c"));
  fs.make_directories(join_path(root, "a/b/c"));
  const std::string file = join_path(root, "a/b/c/file");
  {
    const auto out = fs.create(file);
    out->write(0, bytes_of("hello"));
    out->append(bytes_of(" world"));
    out->write(0, bytes_of("J"));
    out->sync();
    CHECK(out->size() == 11);
  }
  CHECK(text_of(fs, file) == "Jello world");
  CHECK_THROWS_AS(fs.create(file), IoError);
  CHECK_THROWS_AS(fs.open(join_path(root, "missing")), InputMissing);
  CHECK_THROWS_AS(fs.open(join_path(root, "a")), IoError);
  CHECK_THROWS_AS(fs.list(join_path(root, "missing")), InputMissing);
  CHECK_THROWS_AS(fs.make_directory(join_path(root, "a")), IoError);
  CHECK_THROWS_AS(fs.remove(join_path(root, "a")), IoError);
  CHECK_THROWS_AS(fs.rename(join_path(root, "missing"), file), InputMissing);

  std::vector<std::byte> buffer(12);
  CHECK_THROWS_WITH(fs.open(file)->read(0, buffer), Catch::Contains("ends at byte 11"));
  CHECK_THROWS_WITH(fs.read_text(file, 10), Catch::Contains("11 bytes, expected at most 10"));

  put(fs, join_path(root, "a/z"), "old");
  fs.rename(file, join_path(root, "a/z"));
  CHECK(text_of(fs, join_path(root, "a/z")) == "Jello world");
  CHECK_FALSE(fs.exists(file));
  fs.write_text_atomically(join_path(root, "a/z"), "new");
  CHECK(text_of(fs, join_path(root, "a/z")) == "new");

  const auto entries = fs.list(join_path(root, "a"));
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].name == "b");
  CHECK(entries[0].kind == DirectoryEntry::Kind::kDirectory);
  CHECK(entries[1].name == "z");
  CHECK(entries[1].kind == DirectoryEntry::Kind::kFile);
  CHECK(fs.free_bytes(root) > 0);
  fs.sync_directory(root);
  fs.remove_tree(join_path(root, "a"));
  CHECK_FALSE(fs.exists(join_path(root, "a")));
}

}  // namespace

TEST_CASE("the real file system creates, reads, renames and removes", "[core]") {
  const ScratchDirectory scratch;
  RealFileSystem fs;
  check_conformance(fs, scratch.path());
}

TEST_CASE("the file system in memory behaves as the real one", "[core]") {
  MemoryFileSystem fs;
  fs.make_directory("/root");
  check_conformance(fs, "/root");
}

TEST_CASE("the fault decorator without faults behaves as what it wraps", "[core]") {
  MemoryFileSystem memory;
  memory.make_directory("/root");
  FaultFileSystem fs(memory);
  check_conformance(fs, "/root");
  CHECK(fs.call_count() == static_cast<int64_t>(fs.calls().size()));
}

TEST_CASE("errors name the operation, the path and the system's reason", "[core]") {
  RealFileSystem fs;
  CHECK_THROWS_WITH(fs.open("/nowhere/x"), "open /nowhere/x: No such file or directory");
  CHECK_THROWS_WITH(fs.remove("/nowhere/x"), "remove /nowhere/x: No such file or directory");
  try {
    throw_io_error("write", "/f", ENOSPC);
  } catch (const DiskFull& error) {
    CHECK(error.exit_code() == ExitCode::kStorage);
    CHECK_THAT(error.what(), Catch::StartsWith("write /f: No space left on device (") &&
                                 Catch::EndsWith(" bytes are free there)"));
  }
  CHECK_THROWS_WITH(throw_io_error("write", "/f", EDQUOT),
                    Catch::Contains("a quota of this user or project"));
  CHECK_THROWS_WITH(throw_io_error("write", "/f", EFBIG), Catch::Contains("ulimit -f"));
}

TEST_CASE("opening a FIFO is refused and does not wait for a writer", "[core]") {
  const ScratchDirectory scratch;
  REQUIRE(::mkfifo((scratch / "fifo").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(RealFileSystem().open(scratch / "fifo"), Catch::Contains("not a regular file"));
  CHECK_THROWS_WITH(MappedFile(scratch / "fifo"), Catch::Contains("not a regular file"));
}

TEST_CASE("a symbolic link is neither created through nor followed when removing", "[core]") {
  const ScratchDirectory scratch;
  RealFileSystem fs;
  fs.make_directory(scratch / "kept");
  put(fs, scratch / "kept/file", "x");
  fs.make_directory(scratch / "tree");
  REQUIRE(::symlink((scratch / "kept").c_str(), (scratch / "tree/link").c_str()) == 0);
  REQUIRE(::symlink((scratch / "target").c_str(), (scratch / "dangling").c_str()) == 0);
  CHECK_THROWS_AS(fs.create(scratch / "dangling"), IoError);
  fs.remove_tree(scratch / "tree");
  CHECK(fs.exists(scratch / "kept/file"));
}

TEST_CASE("uncached files hold what was written", "[core]") {
  const ScratchDirectory scratch;
  RealFileSystem fs;
  const size_t size = 2 * kUncachedAlignment;
  const AlignedBuffer buffer(size);
  std::ranges::fill(buffer.bytes(), std::byte{7});
  {
    const auto out = fs.create(scratch / "f", Caching::kUncached);
    out->allocate(static_cast<int64_t>(size));
    out->write(0, buffer.bytes());
    out->sync();
  }
  std::ranges::fill(buffer.bytes(), std::byte{0});
  fs.open(scratch / "f", Caching::kUncached)->read(0, buffer.bytes());
  CHECK(std::ranges::count(buffer.bytes(), std::byte{7}) == static_cast<int64_t>(size));
}

TEST_CASE("a mapping sees the file, and moves with its owner", "[core]") {
  const ScratchDirectory scratch;
  RealFileSystem fs;
  put(fs, scratch / "f", "abc");
  put(fs, scratch / "empty", "");
  CHECK(MappedFile(scratch / "empty").bytes().empty());
  CHECK_THROWS_AS(MappedFile(scratch / "missing"), InputMissing);
  MappedFile map(scratch / "f");
  CHECK(map.bytes().size() == 3);
  const MappedFile moved = std::move(map);
  CHECK(moved.bytes()[2] == std::byte{'c'});
}

TEST_CASE("power loss keeps only what was synced, names included", "[core]") {
  MemoryFileSystem fs;
  fs.make_directory("/d");
  fs.sync_directory("/");
  {
    const auto file = fs.create("/d/synced");
    file->write(0, bytes_of("one"));
    file->sync();
    fs.sync_directory("/d");
    file->append(bytes_of("two"));
  }
  {
    const auto file = fs.create("/d/name_not_synced");
    file->write(0, bytes_of("x"));
    file->sync();
  }
  put(fs, "/d/data_not_synced", "y");
  const auto all = fs.after_crash(CrashModel::kKeepAll, 0);
  CHECK(all->list("/d").size() == 3);
  CHECK(text_of(*all, "/d/synced") == "onetwo");
  const auto none = fs.after_crash(CrashModel::kKeepNone, 0);
  REQUIRE(none->list("/d").size() == 1);
  CHECK(text_of(*none, "/d/synced") == "one");
  fs.sync_directory("/d");
  CHECK(text_of(*fs.after_crash(CrashModel::kKeepNone, 0), "/d/data_not_synced").empty());
}

TEST_CASE("a torn state mixes old and new sectors but never renames in half", "[core]") {
  MemoryFileSystem fs;
  fs.make_directory("/d");
  put(fs, "/d/old", std::string(4 * kSectorBytes, 'o'));
  fs.open("/d/old");
  fs.sync_directory("/");
  fs.sync_directory("/d");
  const auto file = fs.create("/d/new");
  file->write(0, bytes_of(std::string(4 * kSectorBytes, 'a')));
  file->sync();
  fs.sync_directory("/d");
  file->write(0, bytes_of(std::string(4 * kSectorBytes, 'b')));
  fs.rename("/d/new", "/d/old");
  int renamed = 0;
  int mixed = 0;
  for (uint64_t seed = 0; seed < 64; ++seed) {
    const auto after = fs.after_crash(CrashModel::kTorn, seed);
    const bool moved = !after->exists("/d/new");
    renamed += moved ? 1 : 0;
    const std::string text = text_of(*after, moved ? "/d/old" : "/d/new");
    REQUIRE(text.size() == 4 * kSectorBytes);
    for (size_t begin = 0; begin < text.size(); begin += kSectorBytes) {
      CHECK(text.substr(begin, kSectorBytes) == std::string(kSectorBytes, text[begin]));
    }
    mixed += text.find('a') != std::string::npos && text.find('b') != std::string::npos ? 1 : 0;
  }
  CHECK(renamed > 10);
  CHECK(renamed < 54);
  CHECK(mixed > 30);
}

TEST_CASE("a full disk stores what fits and says so", "[core]") {
  MemoryFileSystem fs(10);
  const auto file = fs.create("/f");
  CHECK_THROWS_AS(file->write(0, bytes_of("twelve bytes")), DiskFull);
  CHECK(file->size() == 10);
  CHECK(fs.free_bytes("/") == 0);
  fs.set_capacity(20);
  file->write(10, bytes_of("more"));
  CHECK_THROWS_AS(file->allocate(30), DiskFull);
}

TEST_CASE("folders that are made are durable, each of them", "[core]") {
  MemoryFileSystem fs;
  fs.make_directories("/a/b/c");
  CHECK(fs.after_crash(CrashModel::kKeepNone, 0)->exists("/a/b/c"));
}

TEST_CASE("a text that is replaced is the old or the new one, wherever that ends", "[core]") {
  const std::string old_text = "old";
  const std::string new_text =
      "new, and longer than a sector: " + std::string(2 * kSectorBytes, 'x');
  const auto replace = [&](FileSystem& fs) { fs.write_text_atomically("/f", new_text); };
  bool stayed = false;
  for (int64_t call = 0; call < 5; ++call) {
    for (const Fault fault : {Fault::kIoError, Fault::kShortWrite, Fault::kCrash}) {
      MemoryFileSystem memory;
      memory.write_text_atomically("/f", old_text);
      FaultFileSystem faulty(memory);
      faulty.fail_call(call, fault);
      CHECK_THROWS(replace(faulty));
      for (uint64_t seed = 0; seed < 20; ++seed) {
        const auto after =
            memory.after_crash(seed == 0 ? CrashModel::kKeepAll : CrashModel::kTorn, seed);
        const std::string found = text_of(*after, "/f");
        CHECK((found == old_text || found == new_text));
        stayed = stayed || found == old_text;
      }
    }
  }
  CHECK(stayed);
}

TEST_CASE("every mutating call can be made to fail in turn", "[core]") {
  const auto scenario = [](FileSystem& fs) { fs.write_text_atomically("/f", "text"); };
  MemoryFileSystem clean;
  FaultFileSystem counting(clean);
  scenario(counting);
  REQUIRE(counting.call_count() == 5);
  CHECK(counting.calls()[0] == "create /f.tmp");
  for (const Fault fault : {Fault::kIoError, Fault::kDiskFull, Fault::kShortWrite}) {
    for (int64_t k = 0; k < counting.call_count(); ++k) {
      MemoryFileSystem memory;
      FaultFileSystem faulty(memory);
      faulty.fail_call(k, fault);
      CHECK_THROWS_AS(scenario(faulty), IoError);
      CHECK_FALSE(memory.exists("/f.tmp"));
      scenario(faulty);
      CHECK(text_of(memory, "/f") == "text");
    }
  }
  for (int64_t k = 0; k < counting.call_count(); ++k) {
    MemoryFileSystem memory;
    FaultFileSystem faulty(memory);
    faulty.fail_call(k, Fault::kCrash);
    CHECK_THROWS_AS(scenario(faulty), SimulatedCrash);
    CHECK_THROWS_AS(faulty.exists("/f"), SimulatedCrash);
  }
}

TEST_CASE("paths are split and joined", "[core]") {
  CHECK(parent_directory("a/b") == "a");
  CHECK(parent_directory("b") == ".");
  CHECK(parent_directory("/b") == "/");
  CHECK(join_path("a", "b") == "a/b");
  CHECK(join_path("a/", "b") == "a/b");
}
