// Which tag a save or a load means (pure): the default name, the hint file `latest`, and whether
// all ranks name the same tag; what a tag may look like. What is committed, its manifests say.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

inline constexpr size_t kLongestTag = 128;

// Directories that are no tags yet, or no longer: "<tag>.tmp.<epoch>" while it is written,
// "<tag>.old.<epoch>" while another takes its place, "<tag>.gone.<epoch>" while it is deleted;
// "<tag>.ready.<epoch>" where each host keeps its own files: written, and not yet named.
inline constexpr std::string_view kTemporaryMark = ".tmp.";
inline constexpr std::string_view kReplacedMark = ".old.";
inline constexpr std::string_view kDiscardedMark = ".gone.";
inline constexpr std::string_view kReadyMark = ".ready.";

// "<tag><mark><epoch>" taken apart; nothing for other names.
struct MarkedName {
  std::string tag;
  int64_t epoch = 0;
};
std::optional<MarkedName> parse_marked(std::string_view name, std::string_view mark);
bool is_marked(std::string_view name);  // with any of them

// UsageError unless the tag is [A-Za-z0-9][A-Za-z0-9._-]{0,127} and cannot be mistaken for a marked
// name or another file of the folder.
void check_tag(std::string_view tag);

// "global_step<N>"
std::string default_tag(int64_t global_steps);

enum class CheckpointKind { kRegular, kUniversal };

// The hint file of a kind: "latest" or "latest_universal".
std::string_view latest_file_name(CheckpointKind kind);

// The tag to load: the given one, else what the hint file says without white space at both ends.
// `read_file` returns a file's content, or nothing when it does not exist. Without a hint there is
// nothing to load, which is no error for a regular checkpoint; a universal one must exist:
// InputMissing. The result is not checked: a hint may hold anything (check_tag).
std::optional<std::string> tag_to_load(
    const std::optional<std::string>& given, CheckpointKind kind,
    const std::function<std::optional<std::string>(std::string_view name)>& read_file);

// What to do when ranks save under different tags (checkpoint.tag_validation).
enum class TagAgreement { kFail, kWarn, kIgnore };
// Fail, Warn or Ignore, in any case of letters; throws ConfigError otherwise.
TagAgreement tag_validation_named(std::string_view name);

// One tag per rank: which ranks have to fail and which to warn. A difference is everybody's,
// because no rank can tell which one is right.
struct TagVerdict {
  std::vector<int> failed;
  std::vector<int> warned;
};
TagVerdict judge_tags(std::span<const std::string> tags, TagAgreement mode);

// Throws UsageError for a missing or empty folder name.
void require_save_dir(const std::optional<std::string>& save_dir);

}  // namespace ds
