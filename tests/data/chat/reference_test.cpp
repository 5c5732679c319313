// Templates in the manner of known models, and random ones: what they render equals what jinja2
// renders, to the byte, and fails where that does.
#include <sstream>

#include "core/files/file.h"
#include "tests/data/chat/rendering.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

using namespace ds;

namespace {

std::vector<rapidjson::Document> lines_of(const std::string& name) {
  RealFileSystem fs;
  const std::string path = testing::source_directory() + "/tests/data/chat/golden/" + name;
  std::istringstream lines(fs.read_text(path, 1 << 24));
  std::vector<rapidjson::Document> out;
  for (std::string line; std::getline(lines, line);) out.push_back(testing::json_of(line));
  return out;
}

std::string_view view_of(const rapidjson::Value& json) {
  return {json.GetString(), json.GetStringLength()};
}

void check(std::string_view source, const rapidjson::Value& variables,
           const rapidjson::Value& expected, const rapidjson::Value& ranges) {
  CAPTURE(source);
  if (expected.IsNull()) {
    CHECK_THROWS_AS(ChatTemplate::parse(source, "t").render(variables, testing::morning), Error);
    return;
  }
  try {
    const RenderedChat chat = ChatTemplate::parse(source, "t").render(variables, testing::morning);
    CHECK(chat.text == view_of(expected));
    std::string places;
    for (const auto& [begin, end] : chat.generation) places += fmt::format("{}-{},", begin, end);
    // The reference has wrong places for what is written into a value.
    if (chat.unplaced_generation_line == 0) CHECK(places == view_of(ranges));
  } catch (const Error& failed) {
    FAIL_CHECK(failed.what());
  }
}

}  // namespace

TEST_CASE("templates in the manner of known models render every conversation as jinja2 does",
          "[data][chat]") {
  const auto lines = lines_of("chats.jsonl");
  REQUIRE(lines.size() > 500);
  for (size_t i = 2; i < lines.size(); ++i) {
    const rapidjson::Value& line = lines[i];
    std::string_view source;
    for (const auto& named : lines[0].GetArray()) {
      if (named[0] == line[0]) source = view_of(named[1]);
    }
    CAPTURE(view_of(line[0]), line[1].GetInt());
    check(source, lines[1][line[1].GetUint()], line[2], line[3]);
  }
}

TEST_CASE("random templates render as jinja2 renders them", "[data][chat]") {
  const auto lines = lines_of("programs.jsonl");
  REQUIRE(lines.size() > 100);
  for (size_t i = 1; i < lines.size(); ++i)
    check(view_of(lines[i][0]), lines[0], lines[i][1], lines[i][2]);
}

TEST_CASE("formats of values of all kinds are written as Python writes them", "[data][chat]") {
  const auto lines = lines_of("formats.jsonl");
  REQUIRE(lines.size() > 300);
  for (size_t i = 1; i < lines.size(); ++i) {
    const rapidjson::Value none("");
    check(view_of(lines[i][0]), lines[0], lines[i][1], none);
  }
}
