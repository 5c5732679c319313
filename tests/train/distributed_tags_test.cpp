#include "checkpoint/hosts/distributed_tags.h"

#include "core/status/failpoint.h"
#include "tests/support/catch.h"
#include "tests/support/files/fault_file_system.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/ranks.h"
#include "tests/train/runs/small_engine.h"
#include "train/checkpointing.h"
#include "train/plan/dry_run.h"
#include "train/workspace.h"

namespace ds {
namespace {

using namespace testing;

constexpr const char* kTags = "/run/checkpoints";

// Hosts that are no more than their disks.
struct Machines {
  std::vector<int> ranks;  // on each
  std::vector<std::shared_ptr<MemoryFileSystem>> disks;

  explicit Machines(std::vector<int> ranks_of_each) : ranks(std::move(ranks_of_each)) {
    for (size_t i = 0; i < ranks.size(); ++i) disks.push_back(std::make_shared<MemoryFileSystem>());
  }
  int world() const {
    int sum = 0;
    for (const int count : ranks) sum += count;
    return sum;
  }
  size_t machine_of(int rank) const {
    size_t host = 0;
    for (int first = 0; rank >= first + ranks[host]; ++host) first += ranks[host];
    return host;
  }
  JobPlan plan_of(int rank) const {
    const size_t host = machine_of(rank);
    JobPlan plan;
    plan.rank = rank;
    plan.world_size = world();
    for (size_t i = 0; i < host; ++i) rank -= ranks[i];
    plan.local_rank = rank;
    plan.local_size = ranks[host];
    plan.run_dir = "/run";
    plan.shm_name = "here";
    return plan;
  }
  std::vector<std::string> in_tag(size_t host, const std::string& tag) const {
    std::vector<std::string> out;
    const std::string folder = join_path(kTags, tag);
    if (!disks[host]->exists(folder)) return out;
    for (const DirectoryEntry& entry : disks[host]->list(folder)) out.push_back(entry.name);
    return out;
  }
  std::vector<std::string> folders(size_t host) const {
    std::vector<std::string> out;
    for (const DirectoryEntry& entry : disks[host]->list(kTags)) {
      if (entry.kind == DirectoryEntry::Kind::kDirectory) out.push_back(entry.name);
    }
    return out;
  }
};

struct Life {
  int64_t number = 1;
  int64_t until = 4;
  int stage = 2;
  int64_t keep = 0;
  ResumeMode resume = ResumeMode::kAuto;
  int64_t oldest = 0;
  std::string tag = "";  // to go on from
  // A tag after each step from `save_from` on; what a failed one says is told.
  int64_t save_from = 1;
  std::function<void(FaultFileSystem& disk, size_t host, int64_t step)> before_save = {};
  bool exports = false;
  // The data of that tag are other ones on that host's disk as soon as it has its name.
  std::pair<size_t, std::string> spoiled = {0, ""};
};

class SpoilingDisk final : public FaultFileSystem {
 public:
  SpoilingDisk(MemoryFileSystem& disk, const std::string& tag)
      : FaultFileSystem(disk), disk_(disk), place_(join_path(kTags, tag)), spoils_(!tag.empty()) {}
  void rename(const std::string& from, const std::string& to) override {
    FaultFileSystem::rename(from, to);
    if (!spoils_ || to != place_) return;
    for (const DirectoryEntry& entry : disk_.list(place_)) {
      if (entry.name.ends_with(".pieces")) disk_.flip_bit(join_path(place_, entry.name), 9);
    }
  }

 private:
  MemoryFileSystem& disk_;
  const std::string place_;
  const bool spoils_;
};

struct Heard {
  int64_t resumed_at = 0;
  std::string line;
  std::vector<std::string> failures;  // of rank 0's saves
  Outcome before, after;              // the state when training began, and when it ended
};

// One epoch of the world, which ends without a word.
Heard live(const Machines& machines, const Life& life) {
  const EngineOptions options = options_of({.ranks = machines.world(), .stage = life.stage});
  const RunPlan run = dry_run(options, {.data = machines.world()}, {});
  std::vector<std::unique_ptr<FaultFileSystem>> disks;
  for (size_t i = 0; i < machines.disks.size(); ++i) {
    const std::string spoiled = life.spoiled.first == i ? life.spoiled.second : "";
    disks.push_back(std::make_unique<SpoilingDisk>(*machines.disks[i], spoiled));
  }
  Heard heard;
  std::mutex mutex;
  test::run_ranks(machines.world(), [&](Communicator& comm) {
    Connections connections = Connections::over(comm, {.data = comm.size()});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    Engine engine(options, workspace.resources(), run.of_rank(0).step);
    JobPlan plan = machines.plan_of(comm.rank());
    plan.epoch = life.number;
    plan.resume = life.resume;
    plan.oldest_tag_epoch = life.oldest;
    plan.resume_tag = life.tag;
    const size_t host = machines.machine_of(comm.rank());
    FaultFileSystem& disk = *disks[host];
    Checkpointing checkpoints(engine, disk, plan,
                              {.keep = life.keep, .storage = TagStorage::kEachHost});
    const int64_t first = checkpoints.load(std::nullopt);
    engine.restore_step(first);
    collect(engine, heard.before, mutex);
    if (comm.rank() == 0) {
      heard.resumed_at = first;
      heard.line = fmt::format("{}", fmt::join(checkpoints.notices(), "\n"));
    }
    CountingSource source(options, comm.rank(), comm.size());
    while (engine.step() < life.until) {
      train_step(engine, source);
      if (engine.step() < life.save_from) continue;
      comm.barrier();
      if (life.before_save && plan.local_rank == 0) life.before_save(disk, host, engine.step());
      comm.barrier();
      try {
        checkpoints.save();
      } catch (const IoError& failure) {
        if (comm.rank() == 0) heard.failures.emplace_back(failure.what());
      }
    }
    if (life.exports)
      checkpoints.export_model(
          "/run/final", folder_frame(disk, options.model, std::nullopt, "byte", DType::kF32));
    collect(engine, heard.after, mutex);
  });
  return heard;
}

std::string refusal_of(const Machines& machines, const Life& life) {
  try {
    live(machines, life);
  } catch (const ValidationError& refused) {
    return refused.what();
  }
  return "";
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("each host keeps the files of its own ranks, and together they load with equal bits",
          "[rankd][local]") {
  for (const int stage : {1, 3}) {
    CAPTURE(stage);
    const Machines machines({2, 2}), undisturbed({4});
    live(machines, {.number = 1, .until = 2, .stage = stage});
    CHECK(machines.in_tag(0, "global_step2") ==
          Names{"manifest.json", "named", "rank-00000.pieces", "rank-00001.pieces"});
    CHECK(machines.in_tag(1, "global_step2") ==
          Names{"manifest.json", "named", "rank-00002.pieces", "rank-00003.pieces"});
    for (const size_t host : {size_t{0}, size_t{1}}) {
      CHECK(machines.folders(host) == Names{"global_step1", "global_step2"});
      CHECK(machines.disks[host]->read_text("/run/checkpoints/latest", 100) == "global_step2\n");
    }
    const Heard second = live(machines, {.number = 2, .until = 5, .stage = stage});
    CHECK(second.resumed_at == 2);
    CHECK(second.line == "resumed step=2 from=global_step2");
    const Heard whole = live(undisturbed, {.until = 5, .stage = stage});
    CHECK(second.after.state == whole.after.state);
  }
}

TEST_CASE("tags of several hosts are loaded by any number of ranks that together have them",
          "[rankd][local]") {
  const std::vector<std::pair<std::vector<int>, std::vector<int>>> changes{
      {{2, 2}, {1, 1}}, {{1, 1}, {2, 1}}, {{1, 1}, {1, 2}}, {{3, 1}, {1, 3}}, {{2, 2}, {1, 1, 2}}};
  for (const auto& [saved, loaded] : changes) {
    CAPTURE(saved[0], saved[1], loaded[0], loaded[1]);
    Machines machines(saved);
    const Heard first = live(machines, {.number = 1, .until = 2, .stage = 3});
    machines.ranks = loaded;
    while (machines.disks.size() < loaded.size()) {
      machines.disks.insert(machines.disks.begin() + 1, std::make_shared<MemoryFileSystem>());
    }
    const Heard second = live(machines, {.number = 2, .until = 3, .stage = 1});
    CHECK(second.resumed_at == 2);
    CHECK(second.before.state == first.after.state);
    // The next tag lies as the new world does, and the ranks of the old one are no longer needed.
    CHECK(live(machines, {.number = 3, .until = 3}).resumed_at == 3);
  }
}

TEST_CASE("hosts that share a file system, and a single host, keep a tag in one place",
          "[rankd][local]") {
  for (const bool single : {true, false}) {
    CAPTURE(single);
    Machines machines(single ? std::vector{3} : std::vector{2, 1});
    if (!single) machines.disks[1] = machines.disks[0];
    const Heard first = live(machines, {.number = 1, .until = 2, .keep = 1, .exports = true});
    CHECK(machines.folders(0) == Names{"global_step2"});
    CheckpointReader::open(*machines.disks[0], kTags, "global_step2").verify();
    CHECK(machines.disks[0]->exists("/run/final/model.safetensors"));
    CHECK(
        CheckpointReader::open(*machines.disks[0], kTags, "global_step2").manifest().hosts.empty());
    const Heard second = live(machines, {.number = 2, .until = 2});
    CHECK(second.resumed_at == 2);
    CHECK(second.before.state == first.after.state);
  }
}

TEST_CASE("a tag that one host cannot commit is on none, and the one before is loaded",
          "[rankd][local]") {
  for (const size_t victim : {size_t{0}, size_t{1}}) {
    // Each of the disk's calls during the save of step 2 in turn.
    int64_t failed = 0, committed = 0;
    for (int64_t call = 0; committed == 0 || call < 12; ++call) {
      CAPTURE(victim, call);
      REQUIRE(call < 60);
      const Machines machines({1, 1});
      const auto fail = [&](FaultFileSystem& disk, size_t host, int64_t step) {
        if (host == victim && step == 2) disk.fail_call(disk.call_count() + call, Fault::kIoError);
      };
      const Heard first = live(machines, {.number = 1, .until = 2, .before_save = fail});
      const bool saved = first.failures.empty();
      ++(saved ? committed : failed);
      for (const size_t host : {size_t{0}, size_t{1}}) {
        CHECK(machines.folders(host) ==
              (saved ? Names{"global_step1", "global_step2"} : Names{"global_step1"}));
      }
      CHECK(live(machines, {.number = 2, .until = 1}).resumed_at == (saved ? 2 : 1));
    }
    CHECK(failed > 10);
  }
}

TEST_CASE("whenever a host dies in a save, the tag is whole or was never named", "[rankd][local]") {
  // The disk of the dead host obeys no more, and the others hear of it by an error.
  const auto crash_at = [](int64_t step, size_t victim, int64_t call) {
    return [=](FaultFileSystem& disk, size_t host, int64_t now) {
      if (host == victim && now == step) disk.fail_call(disk.call_count() + call, Fault::kCrash);
    };
  };
  for (const bool replaces : {false, true}) {
    for (const size_t victim : {size_t{0}, size_t{1}}) {
      int64_t ended = 0;
      for (int64_t call = 0; ended == 0; ++call) {
        CAPTURE(replaces, victim, call);
        REQUIRE(call < 60);
        Machines machines({1, 1});
        // Then the tag of step 2 is the only one, and about to be replaced by one that is the same.
        if (replaces) live(machines, {.number = 1, .until = 2, .save_from = 2});
        try {
          live(machines, {.number = 2,
                          .until = 2,
                          .resume = ResumeMode::kNever,
                          .save_from = 2,
                          .before_save = crash_at(2, victim, call)});
          ++ended;
        } catch (const SimulatedCrash&) {
        } catch (const CommError&) {  // who hears of it first
        }
        for (auto& disk : machines.disks) disk = disk->after_crash(CrashModel::kKeepNone, 1);
        // Never a refusal: either it counts, or nobody was told of it.
        const Heard next = live(machines, {.number = 3, .until = 3});
        CHECK((next.resumed_at == 2 || (!replaces && next.resumed_at == 0)));
        CHECK(live(machines, {.number = 4, .until = 3}).resumed_at == 3);
        for (const size_t host : {size_t{0}, size_t{1}}) {
          for (const std::string& name : machines.folders(host)) CHECK_FALSE(is_marked(name));
        }
      }
    }
  }
}

TEST_CASE("a lost disk is an error, or costs the tags since an older one, never all of them",
          "[rankd][local]") {
  Machines machines({2, 1});
  live(machines, {.number = 1, .until = 3});
  SECTION("all of it") {
    machines.disks[1] = std::make_shared<MemoryFileSystem>();
    const std::string why = refusal_of(machines, {.number = 2});
    CHECK_THAT(
        why,
        Catch::Contains("there is no checkpoint that can be loaded") &&
            Catch::Contains(
                "global_step3 of generation 1 is not whole: the file of rank 2 of 3 (saved on "));
    CHECK_THAT(why, Catch::Contains(" is on none of the hosts that answered: "));
    CHECK_THAT(why, Catch::Contains("(ranks 0 to 1), "));
    CHECK_FALSE(refusal_of(machines, {.number = 3, .resume = ResumeMode::kRequired}).empty());
    CHECK(live(machines, {.number = 4, .until = 1, .resume = ResumeMode::kNever, .oldest = 4})
              .resumed_at == 0);
    // A restart of that launch does not look back.
    CHECK(live(machines, {.number = 5, .until = 1, .oldest = 4}).resumed_at == 1);
  }
  SECTION("one who answers no more") {
    machines.ranks = {1};
    CHECK_THAT(refusal_of(machines, {.number = 2}), Catch::Contains("the file of rank 2 of 3"));
    machines.ranks = {1, 1};  // and is back: nothing was cleared away meanwhile
    CHECK(live(machines, {.number = 3, .until = 3}).resumed_at == 3);
  }
  SECTION("a part of it") {
    machines.disks[1]->remove_tree("/run/checkpoints/global_step3");
    const Heard second = live(machines, {.number = 2, .until = 4});
    CHECK(second.resumed_at == 2);
    CHECK_THAT(
        second.line,
        Catch::Contains("global_step3 of generation 1 is not whole: the file of rank 2 of 3") &&
            Catch::Contains("resumed step=2 from=global_step2: going back from step 3 to step 2"));
    CHECK(live(machines, {.number = 3, .until = 4}).resumed_at == 4);
  }
  SECTION("a file that cannot be what it was") {
    machines.disks[1]->truncate("/run/checkpoints/global_step3/rank-00002.pieces", 4096);
    CHECK(live(machines, {.number = 2, .until = 2}).resumed_at == 2);
  }
  SECTION("data that do not hold") {
    machines.disks[1]->flip_bit("/run/checkpoints/global_step3/rank-00002.pieces", 99);
    CHECK(live(machines, {.number = 2, .until = 2}).resumed_at == 2);
  }
  SECTION("a manifest that does not hold") {
    for (const auto& disk : machines.disks) {
      for (const char* tag : {"global_step1", "global_step2", "global_step3"}) {
        disk->flip_bit(fmt::format("{}/{}/manifest.json", kTags, tag), 900);
      }
    }
    CHECK_THAT(refusal_of(machines, {.number = 2}), Catch::Contains("manifest.json: corrupt"));
  }
}

TEST_CASE("the newest tags stay on every host, and none is deleted that is still needed",
          "[rankd][local]") {
  Machines machines({1, 2});
  live(machines, {.number = 1, .until = 4, .keep = 2});
  for (const size_t host : {size_t{0}, size_t{1}}) {
    CHECK(machines.folders(host) == Names{"global_step3", "global_step4"});
  }
  SECTION("a newer one that is not whole counts for nothing") {
    machines.disks[0]->remove_tree("/run/checkpoints/global_step4");
    live(machines, {.number = 2, .until = 4, .keep = 1, .save_from = 5});
    CHECK(machines.folders(1) == Names{"global_step3", "global_step4"});
    machines.disks[0]->flip_bit("/run/checkpoints/global_step3/manifest.json", 900);
    CHECK_FALSE(refusal_of(machines, {.number = 3}).empty());
    machines.disks[0]->flip_bit("/run/checkpoints/global_step3/manifest.json", 900);
    live(machines, {.number = 4, .until = 6, .keep = 1});
    for (const size_t host : {size_t{0}, size_t{1}})
      CHECK(machines.folders(host) == Names{"global_step6"});
  }
  SECTION("a full disk deletes nothing") {
    const auto spoil = [&](FaultFileSystem&, size_t host, int64_t step) {
      if (host == 1 && step == 5) machines.disks[1]->set_capacity(machines.disks[1]->used_bytes());
    };
    const Heard second = live(machines, {.number = 2, .until = 5, .keep = 1, .before_save = spoil});
    CHECK(second.failures.size() == 1);
    for (const size_t host : {size_t{0}, size_t{1}}) {
      CHECK(machines.folders(host) == Names{"global_step3", "global_step4"});
    }
  }
}

TEST_CASE("a later tag whose data do not hold is not kept in place of one that does",
          "[rankd][local]") {
  const Machines machines({1, 1});
  live(machines, {.number = 1, .until = 4});
  for (const char* tag : {"global_step3", "global_step4"}) {
    machines.disks[1]->flip_bit(fmt::format("{}/{}/rank-00001.pieces", kTags, tag), 9);
  }
  CHECK(live(machines, {.number = 2, .until = 3, .keep = 1}).resumed_at == 2);
  for (const size_t host : {size_t{0}, size_t{1}}) {
    CHECK(machines.folders(host) == Names{"global_step3", "global_step4"});
  }
  CHECK(live(machines, {.number = 3, .until = 3}).resumed_at == 3);
}

TEST_CASE("a run begun anew is gone on with on every host, and not the one before it",
          "[rankd][local]") {
  for (const std::vector<int>& ranks : {std::vector<int>{2}, std::vector<int>{1, 1}}) {
    const Machines machines(ranks);
    live(machines, {.number = 1, .until = 4, .save_from = 4});
    live(machines, {.number = 2, .until = 2, .resume = ResumeMode::kNever, .oldest = 2});
    CHECK(live(machines, {.number = 3, .until = 2}).resumed_at == 2);
    // Without its tags there is an error, and no way back to the run before.
    for (const auto& disk : machines.disks) {
      for (const std::string tag : {"global_step1", "global_step2"}) {
        for (const DirectoryEntry& entry : disk->list(join_path(kTags, tag))) {
          if (entry.name.ends_with(".pieces"))
            disk->remove(join_path(join_path(kTags, tag), entry.name));
        }
      }
    }
    CHECK_THAT(refusal_of(machines, {.number = 4, .until = 2}),
               Catch::Contains("global_step2 of generation 2 is not whole"));
  }
}

TEST_CASE("a training goes back on every host, by latest or by name, and nobody forgets it",
          "[rankd][local]") {
  for (const std::vector<int>& ranks : {std::vector<int>{2}, std::vector<int>{1, 1}}) {
    for (const bool by_name : {false, true}) {
      CAPTURE(ranks.size(), by_name);
      const Machines machines(ranks);
      live(machines, {.number = 1, .until = 4});
      // The first host's word counts, which has rank 0; what others say counts for nothing.
      if (!by_name)
        machines.disks[0]->write_text_atomically(join_path(kTags, "latest"), "global_step2");
      Life life{.number = 2, .until = 2, .save_from = 9};
      if (by_name) {
        life.oldest = 2;
        life.tag = "global_step2";
      }
      const Heard back = live(machines, life);
      CHECK(back.resumed_at == 2);
      CHECK_THAT(back.line, Catch::Contains("names it, and what was made after step 2"));
      CHECK(live(machines, {.number = 3, .until = 3, .save_from = 3}).resumed_at == 2);
      CHECK(live(machines, {.number = 4, .until = 3}).resumed_at == 3);
      // 3 is another one now, 4 is still the old one.
      CHECK(machines.folders(0).size() == 4);
      CHECK(live(machines, {.number = 5, .until = 6, .keep = 2}).resumed_at == 3);
      CHECK(machines.folders(0) == Names{"global_step5", "global_step6"});
    }
  }
}

TEST_CASE("a latest of another host is no wish, and no more one that was late", "[rankd][local]") {
  const Machines machines({1, 1});
  live(machines, {.number = 1, .until = 4});
  machines.disks[1]->write_text_atomically(join_path(kTags, "latest"), "global_step2");
  CHECK(live(machines, {.number = 2, .until = 4}).resumed_at == 4);
  machines.disks[0]->write_text_atomically(join_path(kTags, "latest"), "global_step2");
  machines.disks[0]->remove(join_path(kTags, "global_step4/named"));
  CHECK(live(machines, {.number = 3, .until = 4}).resumed_at == 4);
}

TEST_CASE("nothing is deleted before every host has read the new tag", "[rankd][local]") {
  Machines machines({1, 2});
  live(machines, {.number = 1, .until = 4, .keep = 2});
  const Heard second =
      live(machines, {.number = 2, .until = 5, .keep = 2, .spoiled = {1, "global_step5"}});
  CHECK(second.failures.empty());  // its index holds
  for (const size_t host : {size_t{0}, size_t{1}}) {
    CHECK(machines.folders(host) == Names{"global_step3", "global_step4", "global_step5"});
  }
  CHECK(live(machines, {.number = 3, .until = 6, .keep = 2}).resumed_at == 4);
  for (const size_t host : {size_t{0}, size_t{1}})
    CHECK(machines.folders(host) == Names{"global_step5", "global_step6"});
}

TEST_CASE("a tag that was to be replaced is back on every host, if one of them fails",
          "[rankd][local]") {
  if (failpoint_names().empty()) return;
  for (const std::string place : {"local.prepared", "local.all_prepared", "local.published"}) {
    CAPTURE(place);
    const Machines machines({2, 1});
    live(machines, {.number = 1, .until = 2, .save_from = 2});
    const auto fail = [&](FaultFileSystem&, size_t host, int64_t) {
      if (host == 0) arm_failpoints(place + "=1*error(eio)->off", {0, 1});
    };
    const Heard second = live(machines, {.number = 2,
                                         .until = 2,
                                         .resume = ResumeMode::kNever,
                                         .save_from = 2,
                                         .before_save = fail});
    CHECK(second.failures.size() == 1);
    for (const size_t host : {size_t{0}, size_t{1}}) {
      CHECK(machines.folders(host) == Names{"global_step2"});
      const std::string path = "/run/checkpoints/global_step2/manifest.json";
      CHECK(parse_manifest(path, machines.disks[host]->read_text(path, 10000)).epoch == 1);
    }
    CHECK(live(machines, {.number = 3, .until = 2}).resumed_at == 2);
  }
  arm_failpoints("train.begin=off", {0, 1});
}

TEST_CASE("errors at every place of a save and a load are agreed on", "[rankd][local]") {
  if (failpoint_names().empty()) return;
  const auto armed = [](const std::string& places) {
    return [places](FaultFileSystem&, size_t host, int64_t step) {
      if (host == 0 && step == 2) arm_failpoints(places, {0, 1});
    };
  };
  for (const std::string place : {"local.prepared", "local.all_prepared", "local.published"}) {
    for (const std::string second : {"", "; local.unpublished=1*error(eio)->off"}) {
      CAPTURE(place, second);
      const Machines machines({1, 2});
      const std::string places = fmt::format("{}=1*error(eio)->off{}", place, second);
      const Heard first = live(machines, {.number = 1, .until = 3, .before_save = armed(places)});
      REQUIRE(first.failures.size() == 1);
      CHECK_THAT(first.failures[0], Catch::Contains("checkpoint global_step2 was not saved"));
      if (second.empty()) {
        for (const size_t host : {size_t{0}, size_t{1}})
          CHECK(machines.folders(host) == Names{"global_step1", "global_step3"});
      }
      CHECK(live(machines, {.number = 2, .until = 3}).resumed_at == 3);
    }
  }
  for (const std::string place : {"local.all_published", "local.verified", "latest.before_write"}) {
    CAPTURE(place);
    const Machines machines({2, 1});
    const Heard first = live(
        machines,
        {.number = 1, .until = 2, .keep = 1, .before_save = armed(place + "=1*error(eio)->off")});
    CHECK(first.failures.empty());
    CHECK(live(machines, {.number = 2, .until = 2}).resumed_at == 2);
  }
  for (const std::string place :
       {"local.marked", "local.before_open_epoch", "epoch.recorded", "local.settled"}) {
    CAPTURE(place);
    const Machines machines({2, 1});
    live(machines, {.number = 1, .until = 2});
    arm_failpoints(place + "=1*error(eio)->off", {0, 1});
    CHECK_THROWS_AS(live(machines, {.number = 2, .until = 2}), IoError);
    CHECK(live(machines, {.number = 3, .until = 2}).resumed_at == 2);
  }
  arm_failpoints("train.begin=off", {0, 1});
}

TEST_CASE("an epoch that is over can commit on no host", "[rankd][local]") {
  const Machines machines({1, 1});
  live(machines, {.number = 1, .until = 1});
  const auto overtake = [&](FaultFileSystem&, size_t host, int64_t step) {
    if (host == 1 && step == 2) open_epoch(*machines.disks[1], kTags, 9, Unfinished::kKeep);
  };
  const Heard late = live(machines, {.number = 2, .until = 2, .before_save = overtake});
  REQUIRE(late.failures.size() == 1);
  CHECK_THAT(late.failures[0],
             Catch::Contains("generation 2 is over, generation 9 has taken its place"));
  CHECK(live(machines, {.number = 10, .until = 1}).resumed_at == 1);
  bool refused = false;
  try {
    live(machines, {.number = 3, .until = 1});
  } catch (const IoError& error) {
    refused = std::string(error.what()).find("generation 3 is over") != std::string::npos;
  }
  CHECK(refused);
}

TEST_CASE("the model is exported by the first rank, whoever has its files", "[rankd][local]") {
  Machines machines({1, 2}), together({3});
  live(machines, {.number = 1, .until = 2, .stage = 3, .exports = true});
  live(together, {.number = 1, .until = 2, .stage = 3, .exports = true});
  const auto model_of = [](MemoryFileSystem& disk) {
    return disk.read_text("/run/final/model.safetensors", int64_t{1} << 30);
  };
  CHECK(model_of(*machines.disks[0]) == model_of(*together.disks[0]));
  CHECK_FALSE(machines.disks[1]->exists("/run/final"));
}

TEST_CASE("what a host has of a tag says what is missing", "[rankd][local]") {
  const Machines machines({1, 1});
  live(machines, {.number = 1, .until = 1});
  const FoundTag found = find_newest_valid(*machines.disks[0], kTags, Depth::kIndexes);
  CHECK_FALSE(found.tag.has_value());
  REQUIRE(found.rejected.size() == 1);
  CHECK_THAT(found.rejected[0].why,
             Catch::Contains("/run/checkpoints/global_step1: the file of rank 1 of 2 (saved on "));
  CHECK_THAT(
      found.rejected[0].why,
      Catch::Contains("is not here: the tag was saved with checkpoint.use_node_local_storage"));
  CHECK_THAT(
      found.rejected[0].why,
      Catch::Contains("the folders global_step1 of all hosts, copied into one, make it whole"));
  // Copied into one, it is.
  const std::string name = "/run/checkpoints/global_step1/rank-00001.pieces";
  const std::unique_ptr<File> from = machines.disks[1]->open(name);
  std::vector<std::byte> bytes(static_cast<size_t>(from->size()));
  from->read(0, bytes);
  machines.disks[0]->create(name)->write(0, bytes);
  CHECK(find_newest_valid(*machines.disks[0], kTags, Depth::kAllBytes).tag.has_value());
}

}  // namespace ds
