// Which tag a save or a load means.
#include "checkpoint/tag.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace ds {

namespace {

std::string trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kSpace) - begin + 1));
}

}  // namespace

std::string default_tag(int64_t global_steps) { return fmt::format("global_step{}", global_steps); }

std::string_view latest_file_name(CheckpointKind kind) {
  return kind == CheckpointKind::kUniversal ? "latest_universal" : "latest";
}

std::optional<std::string> tag_to_load(
    const std::optional<std::string>& given, CheckpointKind kind,
    const std::function<std::optional<std::string>(std::string_view name)>& read_file) {
  if (given) return given;
  if (const auto content = read_file(latest_file_name(kind))) return trimmed(*content);
  if (kind == CheckpointKind::kUniversal) {
    throw InputMissing(
        "load: there is no file latest_universal; convert a checkpoint first, or name its tag");
  }
  return std::nullopt;
}

TagValidation tag_validation_named(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (lower == "fail") return TagValidation::kFail;
  if (lower == "warn") return TagValidation::kWarn;
  if (lower == "ignore") return TagValidation::kIgnore;
  throw ConfigError(
      fmt::format("checkpoint.tag_validation is '{}', expected Fail, Warn or Ignore", name));
}

TagVerdict judge_tags(std::span<const std::string> tags, TagValidation mode) {
  TagVerdict verdict;
  const bool differ = std::ranges::adjacent_find(tags, std::ranges::not_equal_to()) != tags.end();
  if (!differ || mode == TagValidation::kIgnore) return verdict;
  std::vector<int> everybody(tags.size());
  std::iota(everybody.begin(), everybody.end(), 0);
  (mode == TagValidation::kFail ? verdict.failed : verdict.warned) = everybody;
  return verdict;
}

void require_save_dir(const std::optional<std::string>& save_dir) {
  if (!save_dir || save_dir->empty())
    throw UsageError("save: no folder given; name one with --run-dir");
}

}  // namespace ds
