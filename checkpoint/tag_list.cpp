#include "checkpoint/tag_list.h"

#include <algorithm>
#include <charconv>

#include "checkpoint/format.h"
#include "checkpoint/reader.h"
#include "checkpoint/tag.h"
#include "core/files/deepspeed_folder.h"
#include "core/status/error.h"

namespace ds {
namespace {

bool holds_pieces(FileSystem& file_system, const std::string& directory) {
  return std::ranges::any_of(file_system.list(directory), [](const DirectoryEntry& entry) {
    return entry.name.starts_with("rank-") && entry.name.ends_with(".pieces");
  });
}

// The files that a manifest names: present, and as long as it says.
void check_files(FileSystem& file_system, const std::string& directory, const Manifest& manifest) {
  for (const FileVote& vote : manifest.files) {
    const std::string path = join_path(directory, vote.name);
    if (!file_system.exists(path)) {
      if (!manifest.hosts.empty()) continue;  // each host keeps its own
      throw ValidationError(fmt::format("{}: is missing; the manifest names it", path));
    }
    const int64_t bytes = file_system.open(path)->size();
    if (bytes != vote.bytes) {
      throw ValidationError(fmt::format("{}: truncated or replaced: {} bytes, the manifest says {}",
                                        path, bytes, vote.bytes));
    }
  }
}

Manifest read_manifest(FileSystem& file_system, const std::string& directory,
                       const std::string& name) {
  const std::string path = join_path(directory, kManifestName);
  Manifest manifest = parse_manifest(path, file_system.read_text(path, kLargestManifest));
  if (manifest.tag != name) {
    throw ValidationError(fmt::format("{}: the manifest is of tag {}; the directory was renamed",
                                      path, manifest.tag));
  }
  return manifest;
}

CommittedTag committed_of(FileSystem& file_system, const std::string& directory,
                          const Manifest& manifest) {
  return {.tag = manifest.tag,
          .step = manifest.step,
          .epoch = manifest.epoch,
          .begun_in = manifest.begun_in,
          .after = manifest.after,
          .skipped = manifest.skipped,
          .named = is_named(file_system, directory, manifest)};
}

// What `latest` names and nobody has.
std::optional<RejectedTag> missing_latest(FileSystem& file_system, const std::string& root,
                                          const TagList& list) {
  const std::string path = join_path(root, "latest");
  if (!file_system.exists(path)) return std::nullopt;
  const std::optional<std::string> named = latest_name(file_system, root);
  if (!named) {
    return RejectedTag{"latest", std::nullopt,
                       fmt::format("{}: names no tag; a tag was committed here once", path)};
  }
  const std::string& name = *named;
  const bool known =
      std::ranges::find(list.tags, name, &CommittedTag::tag) != list.tags.end() ||
      std::ranges::find(list.rejected, name, &RejectedTag::name) != list.rejected.end();
  if (known) return std::nullopt;
  return RejectedTag{
      name, step_in_name(name),
      fmt::format("{}: names {}, which is not there; it was removed or renamed", path, name)};
}

}  // namespace

std::optional<int64_t> step_in_name(const std::string& name) {
  const std::string prefix = default_tag(0).substr(0, default_tag(0).size() - 1);
  if (!name.starts_with(prefix)) return std::nullopt;
  int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + prefix.size(), end, step);
  return parsed.ec == std::errc() && parsed.ptr == end && step >= 0 ? std::optional(step)
                                                                    : std::nullopt;
}

std::optional<std::string> latest_name(FileSystem& file_system, const std::string& root) {
  constexpr int64_t kLongest = 4096;
  const std::string path = join_path(root, "latest");
  try {
    if (!file_system.exists(path)) return std::nullopt;
    std::string name = file_system.read_text(path, kLongest);
    name.erase(0, name.find_first_not_of(" \n\r\t"));
    name.erase(name.find_last_not_of(" \n\r\t") + 1);
    check_tag(name);
    return name;
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool is_named(FileSystem& file_system, const std::string& directory, const Manifest& manifest) {
  return !manifest.knows_lines || file_system.exists(join_path(directory, kNamedMarkName));
}

bool may_be_newer(const RejectedTag& trace, int64_t step) {
  return trace.step.value_or(step + 1) > step;
}

JudgedDirectory judge_directory(FileSystem& file_system, const std::string& root,
                                const DirectoryEntry& entry, Files files) {
  const std::string directory = join_path(root, entry.name);
  RejectedTag trace{entry.name, step_in_name(entry.name), ""};
  try {
    if (entry.kind != DirectoryEntry::Kind::kDirectory) {
      if (!trace.step) return {};
      trace.why = fmt::format(
          "{}: is no directory but a link or a file; put the directory itself there", directory);
      return {std::nullopt, trace};
    }
    const std::string path = join_path(directory, kManifestName);
    if (!file_system.exists(path)) {
      trace.why = deepspeed_advice(file_system, directory);
      if (!trace.why.empty()) return {std::nullopt, trace};
      if (!trace.step && !holds_pieces(file_system, directory)) return {};
      trace.why = fmt::format("{}: has no {}; it was removed, or another program wrote this",
                              directory, kManifestName);
      return {std::nullopt, trace};
    }
    const Manifest manifest = read_manifest(file_system, directory, entry.name);
    trace.step = manifest.step;
    trace.begun_in = manifest.begun_in;
    trace.after = manifest.after;
    if (files == Files::kCheck) check_files(file_system, directory, manifest);
    return {committed_of(file_system, directory, manifest), std::nullopt};
  } catch (const Error& error) {
    trace.why = error.what();
    return {std::nullopt, trace};
  }
}

TagList list_tags(FileSystem& file_system, const std::string& root) {
  TagList out;
  if (!file_system.exists(root)) return out;
  for (const DirectoryEntry& entry : file_system.list(root)) {
    if (is_marked(entry.name)) continue;
    JudgedDirectory judged = judge_directory(file_system, root, entry, Files::kCheck);
    if (judged.tag) out.tags.push_back(*std::move(judged.tag));
    if (judged.rejected) out.rejected.push_back(*std::move(judged.rejected));
  }
  if (auto trace = missing_latest(file_system, root, out))
    out.rejected.push_back(*std::move(trace));
  std::ranges::stable_sort(out.tags, std::ranges::greater(), age_of<CommittedTag>);
  out.latest = latest_name(file_system, root).value_or("");
  return out;
}

Resumable resumable_tags(FileSystem& file_system, const std::string& root, const ResumeWish& wish) {
  return resumable_of(list_tags(file_system, root), wish);
}

std::vector<std::string> passed_over(const FoundTag& found) {
  std::vector<std::string> notes;
  if (!found.tag) return notes;
  for (const RejectedTag& trace : found.rejected) {
    notes.push_back(fmt::format("{}; taken is {}", trace.why, found.tag->tag));
  }
  return notes;
}

std::string set_back(const FoundTag& found, const std::string& root) {
  if (!found.tag || found.newer.empty()) return "";
  return fmt::format("{}/latest names {}; the newest is {}", root, found.tag->tag, found.newer);
}

FoundTag find_newest_valid(FileSystem& file_system, const std::string& root, Depth depth) {
  const Resumable list = resumable_tags(file_system, root);
  FoundTag out;
  if (list.chosen_by == ChosenBy::kLatest) out.newer = list.newest;
  std::vector<RejectedTag> refused = list.rejected;
  for (const CommittedTag& tag : list.tags) {
    try {
      CheckpointReader reader = CheckpointReader::open(file_system, root, tag.tag);
      if (depth == Depth::kAllBytes) reader.verify();
      out.tag = tag;
      break;
    } catch (const Error& error) {
      refused.push_back({tag.tag, tag.step, error.what(), tag.begun_in});
    }
  }
  std::ranges::copy_if(refused, std::back_inserter(out.rejected), [&](const RejectedTag& trace) {
    return !out.tag || may_be_newer(trace, out.tag->step);
  });
  return out;
}

}  // namespace ds
