#include "launcher/verbs/command_line.h"

#include "cli/command_line.h"
#include "core/status/error.h"
#include "launcher/actions.h"
#include "launcher/control/control_request.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

RunOptions options_of(const std::vector<std::string>& arguments) {
  return run_options(std::get<ParsedVerb>(parse_line(arguments)).line->values<RunArgs>());
}

Action action_of(const std::vector<std::string>& arguments) {
  return action_for(std::get<ParsedVerb>(parse_line(arguments)), arguments);
}

}  // namespace

TEST_CASE("every verb has an action in the launcher or is one of the engine", "[launcher]") {
  for (const Verb& verb : verbs()) {
    INFO(verb.name);
    ParsedVerb parsed{&verb, verb.describe(verb)};
    CHECK(action_for(parsed, {std::string(verb.name)}) != nullptr);
  }
}

TEST_CASE("how to resume and how long to wait", "[launcher]") {
  CHECK(options_of({"t.json", "--resume=required"}).resume == ResumeMode::kRequired);
  CHECK_FALSE(options_of({"t.json"}).resume);
  CHECK(options_of({"t.json"}).waits.hosts == std::chrono::seconds(60));
  CHECK(options_of({"t.json", "--wait-for-hosts", "5m"}).waits.hosts == std::chrono::minutes(5));
  CHECK(options_of({"t.json", "--wait-for-hosts", "0"}).waits.hosts == Time::zero());
  CHECK(options_of({"t.json"}).waits.room == std::chrono::minutes(10));
  CHECK(options_of({"t.json", "--wait-for-room", "5s"}).waits.room == std::chrono::seconds(5));
  CHECK(options_of({"t.json", "--wait-for-room", "0"}).waits.room == Time::zero());
}

TEST_CASE("a checkpoint to go on from is named alone or by its path", "[launcher]") {
  const RunOptions named = options_of({"t.json", "--resume", "global_step6"});
  CHECK(named.resume_tag == "global_step6");
  CHECK(named.resume == ResumeMode::kAuto);
  CHECK_FALSE(named.run_dir.has_value());
  for (const char* const path :
       {"runs/a/checkpoints/global_step6", "runs/a/checkpoints/global_step6/",
        "./runs/a/./checkpoints//global_step6"}) {
    CAPTURE(path);
    const RunOptions whole = options_of({"t.json", "--resume", path});
    CHECK(whole.resume_tag == "global_step6");
    CHECK(whole.run_dir == std::filesystem::path("runs/a"));
    CHECK(options_of({"t.json", "--resume", path, "--run-dir", "runs/b/../a"}).resume_tag ==
          "global_step6");
    CHECK_THROWS_AS(options_of({"t.json", "--resume", path, "--run-dir", "runs/b"}), UsageError);
  }
  CHECK(options_of({"t.json", "--resume", "checkpoints/global_step6"}).run_dir ==
        std::filesystem::path("."));
  CHECK_THROWS_WITH(options_of({"t.json", "--resume", "elsewhere/global_step6"}),
                    Catch::Contains("expected RUN_DIR/checkpoints/global_step6"));
  CHECK(options_of({"t.json", "--resume", "never"}).resume_tag.empty());
}

TEST_CASE("values that do not hold are usage errors before anything starts", "[launcher]") {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"train.json", "--time-limit", "later"},
                                             {"train.json", "--wait-for-hosts", "-1"},
                                             {"train.json", "--bind-core-list", "5-2"},
                                             {"train.json", "--run-dir="},
                                             {"train.json", "--nodes", "2", "--num-nodes", "2"},
                                             {"train.json", "--nodes", "3:2"},
                                             {"train.json", "--metrics-listen", "nowhere"},
                                             {"train.json", "--launcher", "rsh"},
                                             {"train.json", "--device", "cpu", "--share-gpus"},
                                             {"preflight", "--launcher", "telepathy"}}) {
    CHECK_THROWS_AS(action_of(arguments), UsageError);
  }
}

TEST_CASE("the end of the job comes from Slurm, from the user, or not at all", "[launcher]") {
  CHECK(options_of({"t.json"}).ask_for_time_limit);
  const RunOptions said = options_of({"t.json", "--time-limit", "2h"});
  CHECK(said.time_limit == Time(std::chrono::hours(2)));
  CHECK_FALSE(said.ask_for_time_limit);
  const RunOptions none = options_of({"t.json", "--time-limit", "none"});
  CHECK_FALSE(none.time_limit);
  CHECK_FALSE(none.ask_for_time_limit);
}

TEST_CASE("where ranks compute", "[launcher]") {
  CHECK(options_of({"t.json"}).devices.wish == DeviceWish::kAuto);
  CHECK(options_of({"t.json", "--device", "cpu"}).devices.wish == DeviceWish::kCpu);
  const DeviceRequest shared = options_of({"t.json", "--device=cuda", "--share-gpus"}).devices;
  CHECK(shared.wish == DeviceWish::kCuda);
  CHECK(shared.sharing == GpuSharing::kAllowed);
}

TEST_CASE("binding in DeepSpeed's spellings and ours", "[launcher]") {
  CHECK_FALSE(options_of({"t.json"}).binding.wants_topology());
  CHECK(options_of({"--bind_cores_to_rank", "t.json"}).binding.bind);
  CHECK(options_of({"--bind-cores-to-rank", "t.json"}).binding.bind);
  CHECK(options_of({"--bind_core_list", "1,3-5", "t.json"}).binding.cores ==
        std::vector<int>{1, 3, 4, 5});
  CHECK(options_of({"--report-bindings", "t.json"}).binding.report);
}

TEST_CASE("orders to a run have the names of the protocol", "[launcher]") {
  for (const char* order : {"save", "stop", "pause", "resume", "join"}) {
    CHECK(action_of({"ctl", order}) != nullptr);
    CHECK(control_request(control_verb(order)) == fmt::format("{{\"verb\": \"{}\"}}", order));
  }
}

}  // namespace ds
