// Every crash state and every failing call of a save: a committed tag always loads, an uncommitted
// one never does (the save protocol of checkpoint/commit.h).
#include <functional>

#include "tests/checkpoint/fixture.h"
#include "tests/support/catch.h"
#include "tests/support/files/fault_file_system.h"
#include "tests/support/files/memory_file_system.h"

using namespace ds;
using namespace ds::testing;

namespace {

enum class Progress { kSaving, kCommitted };

struct Scenario {
  const char* name;
  Save before;  // committed and durable at the start
  Save during;  // saved while things go wrong
};

void prepare(MemoryFileSystem& fs, const Scenario& scenario) {
  open_epoch(fs, "/c", scenario.before.epoch);
  save_and_commit(fs, "/c", 2, scenario.before);
  write_latest(fs, "/c", scenario.before.tag, scenario.before.epoch);
}

// The save under test, up to the point where older tags may go.
void run(FileSystem& fs, const Scenario& scenario, Progress& progress) {
  open_epoch(fs, "/c", scenario.during.epoch);
  save_and_commit(fs, "/c", 3, scenario.during);
  progress = Progress::kCommitted;
  write_latest(fs, "/c", scenario.during.tag, scenario.during.epoch);
  retain_tags(fs, "/c", 1, scenario.during.epoch, scenario.during.step);
}

// What a restart finds: one of the two saves, whole; the new one if its commit had returned.
void check_state(FileSystem& fs, const Scenario& scenario, Progress progress) {
  open_epoch(fs, "/c", scenario.during.epoch + 1);
  const FoundTag found = find_newest_valid(fs, "/c", Depth::kAllBytes);
  REQUIRE(found.tag.has_value());
  const bool is_new = found.tag->step == scenario.during.step;
  const Save& expected = is_new ? scenario.during : scenario.before;
  if (progress == Progress::kCommitted) CHECK(is_new);
  CHECK(found.rejected.empty());
  CHECK(found.tag->tag == expected.tag);
  CHECK(load(fs, "/c", expected.tag) == values_of(counting(77, expected.value)));
  for (const DirectoryEntry& entry : fs.list("/c")) {  // leftovers are gone
    CHECK(entry.name.find(".tmp.") == std::string::npos);
    CHECK(entry.name.find(".old.") == std::string::npos);
  }
}

const std::vector<Scenario> kScenarios = {
    {"a second tag", {"a", 1, 1, 10}, {"b", 1, 2, 20}},
    {"the same tag again, by the next epoch", {"a", 1, 1, 10}, {"a", 2, 2, 20}},
};

int64_t call_count(const Scenario& scenario) {
  MemoryFileSystem memory;
  prepare(memory, scenario);
  FaultFileSystem faults(memory);
  Progress progress = Progress::kSaving;
  run(faults, scenario, progress);
  return faults.call_count();
}

}  // namespace

TEST_CASE("after a crash at any call a restart finds the newest committed tag whole",
          "[checkpoint]") {
  int64_t states = 0;
  for (const Scenario& scenario : kScenarios) {
    const int64_t calls = call_count(scenario);
    REQUIRE(calls > 30);
    for (int64_t k = 0; k < calls; ++k) {
      MemoryFileSystem memory;
      prepare(memory, scenario);
      FaultFileSystem faults(memory);
      faults.fail_call(k, Fault::kCrash);
      Progress progress = Progress::kSaving;
      CHECK_THROWS_AS(run(faults, scenario, progress), SimulatedCrash);
      INFO(scenario.name << ", crash in call " << k << ": " << faults.calls().back());
      const auto check = [&](CrashModel model, uint64_t seed) {
        INFO("model " << static_cast<int>(model) << " seed " << seed);
        const auto after = memory.after_crash(model, seed);
        check_state(*after, scenario, progress);
        ++states;
      };
      check(CrashModel::kKeepAll, 0);
      check(CrashModel::kKeepNone, 0);
      for (uint64_t seed = 0; seed < 40; ++seed) check(CrashModel::kTorn, seed);
    }
  }
  CHECK(states > 3000);
}

TEST_CASE("a second crash during recovery changes nothing", "[checkpoint]") {
  const Scenario& scenario = kScenarios[1];
  const int64_t calls = call_count(scenario);
  for (int64_t k = 0; k < calls; k += 3) {
    MemoryFileSystem memory;
    prepare(memory, scenario);
    FaultFileSystem faults(memory);
    faults.fail_call(k, Fault::kCrash);
    Progress progress = Progress::kSaving;
    CHECK_THROWS_AS(run(faults, scenario, progress), SimulatedCrash);
    for (int64_t second = 0; second < 12; ++second) {
      const auto after = memory.after_crash(CrashModel::kTorn, static_cast<uint64_t>(k));
      FaultFileSystem again(*after);
      again.fail_call(second, Fault::kCrash);
      try {
        open_epoch(again, "/c", 7);
      } catch (const SimulatedCrash&) {
      }
      for (uint64_t seed = 0; seed < 4; ++seed) {
        const auto last = after->after_crash(CrashModel::kTorn, seed);
        open_epoch(*last, "/c", 8);
        check_state(*last, {scenario.name, scenario.before, {"a", 8, 2, 20}}, progress);
      }
    }
  }
}

TEST_CASE("when any single call fails the old tag stays, and the next attempt commits",
          "[checkpoint]") {
  for (const Scenario& scenario : kScenarios) {
    const int64_t calls = call_count(scenario);
    for (const Fault fault : {Fault::kIoError, Fault::kDiskFull, Fault::kShortWrite}) {
      for (int64_t k = 0; k < calls; ++k) {
        MemoryFileSystem memory;
        prepare(memory, scenario);
        FaultFileSystem faults(memory);
        faults.fail_call(k, fault);
        Progress progress = Progress::kSaving;
        try {
          run(faults, scenario, progress);
        } catch (const IoError&) {
          discard_tag(memory, "/c", scenario.during.tag, scenario.during.epoch);
        }
        INFO(scenario.name << ", failing call " << k << ": "
                           << faults.calls()[static_cast<size_t>(k)]);
        const FoundTag found = find_newest_valid(memory, "/c", Depth::kAllBytes);
        REQUIRE(found.tag.has_value());
        if (progress == Progress::kCommitted) CHECK(found.tag->step == scenario.during.step);
        // The same epoch tries again, without any clean-up but its own.
        run(memory, scenario, progress);
        check_state(memory, scenario, Progress::kCommitted);
      }
    }
  }
}
