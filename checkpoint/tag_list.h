// Which tags a root holds, and what else in it looks like one: nothing that might be a checkpoint
// is passed over without a word. Manifests are the truth; `latest` only bears witness to a tag that
// is gone, or to somebody's wish to go back to an earlier one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/format.h"
#include "checkpoint/lineage.h"
#include "core/files/file.h"

namespace ds {

// Tags whose manifest holds and whose files are there with the right lengths. Rejected is every
// directory that has no manifest but a name or files like ours, whose manifest does not hold or is
// not its own, whose files are not all there, that is a symbolic link, and the tag that `latest`
// names if it is not there at all. Directories of other programs are passed over.
TagList list_tags(FileSystem& file_system, const std::string& root);
// Those that training may go on from (lineage.h), and the traces that may be of it.
Resumable resumable_tags(FileSystem& file_system, const std::string& root,
                         const ResumeWish& wish = {});
// The tag that `latest` names, as it stands there; nothing where it names none that could be.
std::optional<std::string> latest_name(FileSystem& file_system, const std::string& root);

enum class Depth {
  kIndexes,   // manifest, lengths, trailers, indexes: a few KB per rank
  kAllBytes,  // also the digest of every block
};
struct FoundTag {
  std::optional<CommittedTag> tag;
  // Newer ones, and such as may be, and why they were passed over.
  std::vector<RejectedTag> rejected;
  std::string newer{};  // the newest of all, where `latest` was set to another one
};
// Finds the newest of the resumable tags that holds; returns no tag if there is none.
FoundTag find_newest_valid(FileSystem& file_system, const std::string& root, Depth depth);
// What one who takes the tag of `root` is told: why others were passed over, one by one; and that
// `latest` was set to another one than the newest, or nothing. Without a tag neither says anything.
std::vector<std::string> passed_over(const FoundTag& found);
std::string set_back(const FoundTag& found, const std::string& root);

// An empty file in the directory of a tag that `latest` has named; older tags count as named.
inline constexpr const char* kNamedMarkName = "named";
bool is_named(FileSystem& file_system, const std::string& directory, const Manifest& manifest);

// Whether a trace speaks of something newer than this step, as far as is known.
bool may_be_newer(const RejectedTag& trace, int64_t step);

// A directory of a root under its own name: a tag, a trace of one, or another program's (neither).
enum class Files { kCheck, kIgnore };  // those that the manifest names
struct JudgedDirectory {
  std::optional<CommittedTag> tag;
  std::optional<RejectedTag> rejected;
};
JudgedDirectory judge_directory(FileSystem& file_system, const std::string& root,
                                const DirectoryEntry& entry, Files files);
// "global_step12" is of step 12.
std::optional<int64_t> step_in_name(const std::string& name);

}  // namespace ds
