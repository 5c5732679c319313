#include "checkpoint/hosts/memory_vault.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/hosts/set_view.h"
#include "tests/checkpoint/fixture.h"
#include "tests/support/catch.h"

using namespace ds;
using namespace ds::testing;

namespace {

// What a holder makes.
Fd make_memory() { return Fd(memfd_create("test", MFD_CLOEXEC)); }

constexpr int kRanks = 2;

Manifest write_set(MemoryVault& vault, const Save& save, int buffer) {
  Manifest manifest{save.tag, save.step, save.epoch, {}};
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto shelf = vault.shelf_of(rank, buffer);
    manifest.files.push_back(
        save_part(*shelf, {"memory", save.tag, save.epoch, rank}, kRanks, save.value));
  }
  return manifest;
}

void save_set(MemoryVault& vault, const Save& save, int buffer) {
  const Manifest manifest = write_set(vault, save, buffer);
  for (int rank = 0; rank < kRanks; ++rank) vault.commit(rank, buffer, manifest);
}

std::vector<HostFile> on_one_host(const MemoryVault& vault) {
  std::vector<HostFile> out;
  for (const KeptFile& file : vault.files()) out.push_back({0, file});
  return out;
}

// "w/weight" of the newest whole set, read by as many ranks as one likes.
std::vector<float> newest(const MemoryVault& vault) {
  const std::vector<WholeSet> sets = whole_sets(on_one_host(vault));
  if (sets.empty()) return {};
  std::vector<KeptFile> files = vault.files();
  std::erase_if(files, [&](const KeptFile& file) { return file.buffer != sets[0].buffer; });
  const std::string text = vault.manifest(files[0]);
  SetView view(text);
  for (const FileVote& vote : parse_manifest("memory", text).files) {
    const KeptFile file = files[static_cast<size_t>(vote.rank)];
    view.add(vote, [&vault, file](Caching) { return vault.open(file); });
  }
  CheckpointReader reader = CheckpointReader::open_directory(view, "memory");
  Tensor into = ds::testing::zeros(kShape.numel());
  reader.get("w/weight", Region::whole(kShape), into);
  return values_of(into);
}

std::vector<float> counted_from(float value) { return values_of(counting(kShape.numel(), value)); }

void flip(int fd, int64_t at) {
  char byte = 0;
  REQUIRE(pread(fd, &byte, 1, at) == 1);
  byte = static_cast<char>(byte ^ 1);
  REQUIRE(pwrite(fd, &byte, 1, at) == 1);
}

constexpr int64_t kPieces = int64_t{1} << 29;

}  // namespace

TEST_CASE("states in memory take turns, and the newest is read", "[checkpoint][memory]") {
  const Fd memory = make_memory();
  MemoryVault vault(memory.get());
  CHECK(vault.files().empty());
  CHECK(newest(vault).empty());
  for (int step = 1; step <= 4; ++step) {
    save_set(vault, {"s" + std::to_string(step), 1, step, static_cast<float>(step)}, step % 2);
    CHECK(newest(vault) == counted_from(static_cast<float>(step)));
  }
  CHECK(vault.files().size() == 4);
  // Somebody else who has the memory sees the same.
  CHECK(newest(MemoryVault(memory.get())) == counted_from(4));
  CHECK(vault.kept_bytes() < 8 << 20);
  vault.drop_if([](int, int buffer) { return buffer == 0; });
  CHECK(newest(vault) == counted_from(3));
  vault.drop_if([](int, int) { return true; });
  CHECK(vault.files().empty());
  CHECK(vault.kept_bytes() == 0);
}

TEST_CASE("whenever a rank is killed, one state is whole", "[checkpoint][memory]") {
  const Fd memory = make_memory();
  MemoryVault vault(memory.get());
  save_set(vault, {"s1", 1, 1, 1}, 1);
  save_set(vault, {"s2", 1, 2, 2}, 0);
  // A writer that ends before each of its steps, in a process of its own.
  for (int left = 0; left < 7; ++left) {
    CAPTURE(left);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      int todo = left;
      const auto may_die = [&] {
        if (todo-- == 0) kill(getpid(), SIGKILL);
      };
      may_die();
      vault.begin(0, 1);
      may_die();
      const Manifest manifest = write_set(vault, {"s3", 1, 3, 3}, 1);
      may_die();
      vault.commit(0, 1, manifest);
      may_die();
      vault.begin(1, 1)->write(0, std::as_bytes(std::span("half")));
      may_die();
      write_set(vault, {"s3", 1, 3, 3}, 1);
      may_die();
      vault.commit(0, 1, manifest);
      vault.commit(1, 1, manifest);
      may_die();
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    const bool done = left == 6;
    CHECK(WIFSIGNALED(status));
    CHECK(newest(vault) == counted_from(done ? 3 : 2));
  }
}

TEST_CASE("what does not hold is no state", "[checkpoint][memory]") {
  const Fd memory = make_memory();
  MemoryVault vault(memory.get());
  save_set(vault, {"s1", 1, 1, 1}, 0);
  save_set(vault, {"s2", 1, 2, 2}, 1);
  const int64_t shelf = (kShelvesPerRank + 1) * kShelfSpan;  // rank 1, buffer 1

  SECTION("a header") {
    flip(memory.get(), shelf + 16);
    CHECK(newest(vault) == counted_from(1));
  }
  SECTION("a header on another shelf") {
    std::vector<char> header(4096);
    REQUIRE(pread(memory.get(), header.data(), header.size(), shelf) == 4096);
    REQUIRE(pwrite(memory.get(), header.data(), header.size(),
                   (2 * kShelvesPerRank + 1) * kShelfSpan) == 4096);
    CHECK(vault.files().size() == 4);
  }
  SECTION("a manifest") {
    flip(memory.get(), shelf + 4096 + 40);
    const std::vector<KeptFile> files = vault.files();
    CHECK_THROWS_AS(vault.manifest(files.back()), ValidationError);
  }
  SECTION("data") {
    flip(memory.get(), kShelfSpan + kPieces);  // rank 0, buffer 1
    CHECK_THROWS_AS(newest(vault), ValidationError);
  }
  SECTION("an index") {
    const KeptFile file = vault.files().back();
    flip(memory.get(), shelf + kPieces + file.tail + 200);
    CHECK_THROWS_AS(newest(vault), ValidationError);
  }
  SECTION("memory that was taken away") {
    const KeptFile file = vault.files().back();
    REQUIRE(ftruncate(memory.get(), shelf + kPieces + 64) == 0);
    CHECK_THROWS_AS(newest(vault), IoError);
    Tensor into = ds::testing::zeros(16);
    CHECK_THROWS_AS(
        vault.open(file)->read(file.bytes - 8, {static_cast<std::byte*>(into.raw()), 16}), IoError);
  }
}

TEST_CASE("a shelf is not committed under the name of another file", "[checkpoint][memory]") {
  const Fd memory = make_memory();
  MemoryVault vault(memory.get());
  Manifest manifest = write_set(vault, {"s1", 1, 1, 1}, 0);
  const auto refuses = [&](const Manifest& wrong) {
    CHECK_THROWS_AS(vault.commit(0, 0, wrong), ValidationError);
    CHECK(vault.files().empty());
  };
  Manifest wrong = manifest;
  std::swap(wrong.files[0].digest, wrong.files[1].digest);
  refuses(wrong);
  wrong = manifest;
  wrong.files[0].bytes += 4096;
  CHECK_THROWS(vault.commit(0, 0, wrong));
  wrong = manifest;
  wrong.tag = "other";
  refuses(wrong);
  wrong = manifest;
  wrong.files[0].epoch = 2;
  refuses(wrong);
  vault.commit(0, 0, manifest);
  CHECK(vault.files().size() == 1);
  CHECK_THROWS_AS(vault.begin(-1, 0), InternalError);
  CHECK_THROWS_AS(vault.begin(0, kShelvesPerRank), InternalError);
  CHECK_THROWS_AS(vault.commit(5, 0, manifest), InternalError);
}

TEST_CASE("only nameless memory of ours is taken for a host's memory", "[checkpoint][memory]") {
  CHECK_THROWS_AS(MemoryVault(-1), IoError);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const Fd out(ends[0]), in(ends[1]);
  CHECK_THROWS_AS(MemoryVault(out.get()), IoError);
}

TEST_CASE("a file of another host is read when it was brought, and not before",
          "[checkpoint][memory]") {
  const Fd memory = make_memory();
  MemoryVault vault(memory.get());
  save_set(vault, {"s1", 1, 1, 1}, 0);
  const std::vector<KeptFile> files = vault.files();
  const std::string text = vault.manifest(files[0]);
  const Manifest manifest = parse_manifest("memory", text);
  SetView view(text);
  view.add(manifest.files[0], [&](Caching) { return vault.open(files[0]); });
  vault.open(files[1])->read(files[1].tail, view.add_tail(manifest.files[1], files[1].tail));
  CheckpointReader reader = CheckpointReader::open_directory(view, "memory");
  const int64_t half = kShape.numel() / 2;
  CHECK(reader.ranks_holding("w/weight", Region::flat(0, half)) == std::set<int>{0});
  CHECK(reader.ranks_holding("w/weight", Region::flat(half - 1, half + 2)) == std::set<int>{0, 1});
  Tensor into = ds::testing::zeros(kShape.numel());
  Tensor first = into.narrow(0, half);
  reader.get("w/weight", Region::flat(0, half), first);
  vault.open(files[1])->read(0, view.make_whole(manifest.files[1]));
  reader.get("w/weight", Region::whole(kShape), into);
  CHECK(values_of(into) == counted_from(1));
  std::vector<std::byte> bytes(64);
  view.add_tail(manifest.files[1], 64);
  CHECK_THROWS_AS(view.open("memory/rank-00001.pieces")->read(0, bytes), ValidationError);
  view.open("memory/rank-00001.pieces")->read(64, bytes);
  CHECK_THROWS_AS(view.add_tail(manifest.files[1], manifest.files[1].bytes), InternalError);
  CHECK_THROWS_AS(view.open("memory/rank-00009.pieces"), InputMissing);
  CHECK_THROWS_AS(view.list("memory"), InternalError);
}
