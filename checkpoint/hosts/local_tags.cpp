#include "checkpoint/hosts/local_tags.h"

#include <algorithm>
#include <set>

#include "checkpoint/block_file.h"
#include "checkpoint/commit.h"
#include "checkpoint/hosts/set_view.h"
#include "checkpoint/tag.h"
#include "core/status/failpoint.h"
#include "core/values/index.h"

namespace ds {
namespace {

SetIdentity identity_of(const Manifest& manifest, const std::string& text) {
  return {.epoch = manifest.epoch,
          .step = manifest.step,
          .begun_in = manifest.begun_in,
          .files = narrow<int>(manifest.files.size()),
          .digest = digest_of(std::as_bytes(std::span(text)))};
}

}  // namespace

void LocalTags::look() {
  tags_.clear();
  rejected_.clear();
  if (!file_system_.exists(root_)) return;
  for (const DirectoryEntry& entry : file_system_.list(root_)) {
    if (!is_marked(entry.name)) {
      const JudgedDirectory judged = judge_directory(file_system_, root_, entry, Files::kIgnore);
      if (judged.tag) add(entry.name, Tag::Stage::kPublished);
      if (judged.rejected) rejected_.push_back(*judged.rejected);
    } else if (parse_marked(entry.name, kReadyMark)) {
      add(entry.name, Tag::Stage::kReady);
    } else if (parse_marked(entry.name, kReplacedMark)) {
      add(entry.name, Tag::Stage::kPublished);
    }
  }
}

// Adds the tag in a directory. A marked name that does not hold is not worth a word: it is left of
// an interrupted commit.
void LocalTags::add(const std::string& directory, Tag::Stage stage) {
  const std::string path = join_path(join_path(root_, directory), kManifestName);
  try {
    if (!file_system_.exists(path)) return;
    std::string text = file_system_.read_text(path, kLargestManifest);
    Manifest manifest = parse_manifest(path, text);
    const bool named_right = directory == manifest.tag || directory.starts_with(manifest.tag + ".");
    if (!named_right || manifest.tag != default_tag(manifest.step)) {
      throw ValidationError(
          fmt::format("{}: the manifest is of tag {}, step {}", path, manifest.tag, manifest.step));
    }
    const SetIdentity set = identity_of(manifest, text);
    tags_.push_back({directory, stage, set, std::move(manifest), std::move(text)});
  } catch (const Error& error) {
    if (!is_marked(directory))
      rejected_.push_back({directory, step_in_name(directory), error.what()});
  }
}

const LocalTags::Tag* LocalTags::find(const SetIdentity& set) const {
  const auto found = std::ranges::find(tags_, set, &Tag::set);
  return found == tags_.end() ? nullptr : &*found;
}

CommittedTag LocalTags::committed(const Tag& tag) const {
  return {.tag = tag.manifest.tag,
          .step = tag.set.step,
          .epoch = tag.set.epoch,
          .begun_in = tag.set.begun_in,
          .after = tag.manifest.after,
          .skipped = tag.manifest.skipped,
          .named = is_named(file_system_, join_path(root_, tag.directory), tag.manifest)};
}

std::vector<KeptFile> LocalTags::files() const {
  std::vector<KeptFile> out;
  for (const Tag& tag : tags_) {
    if (find(tag.set) != &tag) continue;  // the same under another name
    const std::string directory = join_path(root_, tag.directory);
    std::set<std::string> names;
    for (const DirectoryEntry& entry : file_system_.list(directory)) names.insert(entry.name);
    for (const FileVote& vote : tag.manifest.files) {
      if (!names.contains(vote.name)) continue;
      try {
        const std::unique_ptr<File> file = file_system_.open(join_path(directory, vote.name));
        if (file->size() != vote.bytes) continue;
        out.push_back({.set = tag.set,
                       .rank = vote.rank,
                       .buffer = 0,
                       .bytes = vote.bytes,
                       .tail = tail_of(*file)});
      } catch (const Error&) {
        continue;  // as good as not there
      }
    }
  }
  return out;
}

std::string LocalTags::manifest(const KeptFile& file) const {
  const Tag* tag = find(file.set);
  if (tag == nullptr) {
    throw ValidationError(
        fmt::format("{}: no tag of step {}, generation {}", root_, file.set.step, file.set.epoch));
  }
  return tag->text;
}

std::unique_ptr<File> LocalTags::open(const KeptFile& file, Caching caching) const {
  const Tag* tag = find(file.set);
  if (tag == nullptr) {
    throw InputMissing(
        fmt::format("{}: no tag of step {}, generation {}", root_, file.set.step, file.set.epoch));
  }
  return file_system_.open(join_path(join_path(root_, tag->directory), pieces_file_name(file.rank)),
                           caching);
}

void LocalTags::put_in_place(const Tag& tag, int64_t epoch) {
  const std::string place = join_path(root_, tag.manifest.tag);
  const std::string gone =
      join_path(root_, fmt::format("{}{}{}", tag.manifest.tag, kDiscardedMark, epoch));
  if (file_system_.exists(gone)) file_system_.remove_tree(gone);
  const bool displaces = file_system_.exists(place);
  if (displaces) file_system_.rename(place, gone);
  DS_FAILPOINT("local.displaced");
  file_system_.rename(join_path(root_, tag.directory), place);
  file_system_.sync_directory(root_);
  DS_FAILPOINT("local.put_in_place");
  if (displaces) file_system_.remove_tree(gone);
}

void LocalTags::settle(std::span<const WholeSet> whole, const WholeSet* loaded, int64_t epoch) {
  look();
  const auto stays = [&](const SetIdentity& set) {
    if (loaded != nullptr && loaded->id.step == set.step) return loaded->id == set;
    const auto newest =
        std::ranges::find(whole, set.step, [](const WholeSet& one) { return one.id.step; });
    return newest != whole.end() && newest->id == set;
  };
  for (const Tag& tag : tags_) {
    if (tag.directory != tag.manifest.tag && stays(tag.set)) put_in_place(tag, epoch);
  }
  for (const DirectoryEntry& entry : file_system_.list(root_)) {
    const bool left =
        parse_marked(entry.name, kReadyMark) || parse_marked(entry.name, kReplacedMark);
    if (left && entry.kind == DirectoryEntry::Kind::kDirectory)
      remove_marked(file_system_, root_, entry.name);
  }
  DS_FAILPOINT("local.settled");
  look();
}

void LocalTags::verify(const std::string& tag, std::span<const int> ranks) {
  look();
  const auto found = std::ranges::find(tags_, tag, &Tag::directory);
  if (found == tags_.end())
    throw ValidationError(fmt::format("{}: there is no tag {}", root_, tag));
  for (const int rank : ranks) {
    BlockFileReader(file_system_, join_path(root_, tag), found->manifest.files.at(to_size(rank)))
        .verify();
  }
}

void LocalTags::remove_others(std::span<const std::string> wanted, int64_t step,
                              const EpochClaim& epoch) {
  look();
  std::vector<std::string> unwanted;
  for (const Tag& tag : tags_) {
    const bool kept = tag.directory != tag.manifest.tag || tag.manifest.step > step ||
                      std::ranges::find(wanted, tag.directory) != wanted.end();
    if (!kept) unwanted.push_back(tag.directory);
  }
  remove_tags(file_system_, root_, unwanted, epoch);
}

}  // namespace ds
