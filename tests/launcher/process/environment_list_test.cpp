#include "launcher/process/environment_list.h"

#include "core/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Entries = std::vector<std::string>;

const Entries kOurs{"NCCL_DEBUG=INFO", "LD_PRELOAD=x.so",  "LD_LIBRARY_PATH=/x", "BASH_ENV=/x",
                    "HOME=/root",      "PYTHONPATH=/a:/b", "SECRET=no",          "UCX_TLS=tcp",
                    "MLFLOW_RUN=a=b",  "MV2_ENABLE=1"};

Entries exported(const std::string& file, const Entries& named) {
  return exported_environment({kOurs, file, ".deepspeed_env", named});
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
      exported("# NCCL for us\n\n  \nNCCL_DEBUG=WARN\r\n  # more\nX=a b \"c\" $d", {});
  CHECK(std::ranges::find(list, "NCCL_DEBUG=WARN") != list.end());
  CHECK(std::ranges::find(list, "X=a b \"c\" $d") != list.end());
}

TEST_CASE("the command line wins over the file, the file over what is set", "[launcher]") {
  const Entries list = exported("NCCL_DEBUG=file\nA=file\n", {"A=option"});
  CHECK(std::ranges::find(list, "NCCL_DEBUG=file") != list.end());
  CHECK(std::ranges::find(list, "A=option") != list.end());
  CHECK(std::ranges::is_sorted(list));
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
