// Hosts and their agents, with a script in ssh's place: the agents are real, the hosts are this
// machine.
#include "launcher/agents/host_world.h"

#include <signal.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "core/status/error.h"
#include "launcher/agents/epoch_plan.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

void write_script(const fs::path& path, const std::string& text) {
  std::ofstream(path) << "#!/bin/sh\n" << text;
  fs::permissions(path, fs::perms::owner_all);
}

// Logs in nowhere: runs the command here, or fails as the host's name says.
constexpr const char* kFakeSsh = R"sh(
while [ "$1" != -- ]; do shift; done
host=$2
shift 2
case $host in
  key) echo 'me@key: Permission denied (publickey).' >&2; exit 255 ;;
  unknown) echo 'Host key verification failed.' >&2; exit 255 ;;
  absent) echo "sh: 1: $1: not found" >&2; exit 127 ;;
  killed) kill -9 $$ ;;
  crossed*)
    echo start >> "${0%/*}/$host"
    if [ "$(wc -l < "${0%/*}/$host")" -lt "${host#crossed}" ]; then
      echo 'orte_session_dir failed' >&2; echo '  --> Returned value Error (-1)' >&2; exit 1
    fi ;;
  stuck) echo 'Please type your token:' >&2; exec sleep 60 ;;
  noisy) echo 'Welcome to this host'; printf 'no newline here '; echo 'bashrc: oops' >&2 ;;
  garbled) read -r greeting; echo "${greeting##* }.00000000AAAA"; exec sleep 60 ;;
esac
export SSH_CONNECTION='127.0.0.1 4000 127.0.0.1 22'
exec "$@"
)sh";

struct TestHosts {
  testing::TemporaryDirectory here;
  RunDirectory run = RunDirectory::open("run", here.path(), "train", "now");
  std::vector<std::string> told;
  HostAgents agents;

  TestHosts() : agents(options()) { write_script(here.path() / "ssh", kFakeSsh); }

  HostAgents::Options options() {
    HostAgents::Options out;
    out.tell = [this](const std::string& line) { told.push_back(line); };
    out.kind = RunnerKind::kSsh;
    out.runner.dslaunch = DS_DSLAUNCH_PROGRAM;
    out.path = here.path().string();
    out.environment = {"PATH=/usr/bin:/bin", "LD_LIBRARY_PATH=" DS_FAKE_NVML_FOLDER,
                       fmt::format("DS_FAKE_NVML={}", (here.path() / "gpus").string())};
    out.deadline = std::chrono::seconds(2);
    return out;
  }

  // Ranks that run this script; two on each host.
  std::unique_ptr<World> start(const std::string& script, const std::vector<std::string>& hosts) {
    write_script(here.path() / "rank.sh", script);
    std::vector<RankPlacement> places;
    for (const std::string& host : hosts) {
      places.push_back({host, 0, 2, 0});
      places.push_back({host, 1, 2, 1});
    }
    starter.emplace(
        agents,
        HostWorldOptions{.program = (here.path() / "rank.sh").string(),
                         .directory = here.path(),
                         .environment = {"WHO=me"},
                         .config_digest = "digest",
                         .variables = {{"b", {{"SLOT=b0", "WHO=b0"}, {"SLOT=b1"}}}},
                         .cores = {},
                         .place_gpus = place_gpus},
        run, [this](int rank, std::string_view line) { logs[rank] += fmt::format("{}\n", line); });
    WorldPlan plan = make_epoch_plan(places);
    plan.epoch = ++epoch;
    plan.coordinator_endpoints = {};
    for (const std::string& address : starter->reach(places)) {
      plan.coordinator_endpoints.push_back(address + ":1");
    }
    plan.credentials.resize(places.size());
    return starter->start(plan);
  }

  std::map<int, std::string> logs;  // by rank
  std::optional<HostWorldStarter> starter;
  std::function<std::vector<std::string>(const std::vector<RankPlacement>&,
                                         const std::vector<ReachedHost>&)>
      place_gpus{};
  int64_t epoch = 0;
};

// Everything said and every end, until all ranks have ended.
struct Story {
  std::vector<std::string> said;
  std::map<int, ExitStatus> ends;
};

Story watch(World& world) {
  Story story;
  const auto sink = [&](int rank, std::string_view line) {
    story.said.push_back(fmt::format("{}: {}", rank, line));
  };
  while (story.ends.size() < static_cast<size_t>(world.size())) {
    std::vector<pollfd> watched;
    world.add_poll_descriptors(watched);
    poll(watched.data(), watched.size(), 1000);
    world.pump(sink);
    for (int rank = 0; rank < world.size(); ++rank) {
      if (const auto status = world.newly_ended(rank, sink)) story.ends[rank] = *status;
    }
  }
  std::ranges::sort(story.said);
  return story;
}

std::string refusal(HostAgents& agents, const std::vector<std::string>& hosts) {
  try {
    agents.reach(hosts);
  } catch (const HostsUnusable& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every bad host is named in one report, with what to do", "[launcher]") {
  TestHosts hosts;
  const std::string text = refusal(
      hosts.agents, {"good", "key", "unknown", "absent", "killed", "stuck", "garbled", "noisy"});
  CHECK_THAT(text, Catch::Contains("6 of 8 hosts cannot be used"));
  CHECK_THAT(text, Catch::Contains("key: ssh exited with code 255: me@key: Permission denied") &&
                       Catch::Contains("key that works without a prompt"));
  CHECK_THAT(text, Catch::Contains("unknown: ssh exited with code 255: Host key verification"));
  CHECK_THAT(text, Catch::Contains("absent: ssh exited with code 127") &&
                       Catch::Contains("same path on every host"));
  CHECK_THAT(text, Catch::Contains("killed: ssh was killed by signal 9"));
  CHECK_THAT(text,
             Catch::Contains("stuck: no answer within 2 s") && Catch::Contains("type your token"));
  CHECK_THAT(text, Catch::Contains("garbled: agent channel:"));
  CHECK_THAT(text, !Catch::Contains("good:") && !Catch::Contains("noisy:"));
}

TEST_CASE("a command whose session another one has cleared away is started again", "[launcher]") {
  TestHosts hosts;
  const auto starts = [&](const std::string& host) {
    std::ifstream lines(hosts.here.path() / host);
    return std::count(std::istreambuf_iterator<char>(lines), {}, '\n');
  };
  CHECK(refusal(hosts.agents, {"good", "crossed2", "crossed4"}).empty());
  CHECK(starts("crossed2") == 2);
  CHECK(starts("crossed4") == 4);
  const std::string text = refusal(hosts.agents, {"good", "crossed9"});
  CHECK_THAT(text,
             Catch::Contains("1 of 2 hosts cannot be used") &&
                 Catch::Contains("crossed9: ssh exited with code 1: orte_session_dir failed"));
  CHECK(starts("crossed9") == 4);
  CHECK(starts("crossed2") == 2);  // it has its agent
  REQUIRE(hosts.told.size() == 1 + 3 + 3);
  CHECK_THAT(hosts.told.front(),
             Catch::Contains("orte_session_dir failed") && Catch::EndsWith("it is started again"));
}

TEST_CASE("a launcher that is not installed is said for every host", "[launcher]") {
  TestHosts hosts;
  fs::remove(hosts.here.path() / "ssh");
  CHECK_THAT(refusal(hosts.agents, {"a", "b"}),
             Catch::Contains("2 of 2") && Catch::Contains("ssh is not on the PATH"));
}

TEST_CASE("hosts that are reached keep their agent", "[launcher]") {
  TestHosts hosts;
  const auto first = hosts.agents.reach({"a", "b"});
  const auto second = hosts.agents.reach({"b", "a"});
  CHECK(first[0].link == second[1].link);
  CHECK(first[0].link->ready()->pid() == second[1].link->ready()->pid());
  CHECK(first[0].data_address == "127.0.0.1");
  CHECK(first[0].coordinator_address == "127.0.0.1");
}

TEST_CASE("the ranks of each host inherit its memory in every epoch", "[launcher]") {
  TestHosts hosts;
  watch(*hosts.start("[ $LOCAL_RANK = 0 ] && printf \"of $RANK\" >> /proc/self/fd/3\nexit 0\n",
                     {"a", "b"}));
  const auto world = hosts.start("echo \"$(cat /proc/self/fd/3)\" >&2\n", {"a", "b"});
  CHECK(watch(*world).said == std::vector<std::string>{"0: of 0", "1: of 0", "2: of 2", "3: of 2"});
}

TEST_CASE("a rank gets what its slot adds to the environment", "[launcher]") {
  TestHosts hosts;
  const std::string script = "echo \"${SLOT:-no slot} of $WHO\" >&2\n";
  CHECK(watch(*hosts.start(script, {"a", "b"})).said ==
        std::vector<std::string>{"0: no slot of me", "1: no slot of me", "2: b0 of b0",
                                 "3: b1 of me"});
}

TEST_CASE("hosts are looked for without waiting, and used once they are asked for", "[launcher]") {
  TestHosts hosts;
  const auto wait_for_news = [&](size_t count) {
    std::map<std::string, std::string> news;
    const auto deadline = HostLink::Clock::now() + std::chrono::seconds(20);
    while (news.size() < count && HostLink::Clock::now() < deadline) {
      std::vector<pollfd> watched;
      hosts.agents.add_poll_descriptors(watched);
      poll(watched.data(), watched.size(), 100);
      for (const CandidateHost& candidate : hosts.agents.take_candidates())
        news[candidate.host] = candidate.problem;
    }
    return news;
  };
  for (const char* host : {"a", "b", "key", "stuck", "crossed3", "crossed9"}) {
    hosts.agents.seek(host);
  }
  const auto news = wait_for_news(6);
  REQUIRE(news.size() == 6);
  CHECK(news.at("crossed3").empty());
  CHECK_THAT(news.at("crossed9"), Catch::Contains("orte_session_dir failed"));
  CHECK(hosts.told.size() == 2 + 3);  // starts of crossed3 and crossed9 after their first
  CHECK(news.at("a").empty());
  CHECK(news.at("b").empty());
  CHECK_THAT(news.at("key"), Catch::Contains("Permission denied"));
  CHECK_THAT(news.at("stuck"), Catch::Contains("no answer within 2 s"));
  CHECK(hosts.agents.take_candidates().empty());
  CHECK(hosts.agents.reach({"a", "b"}).size() == 2);
}

TEST_CASE("ranks of several hosts are heard, logged and reaped", "[launcher]") {
  TestHosts hosts;
  const auto world = hosts.start(
      "echo to the log\necho \"$WHO $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_SIZE $CROSS_RANK\" >&2\n"
      "exit $((RANK + 3))\n",
      {"noisy", "b"});
  REQUIRE(world->size() == 4);
  const Story story = watch(*world);
  CHECK(story.said == std::vector<std::string>{"0: me 0/4 0/2 0", "1: me 1/4 1/2 0",
                                               "2: b0 2/4 0/2 1", "3: me 3/4 1/2 1"});
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(story.ends.at(rank).code == rank + 3);
    CHECK(story.ends.at(rank).signal == 0);
    CHECK_THAT(hosts.logs[rank], Catch::Contains("to the log"));
  }
  CHECK(world->lost_hosts().empty());
}

TEST_CASE("ranks of other hosts see the GPU that they were given", "[launcher]") {
  TestHosts hosts;
  hosts.place_gpus = [](const std::vector<RankPlacement>& ranks,
                        const std::vector<ReachedHost>& reached) {
    CHECK(reached.size() == 2);
    std::vector<std::string> gpus;
    for (const RankPlacement& place : ranks)
      gpus.push_back(fmt::format("GPU-{}-{}", place.host, place.slot));
    return gpus;
  };
  // Both hosts have the same GPUs, so that each finds two of them.
  std::ofstream(hosts.here.path() / "gpus")
      << "gpu GPU-one-0 A\nmemory 1000 900\ngpu GPU-one-1 A\nmemory 1000 800\n"
      << "gpu GPU-two-0 A\nmemory 1000 700\ngpu GPU-two-1 A\nmemory 1000 600\n";
  const auto world = hosts.start("echo \"$CUDA_VISIBLE_DEVICES\" >&2\n", {"one", "two"});
  CHECK(watch(*world).said ==
        std::vector<std::string>{"0: GPU-one-0", "1: GPU-one-1", "2: GPU-two-0", "3: GPU-two-1"});
  const auto waiting = hosts.start("sleep 60\n", {"one", "two"});
  const auto ignore = [](int, std::string_view) {};
  const auto all_seen = [&] {
    for (int rank = 0; rank < 4; ++rank) {
      if (!waiting->gpu_of(rank)) return false;
    }
    return true;
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!all_seen() && std::chrono::steady_clock::now() < deadline) {
    std::vector<pollfd> watched;
    waiting->add_poll_descriptors(watched);
    poll(watched.data(), watched.size(), 100);
    waiting->pump(ignore);
  }
  REQUIRE(all_seen());
  for (int rank = 0; rank < 4; ++rank)
    CHECK(waiting->gpu_of(rank)->figures.memory_used == 100 * (rank + 1));
}

TEST_CASE("a rank that a signal killed is reported so, never as exit 0", "[launcher]") {
  TestHosts hosts;
  const Story story = watch(*hosts.start("kill -9 $$\n", {"a"}));
  CHECK(story.ends.at(0).signal == 9);
  CHECK(story.ends.at(1).signal == 9);
}

TEST_CASE("long and binary output arrives whole", "[launcher]") {
  TestHosts hosts;
  const Story story = watch(*hosts.start(
      "head -c 30000 /dev/zero | tr '\\0' x >&2\nprintf '\\n\\377\\001\\n' >&2\n", {"a"}));
  REQUIRE(story.said.size() == 4);
  CHECK(std::ranges::count(story.said, "0: " + std::string(30000, 'x')) == 1);
  CHECK(std::ranges::count(story.said, "1: \377\001") == 1);
}

TEST_CASE("a lost host ends its ranks and no others", "[launcher]") {
  TestHosts hosts;
  const auto world = hosts.start("[ $CROSS_RANK = 0 ] && exec sleep 60\nexit 0\n", {"a", "b"});
  const int agent = static_cast<int>(hosts.agents.reach({"a"})[0].link->ready()->pid());
  kill(agent, SIGKILL);
  const Story story = watch(*world);
  CHECK(story.ends.at(0).signal == SIGKILL);
  CHECK(story.ends.at(1).signal == SIGKILL);
  CHECK(story.ends.at(2).signal == 0);
  CHECK(world->lost_hosts() == std::vector<std::string>{"a"});
  CHECK_THAT(world->loss_of(0), Catch::Contains("host a is lost: ssh was killed by signal 9"));
  CHECK(world->loss_of(2).empty());
}

TEST_CASE("killing a world ends every process of it, and the agents serve the next one",
          "[launcher]") {
  TestHosts hosts;
  auto world = hosts.start("sleep 61 &\nexec sleep 60\n", {"a", "b"});
  world->kill_all();
  for (const auto& [rank, status] : watch(*world).ends) CHECK(status.signal == SIGKILL);
  world.reset();
  world = hosts.start("exit 5\n", {"a", "b"});
  for (const auto& [rank, status] : watch(*world).ends) CHECK(status.code == 5);
}

TEST_CASE("a host without the program says so", "[launcher]") {
  TestHosts hosts;
  const auto world = hosts.start("", {"a"});
  static_cast<void>(watch(*world));
  fs::remove(hosts.here.path() / "rank.sh");
  WorldPlan plan = make_epoch_plan({{"a", 0, 1, 0}});
  plan.epoch = 9;
  plan.credentials.resize(1);
  for (const std::string& address : hosts.starter->reach(plan.ranks)) {
    plan.coordinator_endpoints.push_back(address + ":1");
  }
  const auto broken = hosts.starter->start(plan);
  const Story story = watch(*broken);
  CHECK(story.ends.at(0).code == static_cast<int>(ExitCode::kInputMissing));
  CHECK_THAT(story.said.at(0), Catch::Contains("host a:") && Catch::Contains("rank.sh"));
}

}  // namespace ds
