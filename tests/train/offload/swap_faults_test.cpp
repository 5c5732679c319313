// Faults of what a rank swaps to, in whole runs: a full disk, a disk that errs, is short or never
// answers, and files that are not what was written (faults 8, 29 and 30 of the fault catalogue).
// Whatever happens, training goes on with the right bits or ends with a word that says where; what
// was committed before stays, and who starts anew from it ends where an undisturbed run does.
#include <sys/mount.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "offload/async_io/choose_engine.h"
#include "tests/offload/faulty_engine.h"
#include "tests/offload/swapping.h"
#include "tests/train/offload/offload_settings.h"

namespace ds {
namespace {

using namespace testing;
using Catch::Contains;
using test::FailingEngine;
using test::IoFault;
using test::IoFaults;
namespace fs = std::filesystem;

constexpr int64_t kCommitted = 2, kSteps = 4;

using EngineMaker = std::function<std::unique_ptr<IoEngine>(int rank)>;

std::unique_ptr<IoEngine> sound_engine(int /*rank*/ = 0) { return make_thread_engine(8, 1); }

// Swap files in the folder, moved by what the maker makes.
auto swap_files_in(const fs::path& folder, EngineMaker engine, int64_t timeout_ms = 60'000,
                   int64_t epoch = 2) {
  return [=](const char* of, int rank) -> SwapOpener {
    return [=, job = std::string("test.") + of](int64_t bytes) {
      std::vector<std::unique_ptr<IoEngine>> engines;
      engines.push_back(engine(rank));
      return std::make_unique<Swapper>(
          SwapperOptions{.directory = folder,
                         .owner = {.job = job, .epoch = epoch, .rank = rank, .world = 2},
                         .bytes = bytes},
          std::make_unique<AsyncIo>(std::move(engines),
                                    IoOptions{.block_size = 16384, .timeout_ms = timeout_ms}));
    };
  };
}

Setting swapped(int ranks = 1) {
  Setting setting{.ranks = ranks, .stage = 3, .dtype = DType::kBF16};
  setting.state = setting.params = Tier::kNvme;
  setting.host_numel = 0;
  setting.rolling = {
      .buffers = 3, .pipeline_read = true, .pipeline_write = true, .pinning = Pinning::kNone};
  return setting;
}

// One that updates its state in two places of the file, ahead of the norm.
Setting swapped_ahead() {
  Setting setting = swapped();
  setting.params = Tier::kDevice;
  setting.update_ahead = true;
  return setting;
}

// A run that has committed two tags, and what it comes to if nothing happens.
struct Committed {
  explicit Committed(int ranks = 1) : Committed(swapped(ranks)) {}
  explicit Committed(Setting of) : setting(std::move(of)) {
    for (int64_t step = 1; step <= kCommitted; ++step) train(setting, disk, step);
    whole = train(setting, *disk.after_crash(CrashModel::kKeepAll, 0), kSteps);
  }
  // Its disk as the faults find it.
  std::unique_ptr<MemoryFileSystem> copy() const {
    return disk.after_crash(CrashModel::kKeepAll, 0);
  }
  // On the disk that a run has broken off on.
  Outcome check_goes_on(MemoryFileSystem& broken_off) const {
    const Outcome resumed = train(setting, broken_off, kSteps);
    CHECK(resumed.state == whole.state);
    return resumed;
  }

  Setting setting;
  MemoryFileSystem disk;
  Outcome whole;
};

std::string word_of_run(const Setting& setting, MemoryFileSystem& disk, const Outcome& expected) {
  Outcome got;
  try {
    got = train(setting, disk, kSteps);
  } catch (const Error& error) {
    return error.what();
  }
  CHECK(got.state == expected.state);
  return "";
}

// The word that a run from the tag ends with; empty: it trained to the end, with the right bits.
std::string word_of(const Committed& before, const EngineMaker& engine,
                    int64_t timeout_ms = 60'000) {
  const TemporaryDirectory folder;
  Setting faulty = before.setting;
  faulty.swap_files = swap_files_in(folder.path(), engine, timeout_ms);
  const auto disk = before.copy();
  const std::string word = word_of_run(faulty, *disk, before.whole);
  CHECK(fs::is_empty(folder.path()));  // swap files are gone, whatever happened
  if (!word.empty()) before.check_goes_on(*disk);
  return word;
}

// How many blocks pass in a run from the tag, its start included.
int64_t blocks_of(const Committed& before) {
  IoFaults none;
  none.fault = IoFault::kLate;  // counts
  none.first = -1;              // and strikes nothing
  CHECK(word_of(before, [&](int rank) {
          return make_faulty_engine(sound_engine(rank), none);
        }).empty());
  return none.count;
}

// /dev/shm would be as large as half of the memory.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& size)
      : is_mounted_(
            ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0) {
    if (!is_mounted_) WARN("not tested here: no tmpfs can be mounted");
  }
  ~SmallDisk() {
    if (is_mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;  // unmounts once
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool is_mounted() const { return is_mounted_; }
  fs::path path() const { return folder_.path(); }

 private:
  const TemporaryDirectory folder_;
  const bool is_mounted_;
};

TEST_CASE("fault 8: a disk too small for the swap files ends a run before its first transfer",
          "[train]") {
  const Committed before;
  const SmallDisk small("64k");
  if (!small.is_mounted()) return;
  for (const auto& [state, params] : {std::pair{Tier::kNvme, Tier::kDevice},
                                      {Tier::kHost, Tier::kNvme},
                                      {Tier::kNvme, Tier::kNvme}}) {
    CAPTURE(name_of(state), name_of(params));
    std::atomic<int64_t> blocks = 0;
    Setting setting = before.setting;
    setting.state = state;
    setting.params = params;
    setting.swap_files = swap_files_in(small.path(), [&](int) {
      return std::make_unique<FailingEngine>([&](const IoBlock&) -> std::optional<int64_t> {
        ++blocks;
        return std::nullopt;
      });
    });
    const auto disk = before.copy();
    const std::string word = word_of_run(setting, *disk, before.whole);
    CHECK_THAT(word, Contains("needs ") && Contains(" are free in " + small.path().string()) &&
                         Contains("nvme_path"));
    CHECK(blocks == 0);
    CHECK(fs::is_empty(small.path()));
    before.check_goes_on(*disk);
  }
}

// The swap files of the ranks of a host share a disk: the last of them is told.
TEST_CASE("fault 8: a disk with room for the files of one rank is too small for two", "[train]") {
  const Committed before(2);
  const RunPlan plan = dry_run(options_of(before.setting), {.data = 2}, {});
  const size_t of_rank = nth(plan.of_rank(0).memory, Tier::kNvme).bytes_peak;
  const SmallDisk small(std::to_string(of_rank * 3 / 2));
  if (!small.is_mounted()) return;
  Setting setting = before.setting;
  setting.swap_files = swap_files_in(small.path(), sound_engine);
  const auto disk = before.copy();
  CHECK_THROWS_AS(train(setting, *disk, kSteps), DiskFull);
  CHECK(fs::is_empty(small.path()));
  before.check_goes_on(*disk);
}

// As a disk may be whose promise of room is worth nothing: a thin volume, a quota that shrinks.
TEST_CASE("fault 8: room that is gone at any write while training costs nothing committed",
          "[train]") {
  const Committed before(GENERATE(0, 1) == 0 ? swapped() : swapped_ahead());
  const int64_t blocks = blocks_of(before);
  int64_t ended = 0;
  for (int64_t k = 0; k < blocks; k += 23) {
    CAPTURE(k);
    std::atomic<int64_t> block = 0;
    const std::string word = word_of(before, [&](int) {
      return std::make_unique<FailingEngine>([&](const IoBlock& b) -> std::optional<int64_t> {
        return block++ >= k && b.kind == IoKind::kWrite ? std::optional<int64_t>(-ENOSPC)
                                                        : std::nullopt;
      });
    });
    if (word.empty()) continue;  // nothing is written any more
    ++ended;
    CHECK_THAT(word, Contains("swap file ") && Contains("No space left on device"));
  }
  CHECK(ended > 8);
}

struct Strike {
  const char* name;
  IoFault fault;
  int times;
  int error_number;

  void at(int64_t first, IoFaults& faults) const {
    faults.fault = fault;
    faults.first = first;
    faults.times = times;
    faults.error_number = error_number;
  }
};

// What is healed is healed at any transfer: training has the bits of a sound disk.
TEST_CASE("fault 29: short transfers and an error that does not come again change no bit",
          "[train]") {
  const Committed before(GENERATE(0, 1) == 0 ? swapped() : swapped_ahead());
  const int64_t blocks = blocks_of(before);
  CHECK(blocks > 200);
  for (const Strike& strike : {Strike{"one byte moved", IoFault::kOneByte, 1, 0},
                               {"all but one byte moved", IoFault::kAllButOneByte, 1, 0},
                               {"EIO once", IoFault::kError, 1, EIO}}) {
    for (int64_t k = 0; k < blocks; k += 29) {
      CAPTURE(strike.name, k);
      IoFaults faults;
      strike.at(k, faults);
      CHECK(word_of(before, [&](int rank) {
              return make_faulty_engine(sound_engine(rank), faults);
            }).empty());
    }
  }
}

TEST_CASE(
    "fault 29: EIO that stays and a device that is gone, at any transfer, end the run with "
    "file and place",
    "[train]") {
  const Committed before(GENERATE(0, 1) == 0 ? swapped() : swapped_ahead());
  const int64_t blocks = blocks_of(before);
  for (const Strike& strike : {Strike{"EIO", IoFault::kError, 9, EIO},
                               {"ENODEV", IoFault::kError, 9, ENODEV},
                               {"nothing moved", IoFault::kNothingMoved, 9, 0}}) {
    int64_t ended = 0;
    for (int64_t k = 0; k < blocks; k += 31) {
      CAPTURE(strike.name, k);
      IoFaults faults;
      strike.at(k, faults);
      const std::string word =
          word_of(before, [&](int rank) { return make_faulty_engine(sound_engine(rank), faults); });
      if (faults.played == 0) continue;  // struck what nobody waits for any more
      ++ended;
      CHECK_THAT(word, Contains("swap file ") && Contains(" at byte "));
    }
    CHECK(ended >= blocks / 31 - 1);
  }
}

// It is no reason to go back to the tag before, and to lose what was committed since.
TEST_CASE("fault 29: a swap file that fails while a checkpoint is loaded ends the run", "[train]") {
  for (const int ranks : {1, 2}) {
    CAPTURE(ranks);
    const Committed before(ranks);
    std::atomic<int64_t> writes = 0;
    Setting faulty = before.setting;
    const TemporaryDirectory folder;
    faulty.swap_files = swap_files_in(folder.path(), [&](int rank) -> std::unique_ptr<IoEngine> {
      if (rank != ranks - 1) return sound_engine();
      return std::make_unique<FailingEngine>([&](const IoBlock& block) -> std::optional<int64_t> {
        if (block.kind == IoKind::kRead || writes++ > 0) return std::nullopt;
        return -ENODEV;
      });
    });
    const auto disk = before.copy();
    CHECK_THAT(word_of_run(faulty, *disk, before.whole),
               Contains("swap file ") && Contains("No such device"));
    CHECK(before.check_goes_on(*disk).losses == before.whole.losses);
  }
}

TEST_CASE("fault 29: a disk that does not answer is given up at its deadline", "[train]") {
  const Committed before(GENERATE(0, 1) == 0 ? swapped() : swapped_ahead());
  const int64_t blocks = blocks_of(before);
  for (const int64_t k : {int64_t{0}, blocks / 3, 2 * blocks / 3}) {
    CAPTURE(k);
    IoFaults faults;
    faults.fault = IoFault::kLate;
    faults.first = k;
    faults.late = std::chrono::milliseconds(400);
    const auto begun = std::chrono::steady_clock::now();
    const std::string word = word_of(
        before, [&](int rank) { return make_faulty_engine(sound_engine(rank), faults); }, 60);
    CHECK_THAT(word, Contains("swap file "));
    CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(20));
  }
}

// The file that a block is of.
std::string path_of(const IoBlock& block) {
  return fs::read_symlink(fmt::format("/proc/self/fd/{}", block.fd)).string();
}

// Called before the disk is asked for a block, with how many were read before.
using Meddler = std::function<void(int64_t number, const IoBlock& block)>;

// What a run from the tag ends with whose rank 0 has somebody meddle with its files.
std::string word_of_meddling(const Committed& before, const Meddler& meddler) {
  std::atomic<int64_t> reads = 0;
  return word_of(before, [&](int rank) -> std::unique_ptr<IoEngine> {
    if (rank != 0) return sound_engine();
    return std::make_unique<FailingEngine>([&](const IoBlock& block) -> std::optional<int64_t> {
      if (block.kind == IoKind::kRead) meddler(reads++, block);
      return std::nullopt;
    });
  });
}

test::Bytes whole_file(const std::string& path) {
  return test::file_bytes(path, 0, fs::file_size(path));
}

TEST_CASE("fault 30: a byte that changes in a swap file is found before anybody uses it",
          "[train]") {
  const Committed before(GENERATE(0, 1) == 0 ? swapped() : swapped_ahead());
  int64_t struck = 0;
  for (int64_t k = 0;; k += 19) {
    CAPTURE(k);
    bool is_struck = false;
    const std::string word = word_of_meddling(before, [&](int64_t number, const IoBlock& block) {
      if (number != k) return;
      is_struck = true;
      test::flip_bit(path_of(block), block.offset, 3);
    });
    if (!is_struck) break;
    ++struck;
    CHECK_THAT(word, Contains("swap file ") && Contains(" is ") && Contains(", expected "));
  }
  CHECK(struck > 6);
}

// As after writes that were acknowledged and never made.
TEST_CASE("fault 30: a swap file as it was some writes ago is found before anybody uses it",
          "[train]") {
  const Committed before;
  int64_t struck = 0, found = 0;
  for (int64_t k = 30;; k += 40) {
    CAPTURE(k);
    bool is_struck = false;
    std::map<std::string, test::Bytes> then;
    const std::string word = word_of_meddling(before, [&](int64_t number, const IoBlock& block) {
      if (number < k && !then.contains(path_of(block))) {
        then[path_of(block)] = whole_file(path_of(block));
      }
      if (number != k || !then.contains(path_of(block))) return;
      is_struck = true;
      test::change_file(path_of(block), 0, then.at(path_of(block)));
    });
    if (!is_struck) break;
    ++struck;
    if (word.empty()) continue;  // nothing had been written since: the bits were right
    ++found;
    CHECK_THAT(word, Contains("swap file ") && Contains(", expected "));
  }
  CHECK(struck > 3);
  CHECK(found > struck / 2);
}

TEST_CASE("fault 30: the swap file of another rank is found before anybody uses it", "[train]") {
  const Committed before(2);
  const std::string word = word_of_meddling(before, [&](int64_t number, const IoBlock& block) {
    if (number != 20) return;
    std::string other = path_of(block);
    other.replace(other.find("rank-0"), 6, "rank-1");
    test::Bytes bytes = whole_file(other);
    bytes.resize(fs::file_size(path_of(block)));
    test::change_file(path_of(block), 0, bytes);
  });
  CHECK_THAT(word, Contains("rank is 1, expected 0 (the file of another rank)"));
}

TEST_CASE("fault 30: what an epoch before has left is replaced, and never read", "[train]") {
  const Committed before;
  std::map<std::string, test::Bytes> left;  // by name, of an epoch that is over
  const auto files_of = [&](const fs::path& folder, int64_t epoch, Meddler meddler) {
    auto reads = std::make_shared<std::atomic<int64_t>>(0);
    return swap_files_in(
        folder,
        [reads, meddler](int) {
          return std::make_unique<FailingEngine>(
              [reads, meddler](const IoBlock& block) -> std::optional<int64_t> {
                if (block.kind == IoKind::kRead) meddler((*reads)++, block);
                return std::nullopt;
              });
        },
        60'000, epoch);
  };
  const auto run = [&](const fs::path& folder, int64_t epoch, const Meddler& meddler) {
    Setting setting = before.setting;
    setting.swap_files = files_of(folder, epoch, meddler);
    CHECK(word_of_run(setting, *before.copy(), before.whole).empty());
  };
  const TemporaryDirectory folder;
  run(folder.path(), 1, [&](int64_t, const IoBlock& block) {
    left[fs::path(path_of(block)).filename()] = whole_file(path_of(block));
  });
  REQUIRE(left.size() == 2);
  for (const auto& [name, bytes] : left) {
    std::ofstream(folder.path() / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  }
  run(folder.path(), 2, [](int64_t, const IoBlock&) {});
  CHECK(fs::is_empty(folder.path()));
  // The same bytes in place of the living file.
  Setting setting = before.setting;
  setting.swap_files = files_of(folder.path(), 2, [&](int64_t number, const IoBlock& block) {
    if (number != 20) return;
    test::change_file(path_of(block), 0, left.at(fs::path(path_of(block)).filename()));
  });
  const auto disk = before.copy();
  CHECK_THROWS_WITH(
      train(setting, *disk, kSteps),
      Contains("generation is 1, expected 2 (the file of another generation of this job)"));
  before.check_goes_on(*disk);
}

}  // namespace
}  // namespace ds
