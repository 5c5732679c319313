// Command lines of the runners.
#include "launcher/decide/hosts/runner.h"

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

const RunnerOptions kOptions{.dslaunch = "/opt/ds/bin/dslaunch",
                             .ssh_port = std::nullopt,
                             .connect_timeout_s = 10,
                             .extra = {}};

// One word in a way that shows where it ends.
std::string shown(const std::string& word) {
  return word.find(' ') == std::string::npos ? word : "'" + word + "'";
}

// Commands: KIND HOST [PORT] [EXTRA]; port 0 is none.
std::string answer(std::string command) {
  while (command.ends_with('\n')) command.pop_back();
  const std::vector<std::string> words = split_words(command);
  try {
    RunnerOptions options = kOptions;
    if (words.size() > 2 && words[2] != "0") options.ssh_port = std::stoi(words[2]);
    if (words.size() > 3) options.extra.assign(words.begin() + 3, words.end());
    std::string out;
    for (const std::string& word :
         agent_command(runner_named(words.at(0)).kind, words.at(1), options)) {
      out += (out.empty() ? "" : " ") + shown(word);
    }
    return out;
  } catch (const UsageError& error) {
    return std::string("error: ") + error.what();
  }
}

TEST_CASE("command lines of the runners", "[launcher]") {
  testing::run_golden("runner.txt", answer);
}

TEST_CASE("an IPv6 address is for ssh alone", "[launcher]") {
  CHECK(agent_command(RunnerKind::kSsh, "root@fd00::1", kOptions).at(13) == "root@fd00::1");
  CHECK_THROWS_AS(agent_command(RunnerKind::kMpi, "fd00::1", kOptions), UsageError);
  CHECK_THROWS_AS(agent_command(RunnerKind::kSlurm, "fd00::1", kOptions), UsageError);
}

TEST_CASE("srun asks for GPUs where that has to be", "[launcher]") {
  RunnerOptions options = kOptions;
  const auto asks = [&](RunnerKind kind, const char* word) {
    const std::vector<std::string> argv = agent_command(kind, "n1", options);
    return std::ranges::count(argv, word) == 1;
  };
  CHECK_FALSE(asks(RunnerKind::kSlurm, "--gres=none"));
  options.step_gpus = 8;
  CHECK(asks(RunnerKind::kSlurm, "--gpus-per-node=8"));
  CHECK_FALSE(asks(RunnerKind::kSsh, "--gpus-per-node=8"));
  options.step_gpus = 0;
  CHECK(asks(RunnerKind::kSlurm, "--gres=none"));
}

TEST_CASE("nothing hostile reaches a command line", "[launcher]") {
  for (const char* host :
       {"-oProxyCommand=x", "h;id", "`id`", "$(id)", "a b", "", "h\nslots=1", "user@", "[::1]"}) {
    for (const RunnerKind kind : {RunnerKind::kSsh, RunnerKind::kMpi, RunnerKind::kSlurm}) {
      INFO(host);
      CHECK_THROWS_AS(agent_command(kind, host, kOptions), UsageError);
    }
  }
  for (const char* path : {"", "-rf", "dslaunch", "/a/dslaunch;id", "/a b", "$HOME/dslaunch"}) {
    INFO(path);
    RunnerOptions options = kOptions;
    options.dslaunch = path;
    CHECK_THROWS_AS(agent_command(RunnerKind::kSsh, "h", options), UsageError);
  }
  RunnerOptions options = kOptions;
  options.ssh_port = 0;
  CHECK_THROWS_AS(agent_command(RunnerKind::kSsh, "h", options), UsageError);
  CHECK_THROWS_AS(runner_named("rsh"), UsageError);
}

TEST_CASE("launcher arguments are cut like a shell's words, and nothing is expanded",
          "[launcher]") {
  using Words = std::vector<std::string>;
  CHECK(split_words("") == Words{});
  CHECK(split_words("  -F cfg\t-v\n") == Words{"-F", "cfg", "-v"});
  CHECK(split_words(R"(-o 'A=b c' "d \" e" f\ g '' $HOME `id`)") ==
        Words{"-o", "A=b c", "d \" e", "f g", "", "$HOME", "`id`"});
  CHECK_THROWS_AS(split_words("-o 'open"), UsageError);
}

}  // namespace
}  // namespace ds
