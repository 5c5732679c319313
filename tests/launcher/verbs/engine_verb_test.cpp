// Questions to the engine as another program, and how it is found and asked.
#include "launcher/verbs/engine_verb.h"

#include <signal.h>
#include <sys/eventfd.h>

#include <fstream>

#include "core/files/file.h"
#include "core/status/error.h"
#include "launcher/run/job_config.h"
#include "tests/support/catch.h"
#include "tests/support/files/redirected_streams.h"

namespace ds {
namespace {

namespace fs = std::filesystem;
using End = EngineAnswer::End;

// A script in rankd's place.
class Engine {
 public:
  explicit Engine(const std::string& script) {
    const fs::path program = here_.path() / "rankd";
    std::ofstream(program) << "#!/bin/sh\n" + script + "\n";
    fs::permissions(program, fs::perms::owner_all);
    context_.rank_program = program.string();
    context_.environment = {"PATH=/usr/bin:/bin", "WHO=me"};
  }
  const CommandContext& context() const { return context_; }

 private:
  testing::TemporaryDirectory here_;
  CommandContext context_;
};

}  // namespace

TEST_CASE("the engine is asked in its own words, and its answer comes whole", "[launcher]") {
  const Engine engine(
      "echo \"$1 $3 $4 $WHO\"; head -c 100000 /dev/zero | tr '\\0' x; "
      "test \"$2\" = $PPID && echo right; read line || echo no input");
  const EngineAnswer answer = ask_engine({"--look", "a b.json"}, engine.context());
  CHECK(answer.end == End::kItsOwn);
  CHECK(answer.status.code == 0);
  CHECK(answer.text ==
        "--answer --look a b.json me\n" + std::string(100'000, 'x') + "right\nno input\n");
}

TEST_CASE("an engine that fails says how, and what it had said", "[launcher]") {
  const Engine engine("echo half; exit 66");
  const EngineAnswer answer = ask_engine({"plan"}, engine.context());
  CHECK(answer.status.code == 66);
  CHECK(answer.text == "half\n");
  try {
    engine_output({"plan"}, engine.context(), "the plan is not known");
    FAIL("it was known");
  } catch (const Error& error) {
    CHECK(error.exit_code() == ExitCode::kInputMissing);
    CHECK_THAT(error.what(), Catch::Equals("the plan is not known: rankd exited with code 66"));
  }
  const Engine killed("kill -9 $$");
  try {
    engine_output({"plan"}, killed.context(), "the plan is not known");
    FAIL("it was known");
  } catch (const Error& error) {
    CHECK(error.exit_code() == ExitCode::kInternal);
    CHECK_THAT(error.what(), Catch::Contains("was killed by signal 9"));
  }
  const Engine well("echo good");
  CHECK(engine_output({"plan"}, well.context(), "why") == "good\n");
}

TEST_CASE("an engine that takes too long, or that nobody waits for any more, is killed",
          "[launcher]") {
  const Engine engine("echo begun; exec sleep 1000");
  AskLimits limits;
  limits.longest = std::chrono::milliseconds(50);
  const EngineAnswer late = ask_engine({"plan"}, engine.context(), limits);
  CHECK(late.end == End::kTooLate);
  CHECK(late.status.signal == SIGKILL);
  const Fd interrupt(eventfd(1, EFD_CLOEXEC));  // readable at once
  limits = {};
  limits.interrupt_fd = interrupt.get();
  const EngineAnswer interrupted = ask_engine({"plan"}, engine.context(), limits);
  CHECK(interrupted.end == End::kInterrupted);
  CHECK(interrupted.status.signal == SIGKILL);
}

TEST_CASE("an engine that is not there is named, with where it belongs", "[launcher]") {
  CommandContext context;
  context.rank_program = "/nowhere/rankd";
  CHECK_THROWS_AS(ask_engine({"plan"}, context), InputMissing);
  CHECK_THROWS_AS(become_engine({{"generate"}}, context), InputMissing);
  CHECK_THROWS_WITH(become_engine({{"generate"}}, context),
                    "starting /nowhere/rankd: No such file or directory; it belongs beside "
                    "dslaunch or into ../libexec/dslaunch");
}

TEST_CASE("the engine lies beside dslaunch where both were built, else where it is installed",
          "[launcher]") {
  const testing::TemporaryDirectory here;
  const std::string own = (here.path() / "bin/dslaunch").string();
  const fs::path beside = here.path() / "bin/rankd";
  const fs::path installed = here.path() / "libexec/dslaunch/rankd";
  fs::create_directories(beside.parent_path());
  fs::create_directories(installed.parent_path());
  CHECK(installed_engine(own) == beside.string());  // for the message that it is missing
  std::ofstream(installed) << "x";
  CHECK(installed_engine(own) == installed.string());
  std::ofstream(beside) << "x";
  CHECK(installed_engine(own) == beside.string());
}

TEST_CASE("the plan of a run is asked for the world that it starts", "[launcher]") {
  RunOptions options;
  options.config = "train.json";
  options.overrides = {"train.steps=1", "~optimizer"};
  CHECK(plan_verb(options, {.ranks = 4, .threads = 3}, Device::cpu()).arguments ==
        std::vector<std::string>{"plan", "train.json", "train.steps=1", "~optimizer",
                                 "--num-ranks=4", "--num-threads=3", "--device=cpu"});
  CHECK(plan_verb(options, {}, Device::cuda(0)).arguments.back() == "--device=cuda");
}

TEST_CASE("batch sizes that fit one world only choose it, where there is room", "[launcher]") {
  JobConfig config;
  config.batch.train = 12;
  config.batch.micro = 2;
  config.batch.accumulation = 2;  // 3 ranks
  const Machine machine{.cores = 8, .gpus = 0};
  CHECK(local_shape(config, machine, {}, {}).ranks == 3);
  CHECK(local_shape(config, machine, {}, {}).threads == 2);
  CHECK(local_shape(config, machine, 2, {}).ranks == 2);  // the user's word goes first
  CHECK(local_shape(config, machine, {}, 5).threads == 5);
  CHECK(local_shape(config, {.cores = 2, .gpus = 0}, {}, {}).ranks == 2);
  CHECK(local_shape(config, {.cores = 8, .gpus = 2}, {}, {}).ranks == 2);
  config.batch.accumulation.reset();
  CHECK(local_shape(config, machine, {}, {}).ranks == 4);
}

}  // namespace ds
