// Wrong words on the command line are told so, with the nearest that is understood.
#include "cli/typing.h"

#include <filesystem>

#include "cli/command_line.h"
#include "cli/failure.h"
#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/working_directory.h"

namespace ds {
namespace {

std::string refusal_of(const std::vector<std::string>& arguments) {
  try {
    parse_line(arguments);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "taken";
}

}  // namespace

TEST_CASE("a wrong verb names the nearest and is not taken for a configuration", "[cli]") {
  CHECK(refusal_of({"stauts"}) ==
        "'stauts' is neither a verb nor a file; did you mean the verb status? (see `dslaunch "
        "--help`)");
  CHECK_THAT(refusal_of({"genrate", "runs/latest"}),
             Catch::Contains("did you mean the verb generate?"));
  CHECK_THAT(refusal_of({"tpo"}), Catch::Contains("did you mean the verb top?"));
  CHECK_THAT(refusal_of({"help", "stauts"}), Catch::Contains("did you mean the verb status?"));
  CHECK(refusal_of({"banana"}) == "'banana' is neither a verb nor a file (see `dslaunch --help`)");
  // Files, and what can only be meant as one, are left to whoever reads them.
  const testing::TemporaryDirectory here;
  const testing::WorkingDirectory stand(here.path());
  std::filesystem::create_directory("folder");
  for (const char* config :
       {"train.json", "./stauts", "configs/stauts", "folder", "eyJ0cmFpbl9iYXRjaF9zaXplIjogOH0="}) {
    INFO(config);
    CHECK(refusal_of({config}) == "taken");
  }
}

TEST_CASE("a wrong option names the nearest, whatever else it does to the line", "[cli]") {
  CHECK(refusal_of({"train.json", "--num-rank", "2"}) ==
        "--num-rank is no option of `dslaunch run`; did you mean --num-ranks? (see `dslaunch run "
        "--help`)");
  CHECK_THAT(refusal_of({"--num-rank=2", "train.json"}),
             Catch::Contains("did you mean --num-ranks?"));
  CHECK_THAT(refusal_of({"train.json", "-num-ranks", "2"}),
             Catch::Contains("did you mean --num-ranks?"));
  CHECK_THAT(refusal_of({"train.json", "--hostfiel=x"}),
             Catch::Contains("did you mean --hostfile?"));
  CHECK_THAT(refusal_of({"train.json", "--num_node=1"}),
             Catch::Contains("did you mean --num-nodes?"));
  CHECK_THAT(refusal_of({"generate", "x", "--promt", "hi"}),
             Catch::Contains("did you mean --prompt?"));
  CHECK_THAT(refusal_of({"ctl", "--jsn", "save"}), Catch::Contains("did you mean --json?"));
  CHECK(refusal_of({"status", "--banana"}) ==
        "--banana is no option of `dslaunch status` (see `dslaunch status --help`)");
}

TEST_CASE("a wrong choice lists the choices and the nearest of them", "[cli]") {
  CHECK(
      refusal_of({"train.json", "--resume", "atuo"}) ==
      "--resume: 'atuo' is none of auto, required, never, global_step<N>; did you mean auto? (see "
      "`dslaunch run "
      "--help`)");
  CHECK_THAT(refusal_of({"ctl", "puase"}), Catch::Contains("did you mean pause?"));
  CHECK_THAT(refusal_of({"completion", "tcsh"}), Catch::Contains("is none of bash, zsh, fish"));
}

TEST_CASE("other mistakes say where to read more", "[cli]") {
  CHECK_THAT(refusal_of({"train.json", "stray"}), Catch::EndsWith("(see `dslaunch run --help`)"));
  CHECK_THAT(refusal_of({"train.json", "--timeout", "soon"}),
             Catch::EndsWith("(see `dslaunch run --help`)"));
}

TEST_CASE("a failure under --json is one object", "[cli]") {
  CHECK(wants_json({"status", "--json"}));
  CHECK_FALSE(wants_json({"status", "--", "--json"}));
  CHECK_FALSE(wants_json({"status"}));
  CHECK(failure_json("no \"run\"", 66) ==
        "{\"error\":{\"message\":\"no \\\"run\\\"\",\"exit_code\":66}}\n");
}

}  // namespace ds
