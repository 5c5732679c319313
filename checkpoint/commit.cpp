#include "checkpoint/commit.h"

#include <algorithm>
#include <charconv>

#include "checkpoint/reader.h"
#include "core/status/error.h"
#include "core/status/failpoint.h"
#include "core/values/index.h"

namespace ds {
namespace {

std::string replaced_directory(const std::string& root, std::string_view tag, int64_t epoch) {
  return join_path(root, fmt::format("{}{}{}", tag, kReplacedMark, epoch));
}

// "latest.tmp.<epoch>" of whoever is about to change `latest`; of older builds "latest.tmp".
constexpr std::string_view kLatestTemporary = "latest.tmp";

std::string epoch_path(const std::string& root) { return join_path(root, "epoch"); }

// The newest epoch that opened the root, "<number> <holder>"; -1 if none did.
EpochClaim recorded_epoch(FileSystem& file_system, const std::string& root) {
  const std::string path = epoch_path(root);
  if (!file_system.exists(path)) return -1;
  const std::string text = file_system.read_text(path, 128);
  int64_t epoch = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), epoch);
  std::string_view rest(parsed.ptr, to_size(text.data() + text.size() - parsed.ptr));
  const bool ends = rest.empty() || rest.front() == ' ' || rest.front() == '\n';
  if (parsed.ec != std::errc() || epoch < 0 || !ends) {
    throw ValidationError(
        fmt::format("{}: '{}' is no number of a generation; delete the file if no other job "
                    "uses this folder",
                    path, text));
  }
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  return {epoch, std::string(rest.substr(0, rest.find('\n')))};
}

void check_fence(FileSystem& file_system, const std::string& root, const EpochClaim& epoch) {
  const EpochClaim newest = recorded_epoch(file_system, root);
  if (newest.number > epoch.number) {
    throw ValidationError(
        fmt::format("checkpoints in {}: generation {} is over, generation {} has taken its place",
                    root, epoch.number, newest.number));
  }
  const bool another =
      !newest.holder.empty() && !epoch.holder.empty() && newest.holder != epoch.holder;
  if (newest.number == epoch.number && another) {
    throw ValidationError(
        fmt::format("checkpoints in {}: another dslaunch has started a generation {} here, "
                    "too, and was first",
                    root, epoch.number));
  }
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

bool is_of_epoch(FileSystem& file_system, const std::string& directory, int64_t epoch) {
  const std::string path = join_path(directory, kManifestName);
  return file_system.exists(path) &&
         parse_manifest(path, file_system.read_text(path, kLargestManifest)).epoch == epoch;
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

// What an epoch that is over left of a tag whose other files lie on other hosts. First out of its
// writer's reach: what has no manifest then will never have one, and its writer cannot tell the
// others that it has.
std::string keep_prepared(FileSystem& file_system, const std::string& root, const std::string& name,
                          const MarkedName& parsed) {
  const std::string kept = fmt::format("{}{}{}", parsed.tag, kReadyMark, parsed.epoch);
  if (file_system.exists(join_path(root, kept))) file_system.remove_tree(join_path(root, kept));
  file_system.rename(join_path(root, name), join_path(root, kept));
  DS_FAILPOINT("epoch.prepared_kept");
  if (file_system.exists(join_path(join_path(root, kept), kManifestName))) {
    return fmt::format("kept {}", kept);
  }
  remove_marked(file_system, root, kept);
  return fmt::format("removed {}", name);
}

// One directory that an earlier epoch left in the root; what was done, in words, or nothing.
std::string settle_leftover(FileSystem& file_system, const std::string& root,
                            const std::string& name, int64_t epoch, Unfinished unfinished) {
  if (parse_marked(name, kDiscardedMark)) {
    file_system.remove_tree(join_path(root, name));
    return "";
  }
  const bool settles = unfinished == Unfinished::kSettle;
  const auto temporary = parse_marked(name, kTemporaryMark);
  if (temporary && temporary->epoch <= epoch) {
    if (!settles) return keep_prepared(file_system, root, name, *temporary);
    remove_marked(file_system, root, name);
    DS_FAILPOINT("epoch.leftover_removed");
    return fmt::format("removed {}", name);
  }
  for (const std::string_view mark : {kReplacedMark, kReadyMark}) {
    const auto aside = parse_marked(name, mark);
    if (settles && aside && aside->epoch <= epoch) {
      return settle_replaced(file_system, root, name, aside->tag);
    }
  }
  return "";
}

void check_votes(const CommitRequest& request) {
  std::vector<bool> seen(request.votes.size());
  for (const FileVote& vote : request.votes) {
    const bool known = vote.rank >= 0 && to_size(vote.rank) < seen.size();
    if (!known || nth(seen, vote.rank) || vote.epoch != request.epoch.number ||
        vote.name != pieces_file_name(vote.rank)) {
      throw ValidationError(fmt::format(
          "commit {}: vote of rank {} for '{}' in generation {}, expected one "
          "vote of each of {} ranks in generation {}",
          request.tag, vote.rank, vote.name, vote.epoch, seen.size(), request.epoch.number));
    }
    nth(seen, vote.rank) = true;
  }
  if (seen.empty()) throw ValidationError(fmt::format("commit {}: no votes", request.tag));
}

}  // namespace

std::string temporary_directory(const std::string& root, std::string_view tag, int64_t epoch) {
  return join_path(root, fmt::format("{}{}{}", tag, kTemporaryMark, epoch));
}

std::vector<std::string> open_epoch(FileSystem& file_system, const std::string& root,
                                    const EpochClaim& epoch, Unfinished unfinished) {
  file_system.make_directories(root);
  // Also where the directories are there already: who made them may have failed to make that
  // durable.
  const std::string parent = parent_directory(root);
  file_system.sync_directory(parent_directory(parent));
  file_system.sync_directory(parent);
  check_fence(file_system, root, epoch);
  DS_FAILPOINT("epoch.before_record");
  file_system.write_text_atomically(
      epoch_path(root), epoch.holder.empty() ? fmt::format("{}\n", epoch.number)
                                             : fmt::format("{} {}\n", epoch.number, epoch.holder));
  DS_FAILPOINT("epoch.recorded");
  std::vector<std::string> done;
  for (const DirectoryEntry& entry : file_system.list(root)) {
    if (entry.kind == DirectoryEntry::Kind::kFile && entry.name.starts_with(kLatestTemporary)) {
      file_system.remove(join_path(root, entry.name));  // its writer cannot change `latest` then
    }
    if (entry.kind != DirectoryEntry::Kind::kDirectory) continue;
    const std::string what =
        settle_leftover(file_system, root, entry.name, epoch.number, unfinished);
    if (!what.empty()) done.push_back(what);
  }
  DS_FAILPOINT("epoch.before_sync");
  file_system.sync_directory(root);
  return done;
}

void prepare_tag(FileSystem& file_system, const CommitRequest& request) {
  check_tag(request.tag);
  check_votes(request);
  DS_FAILPOINT("commit.votes_checked");
  check_fence(file_system, request.root, request.epoch);
  DS_FAILPOINT("commit.fence_checked");
  const std::string temporary =
      temporary_directory(request.root, request.tag, request.epoch.number);
  Manifest manifest{.tag = request.tag,
                    .step = request.step,
                    .epoch = request.epoch.number,
                    .files = request.votes,
                    .hosts = request.hosts,
                    .begun_in = request.begun_in,
                    .after = request.after,
                    .skipped = request.skipped};
  std::sort(manifest.files.begin(), manifest.files.end(),
            [](const FileVote& a, const FileVote& b) { return a.rank < b.rank; });
  for (const FileVote& vote : manifest.files) {  // re-reads length, trailer and index
    if (!request.here.empty() && !std::ranges::count(request.here, vote.rank)) continue;
    const BlockFileReader file(file_system, temporary, vote);
    DS_FAILPOINT("commit.file_checked");
    if (file.index().tag != request.tag) {
      throw ValidationError(
          fmt::format("commit {}: {} is of tag {}", request.tag, vote.name, file.index().tag));
    }
  }
  DS_FAILPOINT("commit.before_manifest");
  file_system.write_text_atomically(join_path(temporary, kManifestName), to_text(manifest));
  DS_FAILPOINT("commit.manifest_written");
}

void publish_tag(FileSystem& file_system, const std::string& root, const std::string& tag,
                 const EpochClaim& epoch) {
  const std::string temporary = temporary_directory(root, tag, epoch.number);
  const std::string place = join_path(root, tag);
  const std::string aside = replaced_directory(root, tag, epoch.number);
  check_fence(file_system, root, epoch);
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
  file_system.sync_directory(root);
  DS_FAILPOINT("commit.synced");
}

void drop_replaced(FileSystem& file_system, const std::string& root, const std::string& tag,
                   int64_t epoch) {
  const std::string aside = replaced_directory(root, tag, epoch);
  if (file_system.exists(aside)) file_system.remove_tree(aside);
}

void commit_tag(FileSystem& file_system, const CommitRequest& request) {
  prepare_tag(file_system, request);
  publish_tag(file_system, request.root, request.tag, request.epoch);
  drop_replaced(file_system, request.root, request.tag, request.epoch.number);
}

void unpublish_tag(FileSystem& file_system, const std::string& root, const std::string& tag,
                   const EpochClaim& epoch) {
  const std::string temporary = temporary_directory(root, tag, epoch.number);
  const std::string place = join_path(root, tag);
  const std::string aside = replaced_directory(root, tag, epoch.number);
  check_fence(file_system, root, epoch);
  if (!file_system.exists(temporary) && is_of_epoch(file_system, place, epoch.number)) {
    file_system.rename(place, temporary);
  }
  DS_FAILPOINT("commit.unpublished");
  if (file_system.exists(aside) && !file_system.exists(place)) file_system.rename(aside, place);
  file_system.sync_directory(root);
}

void discard_prepared(FileSystem& file_system, const std::string& root, const std::string& tag,
                      int64_t epoch) {
  const std::string temporary = temporary_directory(root, tag, epoch);
  if (file_system.exists(temporary)) file_system.remove_tree(temporary);
}

// In one step: a writer of an old epoch that still runs must find all of its directory or nothing,
// never a part that it could give the tag's name.
void remove_marked(FileSystem& file_system, const std::string& root, const std::string& name) {
  std::optional<MarkedName> parsed;
  for (const std::string_view mark : {kTemporaryMark, kReplacedMark, kReadyMark}) {
    if (!parsed) parsed = parse_marked(name, mark);
  }
  DS_CHECK(parsed.has_value(), "remove_marked: {} has no such mark", name);
  const std::string gone =
      join_path(root, fmt::format("{}{}{}", parsed->tag, kDiscardedMark, parsed->epoch));
  if (file_system.exists(gone)) file_system.remove_tree(gone);
  file_system.rename(join_path(root, name), gone);
  file_system.remove_tree(gone);
}

namespace {

// A writer of an old epoch must not change `latest` when a new one has seen it: it makes its file,
// then looks who is there, then gives the file its name. Whoever opens the root says so first, and
// then takes such files away.
void replace_latest(FileSystem& file_system, const std::string& root, const std::string& tag,
                    const EpochClaim& epoch) {
  check_tag(tag);
  DS_FAILPOINT("latest.before_write");
  const std::string fresh = join_path(root, fmt::format("{}.{}", kLatestTemporary, epoch.number));
  if (file_system.exists(fresh)) file_system.remove(fresh);
  const std::string text = tag + "\n";
  {
    const std::unique_ptr<File> file = file_system.create(fresh);
    file->write(0, std::as_bytes(std::span(text)));
    file->sync();
  }
  DS_FAILPOINT("latest.made");
  check_fence(file_system, root, epoch);
  DS_FAILPOINT("latest.fence_checked");
  file_system.rename(fresh, join_path(root, "latest"));
  file_system.sync_directory(root);
  DS_FAILPOINT("latest.written");
}

// If it gets lost, the tag counts as not named yet, which costs nobody anything.
void mark_named(FileSystem& file_system, const std::string& root, const std::string& tag) {
  const std::string mark = join_path(join_path(root, tag), kNamedMarkName);
  if (!file_system.exists(mark)) file_system.create(mark);
}

}  // namespace

void write_latest(FileSystem& file_system, const std::string& root, const std::string& tag,
                  const EpochClaim& epoch) {
  replace_latest(file_system, root, tag, epoch);
  mark_named(file_system, root, tag);
  DS_FAILPOINT("latest.marked");
}

void go_back(FileSystem& file_system, const std::string& root, const std::string& tag,
             const std::string& newest, const EpochClaim& epoch) {
  if (newest != tag) {
    mark_named(file_system, root, newest);
    file_system.sync_directory(join_path(root, newest));
    DS_FAILPOINT("latest.newest_marked");
  }
  write_latest(file_system, root, tag, epoch);
}

void discard_tag(FileSystem& file_system, const std::string& root, const std::string& tag,
                 int64_t epoch) {
  discard_prepared(file_system, root, tag, epoch);
  DS_FAILPOINT("discard.temporary_removed");
  const std::string aside = replaced_directory(root, tag, epoch);
  if (file_system.exists(aside)) {
    settle_replaced(file_system, root, fmt::format("{}{}{}", tag, kReplacedMark, epoch), tag);
  }
}

std::vector<std::string> retain_tags(FileSystem& file_system, const std::string& root,
                                     const TagsToKeep& keep, const EpochClaim& epoch,
                                     int64_t step) {
  DS_CHECK(keep.newest >= 1, "retain_tags: keep {}, expected at least 1", keep.newest);
  check_fence(file_system, root, epoch);
  const TagList list = list_tags(file_system, root);
  const std::vector<std::string> removed = surplus_of(list.tags, keep, step);
  if (removed.empty()) return removed;
  const auto newest =
      std::ranges::find_if(list.tags, [&](const CommittedTag& tag) { return tag.step <= step; });
  CheckpointReader::open(file_system, root, newest->tag).verify();
  remove_tags(file_system, root, removed, epoch);
  return removed;
}

void remove_tags(FileSystem& file_system, const std::string& root,
                 std::span<const std::string> tags, const EpochClaim& epoch) {
  check_fence(file_system, root, epoch);
  for (const std::string& tag : tags) {
    const std::string aside = replaced_directory(root, tag, epoch.number);
    DS_FAILPOINT("retain.before_aside");
    file_system.rename(join_path(root, tag), aside);
    file_system.sync_directory(root);
    DS_FAILPOINT("retain.aside");
    file_system.remove_tree(aside);
    DS_FAILPOINT("retain.removed");
  }
}

}  // namespace ds
