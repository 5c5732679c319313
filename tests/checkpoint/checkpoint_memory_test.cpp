#include "checkpoint/hosts/checkpoint_memory.h"

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

Manifest write_set(CheckpointMemory& states, const Save& save, int buffer) {
  Manifest manifest{save.tag, save.step, save.epoch, {}};
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto slot = states.slot_of(rank, buffer);
    manifest.files.push_back(
        save_part(*slot, {"memory", save.tag, save.epoch, rank}, kRanks, save.value));
  }
  return manifest;
}

void save_set(CheckpointMemory& states, const Save& save, int buffer) {
  const Manifest manifest = write_set(states, save, buffer);
  for (int rank = 0; rank < kRanks; ++rank) states.commit(rank, buffer, manifest);
}

std::vector<HostFile> on_one_host(const CheckpointMemory& states) {
  std::vector<HostFile> out;
  for (const KeptFile& file : states.files()) out.push_back({0, file});
  return out;
}

// "w/weight" of the newest whole set, read by as many ranks as one likes.
std::vector<float> newest(const CheckpointMemory& states) {
  const std::vector<WholeSet> sets = whole_sets(on_one_host(states));
  if (sets.empty()) return {};
  std::vector<KeptFile> files = states.files();
  std::erase_if(files, [&](const KeptFile& file) { return file.buffer != sets[0].buffer; });
  const std::string text = states.manifest(files[0]);
  SetView view(text);
  for (const FileVote& vote : parse_manifest("memory", text).files) {
    const KeptFile file = files[static_cast<size_t>(vote.rank)];
    view.add(vote, [&states, file](Caching) { return states.open(file); });
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
  CheckpointMemory states(memory.get());
  CHECK(states.files().empty());
  CHECK(newest(states).empty());
  for (int step = 1; step <= 4; ++step) {
    save_set(states, {"s" + std::to_string(step), 1, step, static_cast<float>(step)}, step % 2);
    CHECK(newest(states) == counted_from(static_cast<float>(step)));
  }
  CHECK(states.files().size() == 4);
  // Somebody else who has the memory sees the same.
  CHECK(newest(CheckpointMemory(memory.get())) == counted_from(4));
  CHECK(states.kept_bytes() < 8 << 20);
  states.drop_if([](int, int buffer) { return buffer == 0; });
  CHECK(newest(states) == counted_from(3));
  states.drop_if([](int, int) { return true; });
  CHECK(states.files().empty());
  CHECK(states.kept_bytes() == 0);
}

TEST_CASE("whenever a rank is killed, one state is whole", "[checkpoint][memory]") {
  const Fd memory = make_memory();
  CheckpointMemory states(memory.get());
  save_set(states, {"s1", 1, 1, 1}, 1);
  save_set(states, {"s2", 1, 2, 2}, 0);
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
      states.begin(0, 1);
      may_die();
      const Manifest manifest = write_set(states, {"s3", 1, 3, 3}, 1);
      may_die();
      states.commit(0, 1, manifest);
      may_die();
      states.begin(1, 1)->write(0, std::as_bytes(std::span("half")));
      may_die();
      write_set(states, {"s3", 1, 3, 3}, 1);
      may_die();
      states.commit(0, 1, manifest);
      states.commit(1, 1, manifest);
      may_die();
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    const bool done = left == 6;
    CHECK(WIFSIGNALED(status));
    CHECK(newest(states) == counted_from(done ? 3 : 2));
  }
}

TEST_CASE("what does not hold is no state", "[checkpoint][memory]") {
  const Fd memory = make_memory();
  CheckpointMemory states(memory.get());
  save_set(states, {"s1", 1, 1, 1}, 0);
  save_set(states, {"s2", 1, 2, 2}, 1);
  const int64_t slot = (kSlotsPerRank + 1) * kSlotSpan;  // rank 1, buffer 1

  SECTION("a header") {
    flip(memory.get(), slot + 16);
    CHECK(newest(states) == counted_from(1));
  }
  SECTION("a header on another slot") {
    std::vector<char> header(4096);
    REQUIRE(pread(memory.get(), header.data(), header.size(), slot) == 4096);
    REQUIRE(pwrite(memory.get(), header.data(), header.size(),
                   (2 * kSlotsPerRank + 1) * kSlotSpan) == 4096);
    CHECK(states.files().size() == 4);
  }
  SECTION("a manifest") {
    flip(memory.get(), slot + 4096 + 40);
    const std::vector<KeptFile> files = states.files();
    CHECK_THROWS_AS(states.manifest(files.back()), ValidationError);
  }
  SECTION("data") {
    flip(memory.get(), kSlotSpan + kPieces);  // rank 0, buffer 1
    CHECK_THROWS_AS(newest(states), ValidationError);
  }
  SECTION("an index") {
    const KeptFile file = states.files().back();
    flip(memory.get(), slot + kPieces + file.tail + 200);
    CHECK_THROWS_AS(newest(states), ValidationError);
  }
  SECTION("memory that was taken away") {
    const KeptFile file = states.files().back();
    REQUIRE(ftruncate(memory.get(), slot + kPieces + 64) == 0);
    CHECK_THROWS_AS(newest(states), IoError);
    Tensor into = ds::testing::zeros(16);
    CHECK_THROWS_AS(
        states.open(file)->read(file.bytes - 8, {static_cast<std::byte*>(into.raw()), 16}),
        IoError);
  }
}

TEST_CASE("a slot is not committed under the name of another file", "[checkpoint][memory]") {
  const Fd memory = make_memory();
  CheckpointMemory states(memory.get());
  Manifest manifest = write_set(states, {"s1", 1, 1, 1}, 0);
  const auto refuses = [&](const Manifest& wrong) {
    CHECK_THROWS_AS(states.commit(0, 0, wrong), ValidationError);
    CHECK(states.files().empty());
  };
  Manifest wrong = manifest;
  std::swap(wrong.files[0].digest, wrong.files[1].digest);
  refuses(wrong);
  wrong = manifest;
  wrong.files[0].bytes += 4096;
  CHECK_THROWS(states.commit(0, 0, wrong));
  wrong = manifest;
  wrong.tag = "other";
  refuses(wrong);
  wrong = manifest;
  wrong.files[0].epoch = 2;
  refuses(wrong);
  states.commit(0, 0, manifest);
  CHECK(states.files().size() == 1);
  CHECK_THROWS_AS(states.begin(-1, 0), InternalError);
  CHECK_THROWS_AS(states.begin(0, kSlotsPerRank), InternalError);
  CHECK_THROWS_AS(states.commit(5, 0, manifest), InternalError);
}

TEST_CASE("only nameless memory of ours is taken for a host's memory", "[checkpoint][memory]") {
  CHECK_THROWS_AS(CheckpointMemory(-1), IoError);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const Fd out(ends[0]), in(ends[1]);
  CHECK_THROWS_AS(CheckpointMemory(out.get()), IoError);
}

TEST_CASE("a file of another host is read when it was brought, and not before",
          "[checkpoint][memory]") {
  const Fd memory = make_memory();
  CheckpointMemory states(memory.get());
  save_set(states, {"s1", 1, 1, 1}, 0);
  const std::vector<KeptFile> files = states.files();
  const std::string text = states.manifest(files[0]);
  const Manifest manifest = parse_manifest("memory", text);
  SetView view(text);
  view.add(manifest.files[0], [&](Caching) { return states.open(files[0]); });
  states.open(files[1])->read(files[1].tail, view.add_tail(manifest.files[1], files[1].tail));
  CheckpointReader reader = CheckpointReader::open_directory(view, "memory");
  const int64_t half = kShape.numel() / 2;
  CHECK(reader.ranks_holding("w/weight", Region::flat(0, half)) == std::set<int>{0});
  CHECK(reader.ranks_holding("w/weight", Region::flat(half - 1, half + 2)) == std::set<int>{0, 1});
  Tensor into = ds::testing::zeros(kShape.numel());
  Tensor first = into.narrow(0, half);
  reader.get("w/weight", Region::flat(0, half), first);
  states.open(files[1])->read(0, view.make_whole(manifest.files[1]));
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
