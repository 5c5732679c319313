#include "train/memory_tier.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/ranks.h"
#include "tests/train/runs/small_engine.h"
#include "train/checkpointing.h"
#include "train/plan/dry_run.h"
#include "train/step/swap.h"
#include "train/workspace.h"

namespace ds {
namespace {

using namespace testing;

// Hosts that are no more than their memory.
struct Hosts {
  std::vector<int> ranks;  // on each
  std::vector<Fd> memory;

  static Fd fresh() { return Fd(memfd_create("test", MFD_CLOEXEC)); }
  explicit Hosts(std::vector<int> ranks_of_each) : ranks(std::move(ranks_of_each)) {
    for (size_t i = 0; i < ranks.size(); ++i) memory.push_back(fresh());
  }
  void lose(size_t host) { memory[host] = fresh(); }  // and have another in its place
  void remove(size_t host) {
    memory.erase(memory.begin() + static_cast<std::ptrdiff_t>(host));
    ranks.erase(ranks.begin() + static_cast<std::ptrdiff_t>(host));
  }
  int world() const {
    int sum = 0;
    for (const int count : ranks) sum += count;
    return sum;
  }
  JobPlan plan_of(int rank) const {
    size_t host = 0;
    int first = 0;
    while (rank >= first + ranks[host]) first += ranks[host++];
    JobPlan plan;
    plan.rank = rank;
    plan.world_size = world();
    plan.local_rank = rank - first;
    plan.local_size = ranks[host];
    plan.run_dir = "/run";
    plan.memory_fd = memory[host].get();
    return plan;
  }
};

struct Epoch {
  int64_t number = 1;
  int64_t until = 5;
  int stage = 2;
  int64_t every = 1;   // states in memory
  int64_t copied = 1;  // of them on another host
  // Optimizer state and weights lie in these tiers.
  Tier state = Tier::kDevice, params = Tier::kDevice;
  double ratio = 1;
  std::optional<int64_t> disk_at = {};  // a checkpoint after this step
  std::optional<int64_t> bad_at = {};   // a weight of the last rank is no number after this step
};

struct Told {
  int64_t resumed_at = 0;
  std::string line;
  Outcome before, after;                // the state when training began, and when it ended
  std::vector<std::string> refusals{};  // of ranks that were to keep what is not finite
};

// As an editor does it.
void set_latest(MemoryFileSystem& files, const std::string& tag) {
  files.write_text_atomically("/run/checkpoints/latest", tag);
}

// One epoch of the world, which ends without a word.
Told live(const Hosts& hosts, FileSystem& files, const Epoch& epoch) {
  Setting setting{.ranks = hosts.world(), .stage = epoch.stage, .params = epoch.params};
  setting.state = epoch.state;
  setting.offload_ratio = epoch.ratio;
  setting.sub_group_numel = 640;
  const EngineOptions options = options_of(setting);
  const RunPlan run = dry_run(options, {.data = hosts.world()}, {});
  const TemporaryDirectory swap;
  Told told;
  std::mutex mutex;
  test::run_ranks(hosts.world(), [&](Communicator& comm) {
    Connections connections = Connections::over(comm, {.data = comm.size()});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    RankResources resources = workspace.resources();
    const SwapOwner owner{.job = "test", .rank = comm.rank(), .world = comm.size()};
    const std::string path = swap.path().string();
    resources.open_weight_swap =
        swap_opener({.nvme_path = path, .of = "parameters", .owner = owner});
    resources.open_state_swap = swap_opener({.nvme_path = path, .of = "state", .owner = owner});
    Engine engine(options, resources, run.of_rank(0).step);
    JobPlan plan = hosts.plan_of(comm.rank());
    plan.epoch = epoch.number;
    const auto copies = comm.split(0, comm.rank());
    HostExchange exchange(*copies);
    MemoryTier memory(engine, plan, exchange);
    Checkpointing checkpoints(engine, files, plan, {.memory = &memory});
    const int64_t first = checkpoints.load(std::nullopt);
    engine.restore_step(first);
    collect(engine, told.before, mutex);
    if (comm.rank() == 0) {
      told.resumed_at = first;
      told.line = fmt::format("{}", fmt::join(checkpoints.notices(), "\n"));
    }
    CountingSource source(options, comm.rank(), comm.size());
    while (engine.step() < epoch.until) {
      train_step(engine, source);
      if (epoch.bad_at == engine.step() && comm.rank() == comm.size() - 1)
        set_first_weight(engine, std::nanf(""));
      if (epoch.bad_at == engine.step()) {
        try {
          memory.save(MemoryTier::Replica::kPeerHost);
        } catch (const ValidationError& error) {
          const std::lock_guard lock(mutex);
          told.refusals.emplace_back(error.what());
        }
        return;
      }
      if (engine.step() % epoch.every == 0) {
        memory.save(engine.step() % epoch.copied == 0 ? MemoryTier::Replica::kPeerHost
                                                      : MemoryTier::Replica::kOwnHost);
      }
      if (epoch.disk_at == engine.step()) checkpoints.save();
    }
    collect(engine, told.after, mutex);
  });
  return told;
}

void flip_byte(const Fd& memory, int64_t at) {
  char byte = 0;
  REQUIRE(pread(memory.get(), &byte, 1, at) == 1);
  byte = static_cast<char>(byte ^ 1);
  REQUIRE(pwrite(memory.get(), &byte, 1, at) == 1);
}

constexpr int64_t kPieces = int64_t{1} << 29;  // of a slot

}  // namespace

TEST_CASE("ranks that die go on from the step before, with equal bits", "[rankd][memory]") {
  for (const std::vector<int>& shape : {std::vector{1}, std::vector{3}, std::vector{1, 2}}) {
    for (const int stage : {0, 1, 3}) {
      CAPTURE(shape.size(), stage);
      MemoryFileSystem disk, other_disk;
      const Hosts hosts(shape), undisturbed(shape);
      live(hosts, disk, {.number = 1, .until = 3, .stage = stage});
      const Told second = live(hosts, disk, {.number = 2, .until = 4, .stage = stage});
      CHECK(second.resumed_at == 3);
      CHECK(second.line == "resumed step=3 from=memory");
      const Told third = live(hosts, disk, {.number = 3, .until = 7, .stage = stage, .disk_at = 7});
      CHECK(third.resumed_at == 4);
      CHECK(list_tags(disk, "/run/checkpoints").tags.at(0).begun_in == 1);
      const Told whole = live(undisturbed, other_disk, {.until = 7, .stage = stage});
      CHECK(whole.line.empty());
      CHECK(third.after.state == whole.after.state);
    }
  }
}

TEST_CASE("a state in memory is gone on from with weights and optimizer state elsewhere",
          "[rankd][memory]") {
  const Epoch plain{.stage = 3};
  std::vector<Epoch> ways{plain};
  for (const Tier state : {Tier::kHost, Tier::kNvme}) {
    for (const Tier params : {Tier::kDevice, Tier::kHost, Tier::kNvme}) {
      Epoch way = plain;
      way.state = state;
      way.params = params;
      ways.push_back(way);
    }
  }
  ways.back().ratio = 0.3;
  ways.push_back({.stage = 2, .state = Tier::kHost});
  MemoryFileSystem other_disk;
  const Hosts undisturbed({1, 2});
  const Told whole = live(undisturbed, other_disk, {.until = 6, .stage = 3});
  for (size_t i = 0; i < ways.size(); ++i) {
    CAPTURE(i);
    MemoryFileSystem disk;
    Hosts hosts({1, 2});
    Epoch first = ways[i], second = ways[(i * 3 + 1) % ways.size()];
    first.until = 3;
    second.number = 2;
    second.until = 6;
    live(hosts, disk, first);
    hosts.lose(i % 2);  // and its state with it, but for the copy
    const Told then = live(hosts, disk, second);
    CHECK(then.resumed_at == 3);
    CHECK(then.after.state == whole.after.state);
    hosts.ranks = {1, 1};
    second.number = 3;
    const Told fewer = live(hosts, disk, second);
    CHECK(fewer.resumed_at == 6);
    CHECK(fewer.before.state == whole.after.state);
  }
}

TEST_CASE("a lost host costs no step, whoever takes its place", "[rankd][memory]") {
  for (const size_t victim : {size_t{0}, size_t{1}}) {
    MemoryFileSystem disk, other_disk;
    Hosts hosts({2, 2});
    const Hosts undisturbed({2, 2});
    live(hosts, disk, {.number = 1, .until = 3});
    hosts.lose(victim);
    const Told second = live(hosts, disk, {.number = 2, .until = 5});
    CHECK(second.resumed_at == 3);
    const Told whole = live(undisturbed, other_disk, {.until = 5});
    CHECK(second.after.state == whole.after.state);
    // The copies have been renewed: now the other one may go.
    hosts.lose(1 - victim);
    CHECK(live(hosts, disk, {.number = 3, .until = 5}).resumed_at == 5);
  }
}

TEST_CASE("a state in memory is loaded by any number of ranks on the hosts that are left",
          "[rankd][memory]") {
  for (const std::vector<int>& rest : {std::vector{2}, std::vector{1}, std::vector{4}}) {
    CAPTURE(rest[0]);
    MemoryFileSystem disk;
    Hosts hosts({2, 2});
    const Told first = live(hosts, disk, {.number = 1, .until = 3});
    hosts.remove(0);
    hosts.ranks = rest;
    const Told second = live(hosts, disk, {.number = 2, .until = 4});
    CHECK(second.resumed_at == 3);
    CHECK(second.before.state == first.after.state);
    // What the first world left is given back once the second has its own.
    live(hosts, disk, {.number = 3, .until = 6});
    const CheckpointMemory memory(hosts.memory[0].get());
    CHECK(memory.files().size() == static_cast<size_t>(2 * rest[0]));
  }
  for (const std::vector<int>& rest : {std::vector{1, 2}, std::vector{3, 1}, std::vector{1, 1}}) {
    CAPTURE(rest[0], rest[1]);
    MemoryFileSystem disk;
    Hosts hosts({2, 1, 1});
    const Told first = live(hosts, disk, {.number = 1, .until = 3, .stage = 3});
    hosts.remove(1);
    hosts.ranks = rest;
    const Told second = live(hosts, disk, {.number = 2, .until = 3, .stage = 1});
    CHECK(second.resumed_at == 3);
    CHECK(second.before.state == first.after.state);
  }
}

TEST_CASE("the newest state is taken, wherever it lies", "[rankd][memory]") {
  MemoryFileSystem disk;
  Hosts hosts({1, 1, 1});
  live(hosts, disk, {.number = 1, .until = 5, .every = 2, .disk_at = 3});  // memory 2 and 4, disk 3
  SECTION("memory is newer") {
    CHECK(live(hosts, disk, {.number = 2, .until = 4}).resumed_at == 4);
  }
  SECTION("memory has lost too much, so the disk") {
    hosts.lose(0);
    hosts.lose(1);
    const Told second = live(hosts, disk, {.number = 2, .until = 3});
    CHECK(second.resumed_at == 3);
    CHECK(second.line == "resumed step=3 from=global_step3: step 4 in memory is not whole");
    CHECK(CheckpointMemory(hosts.memory[2].get()).files().empty());
  }
  SECTION("the disk is newer") {
    live(hosts, disk, {.number = 2, .until = 6, .every = 100, .disk_at = 6});
    CHECK(live(hosts, disk, {.number = 3, .until = 6}).line == "resumed step=6 from=global_step6");
    for (const Fd& memory : hosts.memory) CHECK(CheckpointMemory(memory.get()).files().empty());
  }
  SECTION("there is nothing") {
    MemoryFileSystem empty_disk;
    for (size_t host = 0; host < 3; ++host) hosts.lose(host);
    const Told second = live(hosts, empty_disk, {.number = 2, .until = 1});
    CHECK(second.resumed_at == 0);
    CHECK(second.line.empty());
  }
}

TEST_CASE("a lost process costs less than a lost host where fewer states are copied",
          "[rankd][memory]") {
  MemoryFileSystem disk, other_disk;
  Hosts hosts({2, 1});
  const Hosts undisturbed({2, 1});
  live(hosts, disk, {.number = 1, .until = 5, .copied = 3});
  CHECK(live(hosts, disk, {.number = 2, .until = 5, .copied = 3}).resumed_at == 5);
  SECTION("a host") {
    hosts.lose(0);
    const Told second = live(hosts, disk, {.number = 3, .until = 8, .copied = 3});
    CHECK(second.resumed_at == 3);  // though step 5 was loaded since
    CHECK(second.after.state == live(undisturbed, other_disk, {.until = 8}).after.state);
    hosts.lose(1);
    CHECK(live(hosts, disk, {.number = 4, .until = 7, .copied = 3}).resumed_at == 6);
    // Step 8 was given up: it must not come back.
    CHECK(live(hosts, disk, {.number = 5, .until = 7, .copied = 3}).resumed_at == 7);
  }
  SECTION("a host, in a smaller world that has copied nothing yet") {
    live(hosts, disk, {.number = 3, .until = 5, .copied = 3});
    hosts.ranks = {1, 1};
    CHECK(live(hosts, disk, {.number = 4, .until = 5, .copied = 3}).resumed_at == 5);
    live(hosts, disk, {.number = 5, .until = 8, .copied = 100});
    hosts.lose(1);
    CHECK(live(hosts, disk, {.number = 6, .until = 3, .copied = 3}).resumed_at == 3);
  }
}

TEST_CASE("numbers that are not finite are kept by no rank, and what was kept stays",
          "[rankd][memory]") {
  MemoryFileSystem disk;
  const Hosts hosts({1, 2});
  const Told told = live(hosts, disk, {.number = 1, .until = 5, .bad_at = 4});
  REQUIRE(told.refusals.size() == 3);
  for (const std::string& refusal : told.refusals) {
    CHECK_THAT(refusal, Catch::Contains("after step 4 are not all finite: rank 2 on ") &&
                            Catch::Contains("is nan; what was saved before stays"));
  }
  CHECK(live(hosts, disk, {.number = 2, .until = 3}).line == "resumed step=3 from=memory");
}

TEST_CASE("states in memory of a line that was left behind are not gone on from",
          "[rankd][memory]") {
  MemoryFileSystem disk;
  const Hosts hosts({2});
  live(hosts, disk, {.number = 1, .until = 3, .disk_at = 3});
  live(hosts, disk, {.number = 2, .until = 6, .disk_at = 5});
  set_latest(disk, "global_step3");
  const Told back = live(hosts, disk, {.number = 3, .until = 4});
  CHECK(back.resumed_at == 3);
  CHECK_THAT(back.line, Catch::StartsWith("resumed step=3 from=global_step3: checkpoints/latest"));
  // What was kept since is of the line that goes on.
  const Told next = live(hosts, disk, {.number = 4, .until = 7, .disk_at = 7});
  CHECK(next.line == "resumed step=4 from=memory");
  const std::vector<CommittedTag> tags = list_tags(disk, "/run/checkpoints").tags;
  CHECK(tags.at(0).begun_in == 3);
  CHECK(tags.at(0).after == std::vector<Ancestor>{{.begun_in = 1, .step = 3}});
  CHECK(live(hosts, disk, {.number = 5, .until = 7}).resumed_at == 7);
}

TEST_CASE("a state that does not hold is passed over for the one before", "[rankd][memory]") {
  MemoryFileSystem disk, other_disk;
  Hosts hosts({1, 1});
  const Hosts undisturbed({1, 1});
  live(hosts, disk, {.number = 1, .until = 4});  // steps 3 and 4 are kept, 4 in buffer 3
  const int64_t slot = 3 * kSlotSpan;            // rank 0, the second with copies
  SECTION("its writer was killed") {
    CheckpointMemory memory(hosts.memory[0].get());
    memory.begin(0, 3)->write(0, std::as_bytes(std::span("half")));
    CheckpointMemory(hosts.memory[1].get()).begin(0, 3);
  }
  SECTION("its data were changed") { flip_byte(hosts.memory[0], slot + kPieces + 5); }
  SECTION("its manifest was changed") { flip_byte(hosts.memory[0], slot + 4096 + 50); }
  const Told second = live(hosts, disk, {.number = 2, .until = 6});
  CHECK(second.resumed_at == 3);
  const Told whole = live(undisturbed, other_disk, {.until = 6});
  CHECK(second.after.state == whole.after.state);
}

TEST_CASE("if no state holds, training begins anew", "[rankd][memory]") {
  MemoryFileSystem disk, other_disk;
  const Hosts hosts({2}), undisturbed({2});
  live(hosts, disk, {.number = 1, .until = 1});
  flip_byte(hosts.memory[0],
            kSlotsPerRank * kSlotSpan + kPieces + 5);  // of rank 1: rank 0 has read
  const Told second = live(hosts, disk, {.number = 2, .until = 2});
  CHECK(second.line == "resumed step=0 from=the beginning: step 1 in memory is not whole");
  CHECK(second.after.state == live(undisturbed, other_disk, {.until = 2}).after.state);
}

TEST_CASE("without memory to keep it in, no state is kept", "[rankd][memory]") {
  test::run_ranks(1, [](Communicator& comm) {
    const EngineOptions options = options_of({});
    Connections connections = Connections::over(comm, {.data = comm.size()});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    Engine engine(options, workspace.resources(), std::nullopt);
    bool refused = false;
    try {
      const JobPlan plan;
      MemoryTier memory(engine, plan, connections.peers().host);
    } catch (const Unsupported&) {
      refused = true;
    }
    test::require(refused, "it was not refused");
  });
}

}  // namespace ds
