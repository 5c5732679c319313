// Which tag a save or a load means.
#include "checkpoint/tag.h"

#include <map>

#include "core/error.h"
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

}  // namespace
}  // namespace ds
