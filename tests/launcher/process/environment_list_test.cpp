#include "launcher/process/files/environment_list.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Entries = std::vector<std::string>;

const Entries kOurs{"NCCL_DEBUG=INFO", "LD_PRELOAD=x.so",  "LD_LIBRARY_PATH=/x", "BASH_ENV=/x",
                    "HOME=/root",      "PYTHONPATH=/a:/b", "SECRET=no",          "UCX_TLS=tcp",
                    "MLFLOW_RUN=a=b",  "MV2_ENABLE=1"};

ExportedVariables gathered(const std::string& file, const Entries& named = {}) {
  return exported_environment({kOurs, {{".deepspeed_env", file}}, named});
}

// As on a host that has the home of another.
Entries exported(const std::string& file, const Entries& named) {
  const ExportedVariables all = gathered(file, named);
  return with_last_values(with_shell_values(all.values, all.shell_values));
}

bool has(const Entries& list, const std::string& entry) {
  return std::ranges::count(list, entry) == 1;
}

}  // namespace

TEST_CASE("what DeepSpeed passes on is passed on, and nothing else", "[launcher]") {
  CHECK(exported("", {}) == Entries{"MLFLOW_RUN=a=b", "MV2_ENABLE=1", "NCCL_DEBUG=INFO",
                                    "PYTHONPATH=/a:/b", "UCX_TLS=tcp"});
}

TEST_CASE("what is listed is passed on, even what a loader obeys", "[launcher]") {
  const Entries list = exported("LD_PRELOAD=mine.so\n", {"SECRET", "A=1=2", "EMPTY="});
  for (const char* entry : {"LD_PRELOAD=mine.so", "SECRET=no", "A=1=2", "EMPTY="}) {
    CHECK(std::ranges::find(list, entry) != list.end());
  }
}

TEST_CASE("blank lines and comments in .deepspeed_env are no errors", "[launcher]") {
  const Entries list =
      exported("\xef\xbb\xbf# NCCL for us\n\n  \nNCCL_DEBUG=WARN\r\n  # more\nX= a b # c \n", {});
  CHECK(has(list, "NCCL_DEBUG=WARN"));
  CHECK(has(list, "X=a b # c"));
  CHECK(gathered("# A=$(x)\n").notes.empty());
}

TEST_CASE("values of a file are read where the ranks are, as a shell reads them", "[launcher]") {
  const ExportedVariables all = gathered(
      "LIBS=/opt/x:$HOME\nPLACE=~/models\nexport EMPTY=\"\"\nexport\tMORE=$LIBS:$LATER\nLATER=1\n");
  CHECK(all.notes.empty());
  CHECK(std::ranges::none_of(all.values,
                             [](const auto& entry) { return entry.starts_with("LIBS"); }));
  const Entries there = with_shell_values({"HOME=/home/there"}, all.shell_values);
  CHECK(there == Entries{"HOME=/home/there", "LIBS=/opt/x:/home/there", "PLACE=/home/there/models",
                         "EMPTY=", "MORE=/opt/x:/home/there:", "LATER=1"});
}

TEST_CASE("what only a shell can do is said, and never done", "[launcher]") {
  const ExportedVariables all = gathered("A=1\nB=$(id) `id`\n");
  CHECK(has(with_shell_values({}, all.shell_values), "B=$(id) `id`"));
  REQUIRE(all.notes.size() == 1);
  CHECK_THAT(all.notes[0], Catch::StartsWith(".deepspeed_env:2: B has $(...), ") &&
                               !Catch::Contains("id"));  // values may be secret
}

TEST_CASE("values of a named file are taken as they are, and it is said once", "[launcher]") {
  const auto literal = [](const std::string& text) {
    return exported_environment({kOurs, {{"my.env", text, ValuesOfFile::kLiteral}}, {}});
  };
  const ExportedVariables all =
      literal("A=1\nHOME\nKEY=p$w\"d\nPLACE=~/models\nB= b \nexport C=$(id)\n");
  CHECK(all.shell_values.empty());
  for (const char* entry :
       {"A=1", "HOME=/root", "KEY=p$w\"d", "PLACE=~/models", "B= b", "C=$(id)"}) {
    CHECK(has(all.values, entry));
  }
  REQUIRE(all.notes.size() == 1);
  CHECK_THAT(all.notes[0],
             Catch::StartsWith("my.env:3: KEY is taken as it is") && !Catch::Contains("p$w"));
  CHECK(literal("A=1\nB=a b\n").notes.empty());
}

TEST_CASE("of several files the last one wins, whole values at a time", "[launcher]") {
  const ExportedVariables all = exported_environment(
      {{}, {{"home", "A=home\nPATH=/home:$PATH\nB=$A"}, {"here", "A=here\nPATH=/here:$PATH"}}, {}});
  CHECK(with_last_values(with_shell_values({"PATH=/bin"}, all.shell_values)) ==
        Entries{"A=here", "PATH=/here:/bin", "B=here"});
}

TEST_CASE("what the command line says is no text for a shell", "[launcher]") {
  const ExportedVariables all = gathered("A=file\nB=$A\n", {"A=$HOME \"x\""});
  CHECK(has(all.values, "A=$HOME \"x\""));
  CHECK(all.shell_values == Entries{"B=$A"});
  CHECK(has(with_shell_values(all.values, all.shell_values), "B=$HOME \"x\""));
}

TEST_CASE("the command line wins over the file, the file over what is set", "[launcher]") {
  const Entries list = exported("NCCL_DEBUG=file\nA=file\n", {"A=option"});
  CHECK(std::ranges::find(list, "NCCL_DEBUG=file") != list.end());
  CHECK(std::ranges::find(list, "A=option") != list.end());
  CHECK(std::ranges::is_sorted(gathered("", {"Z=1", "A=1"}).values));
}

TEST_CASE("ranks have their share of threads, whatever else says a number", "[launcher]") {
  CHECK(rank_environment({"OMP_NUM_THREADS=64", "A=1"}, 2) == Entries{"A=1", "OMP_NUM_THREADS=2"});
  CHECK(without_threads({"A=1", "OMP_NUM_THREADS=64"}) == Entries{"A=1"});
  CHECK(names_of({.values = {"B=secret"}, .shell_values = {"A=$B"}}) == "A B OMP_NUM_THREADS");
}

TEST_CASE("what is no variable is refused with its place", "[launcher]") {
  CHECK_THROWS_WITH(exported("A=1\nB C=2\n", {}), Catch::Contains(".deepspeed_env:2"));
  CHECK_THROWS_WITH(exported("A;id=1\n", {}), Catch::Contains("A;id"));
  CHECK_THROWS_WITH(exported("", {"=x"}), Catch::Contains("--env"));
  CHECK_THROWS_WITH(exported("", {"1A=x"}), Catch::Contains("1A"));
  CHECK_THROWS_WITH(exported("NOT_SET_HERE\n", {}), Catch::Contains("NOT_SET_HERE=VALUE"));
  CHECK_THROWS_AS(exported(std::string("A=b\0c\n", 6), {}), UsageError);
}

TEST_CASE("of several values of a name the last one counts", "[launcher]") {
  CHECK(with_last_values({"A=1", "B=2", "A=3"}) == Entries{"B=2", "A=3"});
  CHECK(with_last_values({"AB=1", "A=2"}) == Entries{"AB=1", "A=2"});
}

}  // namespace ds
