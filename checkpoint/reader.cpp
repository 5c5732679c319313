#include "checkpoint/reader.h"

#include <algorithm>

#include "checkpoint/file_words.h"
#include "checkpoint/tag.h"
#include "core/values/index.h"

namespace ds {
namespace {

// Throws InputMissing if files are not here. If each host keeps its own files, a folder that lacks
// the others' is no defect, and easily helped.
void require_files(FileSystem& file_system, const std::string& directory,
                   const Manifest& manifest) {
  std::vector<int> missing;
  for (const FileVote& vote : manifest.files) {
    if (!file_system.exists(join_path(directory, vote.name))) missing.push_back(vote.rank);
  }
  if (missing.empty()) return;
  throw InputMissing(fmt::format(
      "{}: {} {} not here: the tag was saved with checkpoint.use_node_local_storage, so every host "
      "keeps "
      "the files of its own ranks; the folders {} of all hosts, copied into one, make it whole",
      directory, files_in_words(manifest, missing), missing.size() == 1 ? "is" : "are",
      manifest.tag));
}

}  // namespace

CheckpointReader CheckpointReader::open(FileSystem& file_system, const std::string& root,
                                        const std::string& tag) {
  check_tag(tag);
  CheckpointReader out = open_directory(file_system, join_path(root, tag));
  if (out.manifest_.tag != tag) {
    throw ValidationError(
        fmt::format("{}: the manifest is of tag {}", out.directory_, out.manifest_.tag));
  }
  return out;
}

CheckpointReader CheckpointReader::open_directory(FileSystem& file_system,
                                                  const std::string& directory) {
  CheckpointReader out;
  out.directory_ = directory;
  const std::string path = join_path(directory, kManifestName);
  out.manifest_ = parse_manifest(path, file_system.read_text(path, kLargestManifest));
  if (!out.manifest_.hosts.empty()) require_files(file_system, directory, out.manifest_);
  for (const FileVote& vote : out.manifest_.files) {
    out.add_file(BlockFileReader(file_system, directory, vote));
  }
  return out;
}

void CheckpointReader::add_file(BlockFileReader file) {
  const FileIndex& index = file.index();
  if (index.tag != manifest_.tag) {
    throw ValidationError(
        fmt::format("{}: the file of rank {} is of tag {}", directory_, index.rank, index.tag));
  }
  for (size_t piece = 0; piece < index.pieces.size(); ++piece) {
    const PieceInfo& info = index.pieces[piece];
    auto& sources = tensors_[info.name];
    if (!sources.empty()) {
      const PieceInfo& first = files_.size() == sources[0].file
                                   ? index.pieces[sources[0].piece]
                                   : files_[sources[0].file].index().pieces[sources[0].piece];
      if (first.dtype != info.dtype || !(first.shape == info.shape)) {
        throw ValidationError(fmt::format("{}: pieces of '{}' disagree: {} {} and {} {}",
                                          directory_, info.name, name_of(first.dtype),
                                          first.shape.to_string(), name_of(info.dtype),
                                          info.shape.to_string()));
      }
    }
    sources.push_back({files_.size(), piece});
  }
  states_.insert(index.states.begin(), index.states.end());
  files_.push_back(std::move(file));
}

std::vector<std::string> CheckpointReader::names() const {
  std::vector<std::string> out;
  for (const auto& [name, sources] : tensors_) out.push_back(name);
  return out;
}

CheckpointReader::TensorInfo CheckpointReader::info(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw ValidationError(fmt::format("{}: there is no tensor '{}'", directory_, name));
  }
  const Source& source = found->second[0];
  const PieceInfo& piece = files_[source.file].index().pieces[source.piece];
  return {piece.dtype, piece.shape};
}

// All runs of a tensor's pieces, in order and without overlap (replicated pieces count once).
std::vector<CheckpointReader::SourceRun> CheckpointReader::source_runs(
    const std::string& name) const {
  std::vector<SourceRun> runs;
  const auto item = static_cast<int64_t>(size_of(info(name).dtype));
  for (const Source& source : tensors_.at(name)) {
    const PieceInfo& piece = files_[source.file].index().pieces[source.piece];
    for (const Run& run : runs_of(piece.region, piece.shape)) {
      runs.push_back({run.first, run.numel, source.file, piece.offset + run.inside * item});
    }
  }
  std::stable_sort(runs.begin(), runs.end(),
                   [](const SourceRun& a, const SourceRun& b) { return a.first < b.first; });
  return first_by_rank(std::move(runs), item);
}

// A sweep over sorted runs: of those that hold the elements it passes, the one of the first file
// counts, which is the one of the lowest rank.
std::vector<CheckpointReader::SourceRun> CheckpointReader::first_by_rank(
    std::vector<SourceRun> runs, int64_t item) {
  std::vector<SourceRun> out;
  std::set<std::pair<size_t, size_t>> open;  // file and run of those that begin at `at` or before
  int64_t at = 0;
  for (size_t next = 0; next < runs.size() || !open.empty();) {
    if (open.empty()) at = std::max(at, runs[next].first);
    for (; next < runs.size() && runs[next].first <= at; ++next) {
      open.emplace(runs[next].file, next);
    }
    const SourceRun& run = runs[open.begin()->second];
    int64_t end = run.first + run.numel;
    if (end <= at) {
      open.erase(open.begin());
      continue;
    }
    if (next < runs.size()) end = std::min(end, runs[next].first);
    const int64_t offset = run.offset + (at - run.first) * item;
    const bool goes_on = !out.empty() && out.back().file == run.file &&
                         out.back().first + out.back().numel == at &&
                         out.back().offset + out.back().numel * item == offset;
    if (goes_on) {
      out.back().numel += end - at;
    } else {
      out.push_back({at, end - at, run.file, offset});
    }
    at = end;
  }
  return out;
}

// What is read from where. ValidationError for an element that no piece covers.
std::vector<CheckpointReader::Copy> CheckpointReader::copies_for(
    const std::string& name, const std::vector<Run>& wanted) const {
  const std::vector<SourceRun> sources = source_runs(name);
  const auto item = static_cast<int64_t>(size_of(info(name).dtype));
  std::vector<Copy> copies;
  for (const Run& run : wanted) {
    int64_t at = run.first;
    const int64_t end = run.first + run.numel;
    auto source =
        std::upper_bound(sources.begin(), sources.end(), at,
                         [](int64_t value, const SourceRun& s) { return value < s.first; });
    if (source != sources.begin()) --source;
    while (at < end) {
      if (source == sources.end() || at < source->first || at >= source->first + source->numel) {
        throw ValidationError(
            fmt::format("{}: no piece covers element {} of '{}'", directory_, at, name));
      }
      const int64_t count = std::min(end, source->first + source->numel) - at;
      copies.push_back({source->file, source->offset + (at - source->first) * item, count * item,
                        (run.inside + at - run.first) * item});
      at += count;
      ++source;
    }
  }
  return copies;
}

void CheckpointReader::get(const std::string& name, const Region& region, Tensor& into) {
  DS_CHECK(into.device() == Device::cpu(), "checkpoint: '{}' into a tensor on {}, expected the CPU",
           name, into.device().to_string());
  read_part(copies_into(name, region, into), 0, into);
}

void CheckpointReader::get(const std::string& name, const Region& region, Tensor& into,
                           HostCopy& through) {
  const std::vector<Copy> copies = copies_into(name, region, into);
  through.up(into, [&](int64_t first, Tensor& part) {
    read_part(copies, first * narrow<int64_t>(size_of(part.dtype())), part);
  });
}

// Everything about the destination is checked here.
std::vector<CheckpointReader::Copy> CheckpointReader::copies_into(const std::string& name,
                                                                  const Region& region,
                                                                  const Tensor& into) const {
  const TensorInfo tensor = info(name);
  if (into.dtype() != tensor.dtype) {
    throw ValidationError(fmt::format("{}: '{}' is {}, the destination is {}", directory_, name,
                                      name_of(tensor.dtype), name_of(into.dtype())));
  }
  const std::vector<Run> wanted = runs_of(region, tensor.shape);
  DS_CHECK(into.numel() == region.numel(), "checkpoint: '{}' into {} elements, expected {}", name,
           into.numel(), region.numel());
  std::vector<Copy> copies = copies_for(name, wanted);
  // File by file and front to back: a row of columns that many ranks hold is in as many files, and
  // taken row by row, their blocks would be read and checked again for each.
  std::sort(copies.begin(), copies.end(), [](const Copy& a, const Copy& b) {
    return std::pair(a.file, a.offset) < std::pair(b.file, b.offset);
  });
  return copies;
}

// What of the copies falls into the part of the destination that begins with `first_byte`.
void CheckpointReader::read_part(const std::vector<Copy>& copies, int64_t first_byte,
                                 Tensor& part) {
  auto* bytes = static_cast<std::byte*>(part.raw());
  const int64_t end = first_byte + narrow<int64_t>(part.bytes());
  for (const Copy& copy : copies) {
    const int64_t from = std::max(copy.target, first_byte);
    const int64_t to = std::min(copy.target + copy.bytes, end);
    if (from >= to) continue;
    files_[copy.file].read(copy.offset + from - copy.target,
                           {bytes + (from - first_byte), to_size(to - from)}, cache_);
  }
}

std::set<int> CheckpointReader::ranks_holding(const std::string& name, const Region& region) const {
  const std::vector<Run> wanted = runs_of(region, info(name).shape);
  std::set<int> out;
  for (const SourceRun& source : source_runs(name)) {
    const auto run =  // the first that ends after the source begins
        std::upper_bound(wanted.begin(), wanted.end(), source.first,
                         [](int64_t value, const Run& r) { return value < r.first + r.numel; });
    if (run != wanted.end() && run->first < source.first + source.numel) {
      out.insert(files_[source.file].index().rank);
    }
  }
  return out;
}

const std::string& CheckpointReader::state(const std::string& name) const {
  const auto found = states_.find(name);
  if (found == states_.end()) {
    throw ValidationError(fmt::format("{}: there is no state '{}'", directory_, name));
  }
  return found->second;
}

void CheckpointReader::verify() {
  for (BlockFileReader& file : files_) file.verify();
}

}  // namespace ds
