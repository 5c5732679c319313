// Committing, replacing and deleting tags, so that at every instant, whatever
// call fails and whenever the power goes, a committed tag is whole and loadable and an uncommitted
// one is not seen. One rank (or the coordinator) calls these; the files themselves are
// checkpoint/writer.h, and which tags there are is checkpoint/tag_list.h.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format.h"
#include "checkpoint/lineage.h"
#include "checkpoint/tag.h"
#include "checkpoint/tag_list.h"
#include "core/files/file.h"

namespace ds {

std::string temporary_directory(const std::string& root, std::string_view tag, int64_t epoch);

// Who may write in a root: an epoch and, since two launchers that cannot see each other may number
// theirs alike, the launcher's own word for it (JobPlan::claim; empty where nobody gave one).
struct EpochClaim {
  int64_t number = 0;
  std::string holder;
  EpochClaim(int64_t epoch, std::string by = "") : number(epoch), holder(std::move(by)) {}
};

// What an epoch does first in a root, before any of its ranks saves: records itself, so that
// writers of older epochs can no longer commit; removes what they left unfinished; puts back a tag
// whose replacement was interrupted. Creates the root. ValidationError if a newer epoch was here,
// or one of the same number that another launcher started. Returns what it removed or put back, in
// words.
//
// Where each host keeps its own files (checkpoint/hosts/local_tags.h), nobody can tell from one
// root alone what is whole: what has a manifest is then kept, out of its writer's reach, as
// "<tag>.ready.<epoch>", and so is what was about to be replaced.
enum class Unfinished { kSettle, kKeep };
std::vector<std::string> open_epoch(FileSystem& file_system, const std::string& root,
                                    const EpochClaim& epoch,
                                    Unfinished unfinished = Unfinished::kSettle);

struct CommitRequest {
  std::string root;
  std::string tag;
  EpochClaim epoch = 0;
  int64_t step = 0;
  std::vector<FileVote> votes;  // one per rank, all ranks of the epoch
  // These are set if each host keeps its own files: the hosts by rank, and the ranks whose files
  // lie here. Else they are empty.
  std::vector<std::string> hosts{};
  std::vector<int> here{};
  int64_t begun_in = 0;  // the epoch that began the line of training
  std::vector<Ancestor> after{};
  bool skipped = false;
};
// Makes the tag loadable; when it returns, it is committed and durable. A tag of the same name is
// replaced. ValidationError if votes are missing, doubled or of another epoch, if a file is not as
// voted, or if a newer epoch has opened the root.
void commit_tag(FileSystem& file_system, const CommitRequest& request);
// The same in parts, for several roots that are to commit together: all of them are prepared before
// the first is published, and nothing that is replaced is dropped before the last one is.
void prepare_tag(FileSystem& file_system, const CommitRequest& request);
void publish_tag(FileSystem& file_system, const std::string& root, const std::string& tag,
                 const EpochClaim& epoch);
void drop_replaced(FileSystem& file_system, const std::string& root, const std::string& tag,
                   int64_t epoch);
// Takes a step back: what this epoch published is prepared again, with the tag before in its place
// (ValidationError if a newer epoch has opened the root); what was prepared is gone. Harmless if
// there is nothing.
void unpublish_tag(FileSystem& file_system, const std::string& root, const std::string& tag,
                   const EpochClaim& epoch);
void discard_prepared(FileSystem& file_system, const std::string& root, const std::string& tag,
                      int64_t epoch);

// `latest` names the tag from now on, and the tag knows it: later another name there is somebody's
// wish. After the commit; where that cannot be done, `latest` is a hint that is late.
// ValidationError if a newer epoch has opened the root: then nobody of this one changes `latest`.
void write_latest(FileSystem& file_system, const std::string& root, const std::string& tag,
                  const EpochClaim& epoch);
// Training goes on from `tag` although there may be a newer one: the same, so that those who come
// later go back, too.
void go_back(FileSystem& file_system, const std::string& root, const std::string& tag,
             const std::string& newest, const EpochClaim& epoch);
// Removes what this epoch wrote of a tag that will not be committed, and puts back what it was
// about to replace. Harmless if there is nothing.
void discard_tag(FileSystem& file_system, const std::string& root, const std::string& tag,
                 int64_t epoch);

// Deletes the tags up to `step`, all but those to keep, of the newest at least one (surplus_of),
// after reading the newest of them through; deletes nothing if that fails. Returns the tags
// deleted. Tags of later steps are of a run that was left behind (--resume never, a training that
// went back, or one of them does not hold): they stay, and crowd out nothing.
std::vector<std::string> retain_tags(FileSystem& file_system, const std::string& root,
                                     const TagsToKeep& keep, const EpochClaim& epoch, int64_t step);
// Deletes those tags, each so that it is there or not, whenever the process ends. ValidationError
// if a newer epoch has opened the root.
void remove_tags(FileSystem& file_system, const std::string& root,
                 std::span<const std::string> tags, const EpochClaim& epoch);
// Takes a directory of the root, under any mark, away from whoever may still write there, and
// deletes it.
void remove_marked(FileSystem& file_system, const std::string& root, const std::string& name);

}  // namespace ds
