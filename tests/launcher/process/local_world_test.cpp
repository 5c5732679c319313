#include "launcher/process/local_world.h"

#include <stdlib.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("bytes become lines, whatever their pieces", "[launcher]") {
  std::vector<std::string> lines;
  const auto sink = [&](std::string_view line) { lines.emplace_back(line); };
  LineBuffer buffer;
  for (const char* piece : {"one\ntw", "o\n", "", "\nfour", "\nrest"}) {
    buffer.feed(piece, sink);
  }
  CHECK(lines == std::vector<std::string>{"one", "two", "", "four"});
  buffer.finish(sink);
  buffer.finish(sink);
  CHECK(lines.back() == "rest");
  CHECK(lines.size() == 5);
}

TEST_CASE("a line without an end does not grow for ever", "[launcher]") {
  size_t longest = 0;
  LineBuffer buffer;
  for (int i = 0; i < 1000; ++i) {
    buffer.feed(std::string(1000, 'x'),
                [&](std::string_view line) { longest = std::max(longest, line.size()); });
  }
  CHECK(longest > 0);
  CHECK(longest < 100'000);
}

TEST_CASE("standard error of every rank reaches its log and the launcher", "[launcher]") {
  const testing::TemporaryDirectory here;
  const RunDirectory run = RunDirectory::open("run", here.path(), "train", "now");
  // A script in rankd's place: it says what it sees and leaves standard input unread.
  const std::filesystem::path program = here.path() / "rank.sh";
  std::ofstream(program) << "#!/bin/sh\necho to the log\necho \"warning $WHO $1\" >&2\nexit 4\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  WorldPlan plan;
  plan.ranks.resize(2);
  plan.tokens = {"token-a", "token-b"};
  std::map<int, std::string> logged;
  LocalStarter starter({program.string(), {"WHO=me"}, "digest"}, run,
                       [&](int rank, std::string_view line) { logged[rank] += line; });
  const std::unique_ptr<World> started = starter.start(plan);
  World& world = *started;
  REQUIRE(world.size() == 2);
  std::vector<std::string> said;
  const auto sink = [&](int rank, std::string_view line) {
    said.push_back(fmt::format("{}: {}", rank, line));
  };
  for (int rank = 0; rank < 2; ++rank) {
    std::optional<ExitStatus> status;
    while (!(status = world.newly_ended(rank, sink))) {
      std::vector<pollfd> watched;
      world.add_poll_descriptors(watched);
      REQUIRE(poll(watched.data(), watched.size(), 10'000) > 0);
      world.pump(sink);
    }
    CHECK(status->code == 4);
    CHECK_FALSE(world.newly_ended(rank, sink));
    CHECK_THAT(content(run.rank_log(rank)), Catch::Contains("to the log"));
    CHECK(logged[rank] == "warning me --from-stdin");
  }
  std::ranges::sort(said);
  CHECK(said ==
        std::vector<std::string>{"0: warning me --from-stdin", "1: warning me --from-stdin"});
  std::vector<pollfd> watched;
  world.add_poll_descriptors(watched);
  CHECK(watched.empty());
}

TEST_CASE("every rank of this machine sees its own GPU and no other", "[launcher]") {
  const testing::TemporaryDirectory here;
  const RunDirectory run = RunDirectory::open("run", here.path(), "train", "now");
  const std::string gpus = (here.path() / "gpus").string();
  std::ofstream(gpus) << "gpu GPU-0c A\ngpu GPU-1a B\nmemory 1000 400\n";
  setenv("DS_FAKE_NVML", gpus.c_str(), 1);
  const std::filesystem::path program = here.path() / "rank.sh";
  std::ofstream(program) << "#!/bin/sh\necho \"$CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER\" >&2\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  WorldPlan plan;
  plan.ranks.resize(2);
  plan.tokens = {"token-a", "token-b"};
  std::map<int, std::string> said;
  LocalStarter starter({.program = program.string(),
                        .environment = {"CUDA_VISIBLE_DEVICES=3,GPU-1a"},
                        .config_digest = "digest",
                        .gpus = {"3", "GPU-1a"},
                        .nvml = DS_FAKE_NVML_FILE},
                       run, [&](int rank, std::string_view line) { said[rank] += line; });
  const std::unique_ptr<World> world = starter.start(plan);
  const auto ignore = [](int, std::string_view) {};
  for (int rank = 0; rank < 2; ++rank) {
    while (!world->newly_ended(rank, ignore)) {
      std::vector<pollfd> watched;
      world->add_poll_descriptors(watched);
      REQUIRE(poll(watched.data(), watched.size(), 10'000) > 0);
      world->pump(ignore);
    }
  }
  CHECK(said[0] == "3 PCI_BUS_ID");
  CHECK(said[1] == "GPU-1a ");
  while (!world->gpu_of(1)) std::this_thread::yield();  // somebody looks
  unsetenv("DS_FAKE_NVML");
  CHECK(world->gpu_of(1)->figures.memory_used == 600);
  CHECK_FALSE(world->gpu_of(0));  // no GPU 3 is there
}

TEST_CASE("a rank gets what its slot adds, and an address where ranks meet over TCP",
          "[launcher]") {
  const testing::TemporaryDirectory here;
  const RunDirectory run = RunDirectory::open("run", here.path(), "train", "now");
  const std::filesystem::path program = here.path() / "rank.sh";
  std::ofstream(program) << "#!/bin/sh\n"
                            "told=$(dd bs=65536 count=1 2> /dev/null | grep -aoF 127.0.0.1)\n"
                            "echo \"$SLOT $WHO listens: $told\" >&2\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const auto said_over = [&](DataPlane data_plane) {
    LocalWorld::Options options{program.string(), {"PATH=/usr/bin:/bin", "WHO=all"}, "digest"};
    options.variables[""] = {{"SLOT=0"}, {"SLOT=1", "WHO=one"}};
    LocalStarter starter(options, run, [](int, std::string_view) {});
    WorldPlan plan;
    plan.data_plane = data_plane;
    plan.ranks = {{"", 0, 2, 0}, {"", 1, 2, 1}};
    plan.tokens = {"token-a", "token-b"};
    std::vector<std::string> said;
    const auto sink = [&](int, std::string_view line) { said.emplace_back(line); };
    const std::unique_ptr<World> world = starter.start(plan);
    for (int rank = 0; rank < 2; ++rank) {
      while (!world->newly_ended(rank, sink)) {
        std::vector<pollfd> watched;
        world->add_poll_descriptors(watched);
        REQUIRE(poll(watched.data(), watched.size(), 10'000) > 0);
        world->pump(sink);
      }
    }
    std::ranges::sort(said);
    return said;
  };
  CHECK(said_over(DataPlane::kTcp) ==
        std::vector<std::string>{"0 all listens: 127.0.0.1", "1 one listens: 127.0.0.1"});
  CHECK(said_over(DataPlane::kMpi) ==
        std::vector<std::string>{"0 all listens: ", "1 one listens: "});
}

TEST_CASE("a world whose program is missing starts nothing", "[launcher]") {
  const testing::TemporaryDirectory here;
  const RunDirectory run = RunDirectory::open("run", here.path(), "train", "now");
  WorldPlan plan;
  plan.ranks.resize(1);
  plan.tokens = {"token"};
  LocalStarter starter({"/nowhere/rankd", {}, ""}, run, [](int, std::string_view) {});
  CHECK_THROWS_AS(starter.start(plan), InputMissing);
}

TEST_CASE("ranks of every epoch inherit the same memory", "[launcher]") {
  const testing::TemporaryDirectory here;
  const RunDirectory run = RunDirectory::open("run", here.path(), "train", "now");
  const std::filesystem::path program = here.path() / "rank.sh";
  // Each says what it finds, and adds to it. Cutting it off is refused.
  std::ofstream(program) << "#!/bin/sh\necho \"found $(cat /proc/self/fd/4)\" >&2\n"
                            "printf kept >> /proc/self/fd/4\n(: > /proc/self/fd/4) 2> /dev/null\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  LocalStarter starter({program.string(), {"PATH=/usr/bin:/bin"}, "digest"}, run,
                       [](int, std::string_view) {});
  std::vector<std::string> said;
  const auto sink = [&](int, std::string_view line) { said.emplace_back(line); };
  for (int epoch = 1; epoch <= 3; ++epoch) {
    WorldPlan plan;
    plan.epoch = epoch;
    plan.ranks.resize(1);
    plan.tokens = {"token"};
    const std::unique_ptr<World> world = starter.start(plan);
    while (!world->newly_ended(0, sink)) {
      std::vector<pollfd> watched;
      world->add_poll_descriptors(watched);
      REQUIRE(poll(watched.data(), watched.size(), 10'000) > 0);
      world->pump(sink);
    }
  }
  CHECK(said == std::vector<std::string>{"found ", "found kept", "found keptkept"});
}

}  // namespace ds
