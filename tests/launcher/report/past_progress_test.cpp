#include "launcher/report/past_progress.h"

#include <sys/stat.h>

#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("a run directory without a past has none", "[launcher]") {
  const testing::TemporaryDirectory here;
  const PastProgress past = past_progress(here.path());
  CHECK(past.committed_step == 0);
  CHECK(past.unsaved_step == 0);
  CHECK(past.trace.empty());
  CHECK(past_progress(here.path() / "missing").trace.empty());
}

TEST_CASE("what was committed is told, and what was never saved, too", "[launcher]") {
  const testing::TemporaryDirectory here;
  write(here.path() / "metrics.jsonl",
        "{\"step\": 1, \"loss\": 3}\n{\"step\": 2, \"loss\": 2}\n{\"step\": 3, \"lo");
  write(here.path() / "committed.json", nothing_committed_text(0));
  CHECK(past_progress(here.path()).unsaved_step == 2);
  CHECK(past_progress(here.path()).begun_anew == 0);
  CHECK(past_progress(here.path()).trace.empty());
  write(here.path() / "committed.json", committed_text("global_step2", 2, 7));
  const PastProgress past = past_progress(here.path());
  CHECK(past.committed_step == 2);
  CHECK(past.committed_by == "committed.json names global_step2");
  CHECK(past.unsaved_step == 0);
}

TEST_CASE("that a launch began anew is known until there is a checkpoint of it", "[launcher]") {
  const testing::TemporaryDirectory here;
  write(here.path() / "committed.json", nothing_committed_text(7));
  CHECK(past_progress(here.path()).begun_anew == 7);
  CHECK(past_progress(here.path()).committed_step == 0);
  write(here.path() / "committed.json", committed_text("global_step2", 2, 7));
  CHECK(past_progress(here.path()).begun_anew == 0);
  for (const char* const odd : {"-3", "\"7\"", "null"}) {
    write(here.path() / "committed.json",
          fmt::format("{{\"tag\": \"\", \"step\": 0, \"begun_anew\": {}}}", odd));
    CHECK(past_progress(here.path()).begun_anew == 0);
  }
  write(here.path() / "committed.json", "{\"tag\": \"\", \"step\": 0, \"epoch\": 0}");  // older
  CHECK(past_progress(here.path()).begun_anew == 0);
}

TEST_CASE("of directories of earlier versions, metrics and report tell", "[launcher]") {
  const testing::TemporaryDirectory here;
  write(here.path() / "metrics.jsonl", "{\"step\": 40, \"loss\": 3}\n");
  CHECK(past_progress(here.path()).trace == "metrics.jsonl holds steps up to 40");
  write(here.path() / "report.json",
        R"({"exit_code": 0, "last_committed": {"tag": "global_step30", "step": 30}})");
  CHECK(past_progress(here.path()).committed_step == 30);
  CHECK(past_progress(here.path()).committed_by == "report.json");
}

TEST_CASE("what cannot be understood is a trace", "[launcher]") {
  const testing::TemporaryDirectory here;
  for (const std::string& text : {std::string(), std::string("{"), std::string("[]"),
                                  std::string("{\"step\": -1, \"tag\": \"x\"}"),
                                  std::string("{\"step\": 1}"), std::string(1 << 20, ' ')}) {
    write(here.path() / "committed.json", text);
    CHECK_THAT(past_progress(here.path()).trace, Catch::Contains("cannot be read"));
  }
  std::filesystem::remove(here.path() / "committed.json");
  REQUIRE(mkfifo((here.path() / "committed.json").c_str(), 0600) == 0);
  CHECK_THAT(past_progress(here.path()).trace, Catch::Contains("cannot be read"));
}

}  // namespace ds
