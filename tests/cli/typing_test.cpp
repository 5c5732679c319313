// Wrong words on the command line are told so, with the nearest that is understood.
#include "cli/typing.h"

#include <algorithm>
#include <filesystem>

#include "cli/command_line.h"
#include "cli/failure.h"
#include "cli/other_words.h"
#include "cli/outline.h"
#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/files/working_directory.h"

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

TEST_CASE("an option of another launcher is told what stands here instead", "[cli]") {
  const std::pair<std::vector<std::string>, const char*> kCases[] = {
      {{"--deepspeed", "train.json"}, "is the first word: `dslaunch ds_config.json`"},
      {{"--deepspeed_config", "ds.json"}, "without an option: `dslaunch ds_config.json`"},
      {{"--deepspeed_config=ds.json"}, "without an option: `dslaunch ds_config.json`"},
      {{"--nproc_per_node", "4", "train.json"}, "`dslaunch train.json --num-ranks 4`"},
      {{"train.json", "--nproc-per-node=4"}, "`dslaunch train.json --num-ranks 4`"},
      {{"train.json", "--nnodes", "2"}, "`dslaunch --hostfile hosts --num-nodes 2 train.json`"},
      {{"train.json", "--node_rank", "1"}, "dslaunch is started on one of them"},
      {{"train.json", "--rdzv_endpoint=h:1"}, "which is started once and starts them"},
      {{"train.json", "--mixed_precision", "bf16"}, "`dslaunch train.json bf16.enabled=true`"},
      {{"train.json", "--output_dir", "x"}, "`dslaunch train.json --run-dir runs/mine`"},
  };
  for (const auto& [words, instead] : kCases) {
    CAPTURE(words);
    CHECK_THAT(refusal_of(words), Catch::Contains(" is no option of `dslaunch run`: ") &&
                                      Catch::Contains(instead) && !Catch::Contains("did you mean"));
  }
  // --master_addr is DeepSpeed's, and is taken.
  CHECK_NOTHROW(parse_line({"train.json", "--master_addr", "10.0.0.1", "--master_port", "29500"}));
}

TEST_CASE("a verb of another launcher, or a script, is told how a job starts here", "[cli]") {
  CHECK(refusal_of({"train", "x.json"}) ==
        "'train' is no verb here: a job is started by its configuration alone: `dslaunch x.json` "
        "(see `dslaunch --help`)");
  CHECK_THAT(refusal_of({"launch"}), Catch::Contains("`dslaunch train.json`"));
  CHECK_THAT(refusal_of({"deepspeed", "train.py"}), Catch::Contains("`dslaunch train.json`"));
  CHECK_THAT(refusal_of({"train.py", "--deepspeed"}),
             Catch::StartsWith("train.py is a Python script; no script is started: ") &&
                 Catch::Contains("`dslaunch init` writes one"));
}

TEST_CASE("each option that other launchers have is none of ours", "[cli]") {
  const VerbOutline run = outline(*find_verb("run"));
  for (const OptionOutline& option : run.options) {
    for (std::string name : option.names) {
      std::ranges::replace(name, '_', '-');
      CAPTURE(name);
      CHECK_FALSE(instead_of_option(name.substr(std::min<size_t>(name.size(), 2))));
    }
  }
}

}  // namespace ds
