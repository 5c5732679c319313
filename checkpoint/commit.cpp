#include "checkpoint/commit.h"

#include <algorithm>
#include <charconv>

#include "checkpoint/reader.h"
#include "core/error.h"
#include "core/failpoint.h"

namespace ds {
namespace {

constexpr int64_t kLargestManifest = int64_t{1} << 28;
constexpr std::string_view kManifestName = "manifest.json";

std::string replaced_directory(const std::string& root, std::string_view tag, int64_t epoch) {
  return join_path(root, fmt::format("{}{}{}", tag, kReplacedMark, epoch));
}

std::string epoch_path(const std::string& root) { return join_path(root, "epoch"); }

// The newest epoch that opened the root; -1 if none did.
int64_t recorded_epoch(FileSystem& file_system, const std::string& root) {
  const std::string path = epoch_path(root);
  if (!file_system.exists(path)) return -1;
  const std::string text = file_system.read_text(path, 64);
  int64_t epoch = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), epoch);
  if (parsed.ec != std::errc() || epoch < 0) {
    throw ValidationError(fmt::format("{}: '{}' is no epoch number; delete the file if no other job "
                                      "uses this folder", path, text));
  }
  return epoch;
}

void check_fence(FileSystem& file_system, const std::string& root, int64_t epoch) {
  const int64_t newest = recorded_epoch(file_system, root);
  if (newest > epoch) {
    throw ValidationError(fmt::format("checkpoints in {}: epoch {} is over, epoch {} has taken its place",
                                      root, epoch, newest));
  }
}

// Out of its writer's reach in one step: a writer of an old epoch that still runs must find all of its
// directory or nothing, never a part that it could give the tag's name.
void remove_marked(FileSystem& file_system, const std::string& root, const std::string& name,
                   const MarkedName& parsed) {
  const std::string gone =
      join_path(root, fmt::format("{}{}{}", parsed.tag, kDiscardedMark, parsed.epoch));
  if (file_system.exists(gone)) file_system.remove_tree(gone);
  file_system.rename(join_path(root, name), gone);
  file_system.remove_tree(gone);
}

// Does the directory hold a whole tag, whatever it is called?
bool is_whole(FileSystem& file_system, const std::string& directory) {
  try {
    CheckpointReader::open_directory(file_system, directory);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// A replacement that was interrupted: the old tag returns, unless the new one took its place.
std::string settle_replaced(FileSystem& file_system, const std::string& root,
                            const std::string& name, const std::string& tag) {
  const std::string aside = join_path(root, name);
  const std::string place = join_path(root, tag);
  if (!file_system.exists(place) && is_whole(file_system, aside)) {
    file_system.rename(aside, place);
    file_system.sync_directory(root);
    return fmt::format("put back {}", tag);
  }
  file_system.remove_tree(aside);
  return fmt::format("removed {}", name);
}

void check_votes(const CommitRequest& request) {
  std::vector<bool> seen(request.votes.size());
  for (const FileVote& vote : request.votes) {
    const bool known = vote.rank >= 0 && static_cast<size_t>(vote.rank) < seen.size();
    if (!known || seen[static_cast<size_t>(vote.rank)] || vote.epoch != request.epoch ||
        vote.name != pieces_file_name(vote.rank)) {
      throw ValidationError(fmt::format("commit {}: vote of rank {} for '{}' in epoch {}, expected one "
                                        "vote of each of {} ranks in epoch {}", request.tag, vote.rank,
                                        vote.name, vote.epoch, seen.size(), request.epoch));
    }
    seen[static_cast<size_t>(vote.rank)] = true;
  }
  if (seen.empty()) throw ValidationError(fmt::format("commit {}: no votes", request.tag));
}

}  // namespace

std::string temporary_directory(const std::string& root, std::string_view tag, int64_t epoch) {
  return join_path(root, fmt::format("{}{}{}", tag, kTemporaryMark, epoch));
}

std::vector<std::string> open_epoch(FileSystem& file_system, const std::string& root,
                                    int64_t epoch) {
  file_system.make_directories(root);
  // Also where the directories are there already: who made them may have failed to make that durable.
  const std::string parent = parent_directory(root);
  file_system.sync_directory(parent_directory(parent));
  file_system.sync_directory(parent);
  check_fence(file_system, root, epoch);
  DS_FAILPOINT("epoch.before_record");
  file_system.write_text_atomically(epoch_path(root), fmt::format("{}\n", epoch));
  DS_FAILPOINT("epoch.recorded");
  std::vector<std::string> done;
  const std::string hint = join_path(root, "latest.tmp");
  if (file_system.exists(hint)) file_system.remove(hint);
  for (const DirectoryEntry& entry : file_system.list(root)) {
    if (entry.kind != DirectoryEntry::Kind::kDirectory) continue;
    if (parse_marked(entry.name, kDiscardedMark)) {
      file_system.remove_tree(join_path(root, entry.name));
      continue;
    }
    const auto temporary = parse_marked(entry.name, kTemporaryMark);
    const auto replaced = parse_marked(entry.name, kReplacedMark);
    if (temporary && temporary->epoch <= epoch) {
      remove_marked(file_system, root, entry.name, *temporary);
      done.push_back(fmt::format("removed {}", entry.name));
      DS_FAILPOINT("epoch.leftover_removed");
    } else if (replaced && replaced->epoch <= epoch) {
      done.push_back(settle_replaced(file_system, root, entry.name, replaced->tag));
    }
  }
  DS_FAILPOINT("epoch.before_sync");
  file_system.sync_directory(root);
  return done;
}

void commit_tag(FileSystem& file_system, const CommitRequest& request) {
  check_tag(request.tag);
  check_votes(request);
  DS_FAILPOINT("commit.votes_checked");
  check_fence(file_system, request.root, request.epoch);
  DS_FAILPOINT("commit.fence_checked");
  const std::string temporary =
      temporary_directory(request.root, request.tag, request.epoch);
  Manifest manifest{request.tag, request.step, request.epoch, request.votes};
  std::sort(manifest.files.begin(), manifest.files.end(),
            [](const FileVote& a, const FileVote& b) { return a.rank < b.rank; });
  for (const FileVote& vote : manifest.files) {  // re-reads length, trailer and index
    const BlockFileReader file(file_system, temporary, vote);
    DS_FAILPOINT("commit.file_checked");
    if (file.index().tag != request.tag) {
      throw ValidationError(fmt::format("commit {}: {} is of tag {}", request.tag, vote.name,
                                        file.index().tag));
    }
  }
  DS_FAILPOINT("commit.before_manifest");
  file_system.write_text_atomically(join_path(temporary, kManifestName), to_text(manifest));
  DS_FAILPOINT("commit.manifest_written");

  const std::string place = join_path(request.root, request.tag);
  const std::string aside = replaced_directory(request.root, request.tag, request.epoch);
  check_fence(file_system, request.root, request.epoch);
  DS_FAILPOINT("commit.second_fence_checked");
  const bool replaces = file_system.exists(place);
  if (replaces) file_system.rename(place, aside);
  DS_FAILPOINT("commit.before_rename");
  try {
    file_system.rename(temporary, place);
  } catch (const Error&) {  // a newer epoch took our directory away: what was there stays there
    if (replaces && !file_system.exists(place)) file_system.rename(aside, place);
    throw;
  }
  DS_FAILPOINT("commit.renamed");
  file_system.sync_directory(request.root);
  DS_FAILPOINT("commit.synced");
  if (replaces) file_system.remove_tree(aside);
}

void write_latest(FileSystem& file_system, const std::string& root, const std::string& tag) {
  check_tag(tag);
  DS_FAILPOINT("latest.before_write");
  file_system.write_text_atomically(join_path(root, "latest"), tag + "\n");
  DS_FAILPOINT("latest.written");
}

void discard_tag(FileSystem& file_system, const std::string& root, const std::string& tag,
                 int64_t epoch) {
  const std::string temporary = temporary_directory(root, tag, epoch);
  if (file_system.exists(temporary)) file_system.remove_tree(temporary);
  DS_FAILPOINT("discard.temporary_removed");
  const std::string aside = replaced_directory(root, tag, epoch);
  if (file_system.exists(aside)) {
    settle_replaced(file_system, root, fmt::format("{}{}{}", tag, kReplacedMark, epoch), tag);
  }
}

TagList list_tags(FileSystem& file_system, const std::string& root) {
  TagList out;
  if (!file_system.exists(root)) return out;
  for (const DirectoryEntry& entry : file_system.list(root)) {
    const std::string path = join_path(join_path(root, entry.name), kManifestName);
    if (entry.kind != DirectoryEntry::Kind::kDirectory || is_marked(entry.name) ||
        !file_system.exists(path)) {
      continue;
    }
    try {
      const Manifest manifest =
          parse_manifest(path, file_system.read_text(path, kLargestManifest));
      if (manifest.tag != entry.name) {
        throw ValidationError(fmt::format("{}: the manifest is of tag {}", path, manifest.tag));
      }
      out.tags.push_back({manifest.tag, manifest.step, manifest.epoch});
    } catch (const Error& error) {
      out.rejected.emplace_back(error.what());
    }
  }
  std::stable_sort(out.tags.begin(), out.tags.end(), [](const auto& a, const auto& b) {
    return std::pair(a.step, a.epoch) > std::pair(b.step, b.epoch);
  });
  return out;
}

FoundTag find_newest_valid(FileSystem& file_system, const std::string& root, Depth depth) {
  const TagList list = list_tags(file_system, root);
  FoundTag out{std::nullopt, list.rejected};
  for (const CommittedTag& tag : list.tags) {
    try {
      CheckpointReader reader = CheckpointReader::open(file_system, root, tag.tag);
      if (depth == Depth::kAllBytes) reader.verify();
      out.tag = tag;
      return out;
    } catch (const Error& error) {
      out.rejected.emplace_back(error.what());
    }
  }
  return out;
}

std::vector<std::string> retain_tags(FileSystem& file_system, const std::string& root, int keep,
                                     int64_t epoch) {
  DS_CHECK(keep >= 1, "retain_tags: keep {}, expected at least 1", keep);
  check_fence(file_system, root, epoch);
  const TagList list = list_tags(file_system, root);
  std::vector<std::string> removed;
  if (static_cast<int>(list.tags.size()) <= keep) return removed;
  CheckpointReader::open(file_system, root, list.tags[0].tag).verify();
  for (size_t i = static_cast<size_t>(keep); i < list.tags.size(); ++i) {
    const std::string aside = replaced_directory(root, list.tags[i].tag, epoch);
    DS_FAILPOINT("retain.before_aside");
    file_system.rename(join_path(root, list.tags[i].tag), aside);
    file_system.sync_directory(root);
    DS_FAILPOINT("retain.aside");
    file_system.remove_tree(aside);
    removed.push_back(list.tags[i].tag);
    DS_FAILPOINT("retain.removed");
  }
  return removed;
}

}  // namespace ds
