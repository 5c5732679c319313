// Which tag a save or a load means.
#include "checkpoint/tag.h"

#include <fmt/format.h>

#include <map>

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Files = std::map<std::string, std::string, std::less<>>;

std::optional<std::string> load(const std::optional<std::string>& given, CheckpointKind kind,
                                const Files& files) {
  return tag_to_load(given, kind, [&](std::string_view name) -> std::optional<std::string> {
    const auto file = files.find(name);
    return file == files.end() ? std::nullopt : std::optional(file->second);
  });
}

TEST_CASE("a given tag wins over the hint", "[checkpoint]") {
  CHECK(load("mine", CheckpointKind::kRegular, {{"latest", "other"}}) == "mine");
  CHECK(load(std::nullopt, CheckpointKind::kRegular, {{"latest", " global_step3\n"}}) ==
        "global_step3");
  CHECK(load(std::nullopt, CheckpointKind::kRegular, {{"latest", " \n"}}) == "");
}

TEST_CASE("without a hint there is nothing to load, except for universal checkpoints",
          "[checkpoint]") {
  CHECK_FALSE(load(std::nullopt, CheckpointKind::kRegular, {}).has_value());
  CHECK(load(std::nullopt, CheckpointKind::kUniversal,
             {{"latest", "a"}, {"latest_universal", "b"}}) == "b");
  CHECK_THROWS_AS(load(std::nullopt, CheckpointKind::kUniversal, {{"latest", "a"}}), InputMissing);
}

TEST_CASE("different tags are everybody's failure", "[checkpoint]") {
  const std::string same[] = {"a", "a"}, different[] = {"a", "a", "b"};
  CHECK(judge_tags(same, TagAgreement::kFail).failed.empty());
  CHECK(judge_tags(different, TagAgreement::kFail).failed == std::vector<int>{0, 1, 2});
  CHECK(judge_tags(different, TagAgreement::kWarn).warned == std::vector<int>{0, 1, 2});
  CHECK(judge_tags(different, TagAgreement::kIgnore).warned.empty());
  CHECK(tag_validation_named("WARN") == TagAgreement::kWarn);
  CHECK_THROWS_AS(tag_validation_named("maybe"), ConfigError);
}

TEST_CASE("a save needs a folder and has a default name", "[checkpoint]") {
  CHECK(default_tag(17) == "global_step17");
  CHECK_THROWS_AS(require_save_dir(std::nullopt), UsageError);
  CHECK_THROWS_AS(require_save_dir(""), UsageError);
  CHECK_NOTHROW(require_save_dir("runs"));
}

TEST_CASE("marked names are taken apart at their last mark", "[checkpoint]") {
  const auto parsed = [](std::string_view name, std::string_view mark) {
    const auto found = parse_marked(name, mark);
    return found ? fmt::format("{} {}", found->tag, found->epoch) : std::string("none");
  };
  CHECK(parsed("global_step12.tmp.3", kTemporaryMark) == "global_step12 3");
  CHECK(parsed("a.b-c.old.0", kReplacedMark) == "a.b-c 0");
  CHECK(parsed("a.tmp.1.tmp.2", kTemporaryMark) == "a.tmp.1 2");
  CHECK(parsed("a.gone.007", kDiscardedMark) == "a 7");
  CHECK(parsed(fmt::format("a.ready.{}", INT64_MAX), kReadyMark) == fmt::format("a {}", INT64_MAX));
  for (const char* name : {"", "a", ".tmp.3", "a.tmp.", "a.tmp.x", "a.tmp.3x", "a.tmp.-3",
                           "a.tmp. 3", "a.tmp.9223372036854775808", "a.tmp3", "a.old.3"}) {
    CAPTURE(name);
    CHECK(parsed(name, kTemporaryMark) == "none");
  }
}

TEST_CASE("a name with any of the marks is marked, and no tag may look so", "[checkpoint]") {
  for (const std::string_view mark : {kTemporaryMark, kReplacedMark, kDiscardedMark, kReadyMark}) {
    const std::string name = fmt::format("a{}3", mark);
    CHECK(is_marked(name));
    CHECK_THROWS_WITH(check_tag(name), Catch::Contains("reserved"));
    CHECK_FALSE(is_marked(fmt::format("a{}", mark)));
    CHECK_NOTHROW(check_tag(fmt::format("a{}x", mark)));
  }
}

TEST_CASE("tags may be as long as files' names allow, and have plain letters", "[checkpoint]") {
  CHECK_NOTHROW(check_tag(std::string(kLongestTag, 'a')));
  CHECK_THROWS_AS(check_tag(std::string(kLongestTag + 1, 'a')), UsageError);
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const bool sign = c == '.' || c == '_' || c == '-';
    const auto taken = [](const std::string& tag) {
      try {
        check_tag(tag);
        return true;
      } catch (const UsageError&) {
        return false;
      }
    };
    CAPTURE(byte);
    CHECK(taken(std::string(1, c)) == letter);
    CHECK(taken(std::string("a") + c) == (letter || sign));
  }
}

TEST_CASE("names of tag validation are read in any case, and no others", "[checkpoint]") {
  for (const char* name : {"Fail", "fail", "FAIL"}) {
    CHECK(tag_validation_named(name) == TagAgreement::kFail);
  }
  CHECK(tag_validation_named("iGNORE") == TagAgreement::kIgnore);
  CHECK_THROWS_WITH(tag_validation_named("warning"),
                    "checkpoint.tag_validation is 'warning', expected Fail, Warn or Ignore");
  CHECK_THROWS_AS(tag_validation_named(""), ConfigError);
}

TEST_CASE("one rank, or none, cannot differ", "[checkpoint]") {
  const std::string one[] = {"a"};
  CHECK(judge_tags(one, TagAgreement::kFail).failed.empty());
  CHECK(judge_tags({}, TagAgreement::kFail).failed.empty());
  const std::string last[] = {"a", "a", "a", "b"};
  CHECK(judge_tags(last, TagAgreement::kFail).failed.size() == 4);
  CHECK(judge_tags(last, TagAgreement::kFail).warned.empty());
}

}  // namespace
}  // namespace ds
