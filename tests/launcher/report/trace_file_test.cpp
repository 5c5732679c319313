// What ranks recorded, put together: one file, or a reason why there is none.
#include "launcher/report/trace_file.h"

#include <rapidjson/document.h>

#include "core/status/error.h"
#include "launcher/control/run_trace.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

constexpr const char* kOfRank0 =
    "{\"rank\":0,\"host\":\"a\",\"first_step\":5,\"steps\":2,\"left_out\":0,"
    "\"tracks\":[\"compute\",\"peers\",\"between steps\",\"swap files\",\"swap files 2\"]}\n"
    "{\"name\":\"step 5\",\"ph\":\"X\",\"pid\":0,\"tid\":1,\"ts\":0.000,\"dur\":7.500}\n"
    "{\"events\":1}\n";
constexpr const char* kOfRank2 =
    "{\"rank\":2,\"host\":\"b\",\"first_step\":5,\"steps\":1,\"left_out\":3,"
    "\"tracks\":[\"compute\"]}\n"
    "{\"events\":0}\n";

}  // namespace

TEST_CASE("a trace of several ranks is one file with a process for each", "[launcher]") {
  const std::string lines = std::string("{\"trace\": 4}\n") + kOfRank0 + kOfRank2;
  const TraceFile trace = trace_file(lines, 4).value();
  CHECK(trace.ranks == 2);
  CHECK(trace.events == 1);
  CHECK(trace.steps == 2);
  CHECK(trace.first_step == 5);
  CHECK(trace.left_out == 3);
  rapidjson::Document json;
  json.Parse(trace.json.c_str());
  REQUIRE_FALSE(json.HasParseError());
  CHECK(json["traceEvents"].Size() == 1 + 2 * 2 + 5 + 1);
  CHECK(trace.json.find("rank 2 on b") != std::string::npos);
  std::vector<std::string> tracks;
  for (const rapidjson::Value& event : json["traceEvents"].GetArray()) {
    if (std::string(event["name"].GetString()) != "thread_name") continue;
    tracks.push_back(fmt::format("{}.{} {}", event["pid"].GetInt(), event["tid"].GetInt(),
                                 event["args"]["name"].GetString()));
  }
  CHECK(tracks == std::vector<std::string>{"0.1 compute", "0.2 peers", "0.3 between steps",
                                           "0.4 swap files", "0.5 swap files 2", "2.1 compute"});
}

TEST_CASE("lines of another trace are none yet, and broken ones are told", "[launcher]") {
  CHECK_FALSE(trace_file("", 1));
  CHECK_FALSE(trace_file("{\"trace\": 3}\n", 4));
  const auto error_of = [](const std::string& lines) {
    try {
      static_cast<void>(trace_file("{\"trace\": 4}\n" + lines, 4));
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(error_of("{\"rank\":0,\"left_out\":0,\"tracks\":[]}\n{}\n"),
             Catch::Contains("no end"));
  CHECK_THAT(error_of("{\"rank\":0,\"tracks\":[]}\n{\"events\":2}\n"),
             Catch::Contains("sent 2 events, 0"));
  CHECK_THAT(error_of("nonsense\n"), Catch::Contains("no JSON object"));
  CHECK_THAT(error_of("{\"rank\":0}\n"), Catch::Contains("no list 'tracks'"));
  CHECK_THAT(error_of("{\"host\":\"a\"}\n"), Catch::Contains("no number 'rank'"));
}

TEST_CASE("one trace is under way at a time, and is done when all have sent theirs", "[launcher]") {
  RunTrace trace;
  CHECK_THROWS_AS(trace.require_under_way(), Unsupported);
  CHECK_THROWS_WITH(trace.begin(0, {}, 2), Catch::Contains("expected 1 to 1000"));
  CHECK_THROWS_WITH(trace.begin(3, {2}, 2), Catch::Contains("the ranks are 0 to 1"));
  CHECK(trace.status().number == 0);
  CHECK(trace.begin(3, {}, 3).ranks == std::vector<int>{0, 1, 2});
  CHECK_THROWS_WITH(trace.begin(3, {}, 3), Catch::Contains("under way already"));
  CHECK_FALSE(trace.take(2, "c", true));
  CHECK_FALSE(trace.take(2, "late", true));
  CHECK_FALSE(trace.take(0, "a", false));
  CHECK_FALSE(trace.take(1, "b", true));
  CHECK(trace.status().state == "recording");
  CHECK(trace.take(0, "A", true) == "{\"trace\": 1}\naAbc");
  CHECK(trace.status().state == "done");
  CHECK(trace.begin(1, {1, 1}, 3).ranks == std::vector<int>{1});
  CHECK(trace.status().number == 2);
  trace.epoch_ended("rank 1 was killed");
  CHECK(trace.status().state == "failed");
  CHECK(trace.status().reason == "rank 1 was killed");
  CHECK_FALSE(trace.take(1, "x", true));
}

TEST_CASE("a trace that is too large comes to nothing", "[launcher]") {
  RunTrace trace;
  trace.begin(1, {}, 1);
  const std::string piece(size_t{64} << 20, 'x');
  for (int i = 0; i < 5; ++i) CHECK_FALSE(trace.take(0, piece, false));
  CHECK(trace.status().state == "failed");
  CHECK_THAT(trace.status().reason, Catch::Contains("larger than 256 MiB"));
}

}  // namespace ds
