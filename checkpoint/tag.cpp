// Which tag a save or a load means.
#include "checkpoint/tag.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "core/status/error.h"
#include "core/text/letters.h"

namespace ds {

namespace {

std::string trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kSpace) - begin + 1));
}

}  // namespace

std::optional<MarkedName> parse_marked(std::string_view name, std::string_view mark) {
  const size_t at = name.rfind(mark);
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  const char* begin = name.data() + at + mark.size();
  const char* end = name.data() + name.size();
  int64_t epoch = 0;
  const auto parsed = std::from_chars(begin, end, epoch);
  if (parsed.ec != std::errc() || parsed.ptr != end || epoch < 0) return std::nullopt;
  return MarkedName{std::string(name.substr(0, at)), epoch};
}

bool is_marked(std::string_view name) {
  return parse_marked(name, kTemporaryMark) || parse_marked(name, kReplacedMark) ||
         parse_marked(name, kDiscardedMark) || parse_marked(name, kReadyMark);
}

void check_tag(std::string_view tag) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  const bool allowed = !tag.empty() && tag.size() <= kLongestTag && is_plain(tag[0]) &&
                       std::all_of(tag.begin(), tag.end(), [&](char c) {
                         return is_plain(c) || c == '.' || c == '_' || c == '-';
                       });
  if (!allowed) {
    throw UsageError(
        fmt::format("checkpoint tag '{}': expected 1 to {} letters, digits, '.', '_' or "
                    "'-', the first a letter or digit",
                    tag, kLongestTag));
  }
  if (is_marked(tag) || tag == "latest" || tag == "epoch") {
    throw UsageError(
        fmt::format("checkpoint tag '{}': names ending in {}N, {}N, {}N or {}N and the "
                    "names latest and epoch are reserved",
                    tag, kTemporaryMark, kReplacedMark, kDiscardedMark, kReadyMark));
  }
}

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

TagAgreement tag_validation_named(std::string_view name) {
  const std::string lower = lower_case(name);
  if (lower == "fail") return TagAgreement::kFail;
  if (lower == "warn") return TagAgreement::kWarn;
  if (lower == "ignore") return TagAgreement::kIgnore;
  throw ConfigError(
      fmt::format("checkpoint.tag_validation is '{}', expected Fail, Warn or Ignore", name));
}

TagVerdict judge_tags(std::span<const std::string> tags, TagAgreement mode) {
  TagVerdict verdict;
  const bool differ = std::ranges::adjacent_find(tags, std::ranges::not_equal_to()) != tags.end();
  if (!differ || mode == TagAgreement::kIgnore) return verdict;
  std::vector<int> everybody(tags.size());
  std::iota(everybody.begin(), everybody.end(), 0);
  (mode == TagAgreement::kFail ? verdict.failed : verdict.warned) = everybody;
  return verdict;
}

void require_save_dir(const std::optional<std::string>& save_dir) {
  if (!save_dir || save_dir->empty())
    throw UsageError("save: no folder given; name one with --run-dir");
}

}  // namespace ds
