#include "checkpoint/hosts/distributed_sets.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/status/failpoint.h"
#include "core/values/index.h"

namespace ds {
namespace {

// What a host keeps, as it travels between ranks.
struct WireFile {
  WireSet set;
  int64_t rank = 0, buffer = 0, bytes = 0, tail = 0;
};

WireFile to_wire_file(const KeptFile& file) {
  return {.set = to_wire(file.set),
          .rank = file.rank,
          .buffer = file.buffer,
          .bytes = file.bytes,
          .tail = file.tail};
}

KeptFile from_wire_file(const WireFile& in) {
  return {.set = from_wire(in.set),
          .rank = static_cast<int>(in.rank),
          .buffer = static_cast<int>(in.buffer),
          .bytes = in.bytes,
          .tail = in.tail};
}

// This host's copy of a file of the set.
KeptFile kept_file(const WholeSet& set, size_t file) {
  const WholeSet::Place& place = set.files[file];
  return {set.id, static_cast<int>(file), set.buffer, place.bytes, place.tail};
}

Manifest checked_manifest(const WholeSet& set, const std::string& place, const std::string& text) {
  Manifest manifest = parse_manifest(place, text);
  bool fits = digest_of(std::as_bytes(std::span(text))) == set.id.digest &&
              manifest.files.size() == set.files.size();
  for (size_t file = 0; fits && file < set.files.size(); ++file) {
    fits = manifest.files[file].bytes == set.files[file].bytes &&
           manifest.files[file].rank == static_cast<int>(file);
  }
  if (!fits) throw ValidationError(fmt::format("{}: the manifest is not that of its files", place));
  return manifest;
}

}  // namespace

WireSet to_wire(const SetIdentity& set) {
  WireSet out{.epoch = set.epoch, .step = set.step, .begun_in = set.begun_in, .files = set.files};
  std::copy_n(set.digest.begin(), std::min(set.digest.size(), out.digest.size()),
              out.digest.begin());
  return out;
}

SetIdentity from_wire(const WireSet& in) {
  return {.epoch = in.epoch,
          .step = in.step,
          .begun_in = in.begun_in,
          .files = static_cast<int>(in.files),
          .digest = {in.digest.begin(), in.digest.end()}};
}

DistributedSets::DistributedSets(const KeptFiles& kept, std::vector<int> host_of,
                                 HostExchange& exchange)
    : kept_(kept), host_of_(std::move(host_of)), exchange_(exchange) {
  hosts_ = *std::ranges::max_element(host_of_) + 1;
  is_host_leader_ = std::ranges::find(host_of_, host()) - host_of_.begin() == exchange_.rank();
}

std::vector<HostFile> DistributedSets::gather() {
  std::vector<WireFile> mine;
  if (is_host_leader_)
    std::ranges::transform(kept_.files(), std::back_inserter(mine), to_wire_file);
  const std::vector<std::vector<WireFile>> all = exchange_.gather_lists(mine);
  std::vector<HostFile> kept;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    for (const WireFile& file : all[rank]) kept.push_back({host_of_[rank], from_wire_file(file)});
  }
  return kept;
}

void DistributedSets::send_file(const KeptFile& file, int to) {
  std::unique_ptr<File> from;
  // What cannot be read arrives as something else, which its digest tells the receiver.
  std::string error = failure_of([&] { from = kept_.open(file); });
  chunk_.resize(kChunkBytes);
  for (int64_t at = 0; at < file.bytes;) {
    const auto count = std::min(chunk_.size(), to_size(file.bytes - at));
    const auto bytes = std::span(chunk_).first(count);
    if (error.empty()) error = failure_of([&] { from->read(at, bytes); });
    exchange_.send(bytes, to);
    DS_FAILPOINT("sets.chunk_sent");
    at += static_cast<int64_t>(count);
  }
  if (!error.empty()) spdlog::warn("{}", error);
}

bool DistributedSets::host_keeps(const WholeSet& set, size_t file) const {
  return std::ranges::binary_search(set.files[file].hosts, host());
}

// Every rank needs it, and only hosts that keep a file of the set have it.
std::string DistributedSets::shared_manifest(const WholeSet& set) {
  const int root = sender_of(set.files[0], 0, host_of_);
  std::string text;
  if (root == exchange_.rank()) {
    const std::string error = failure_of([&] { text = kept_.manifest(kept_file(set, 0)); });
    if (!error.empty()) spdlog::warn("{}", error);
  }
  auto size = narrow<int64_t>(text.size());
  exchange_.broadcast(std::as_writable_bytes(std::span(&size, 1)), root);
  text.resize(to_size(size));
  if (size > 0) exchange_.broadcast(std::as_writable_bytes(std::span(text)), root);
  return text;
}

// The indexes of files that some host lacks, so that every rank knows what is where.
void DistributedSets::bring_tails(const WholeSet& set, const Manifest& manifest, SetView& view) {
  for (size_t file = 0; file < set.files.size(); ++file) {
    const WholeSet::Place& place = set.files[file];
    if (std::ssize(place.hosts) == hosts_) continue;
    const int root = sender_of(place, static_cast<int>(file), host_of_);
    std::vector<std::byte> known(host_keeps(set, file) ? to_size(place.bytes - place.tail) : 0);
    const std::span<std::byte> tail =
        known.empty() ? view.add_tail(manifest.files[file], place.tail) : std::span(known);
    if (root == exchange_.rank()) {
      const std::string error =
          failure_of([&] { kept_.open(kept_file(set, file))->read(place.tail, tail); });
      if (!error.empty()) spdlog::warn("{}", error);
    }
    exchange_.broadcast(tail, root);
  }
  DS_FAILPOINT("sets.tails_brought");
}

// Files that ranks need and their hosts lack, from ranks whose hosts keep them.
void DistributedSets::bring_files(const WholeSet& set, const Manifest& manifest,
                                  const std::vector<uint8_t>& wanted, SetView& view) {
  const std::vector<uint8_t> all = exchange_.gather(wanted);
  for (size_t file = 0; file < set.files.size(); ++file) {
    const int from = sender_of(set.files[file], static_cast<int>(file), host_of_);
    for (int to = 0; to < exchange_.size(); ++to) {
      if (all[to_size(to) * wanted.size() + file] == 0) continue;
      if (from == exchange_.rank()) send_file(kept_file(set, file), to);
      if (to != exchange_.rank()) continue;
      std::span<std::byte> rest = view.make_whole(manifest.files[file]);
      while (!rest.empty()) {
        const size_t count = std::min(kChunkBytes, rest.size());
        exchange_.receive(rest.first(count), from);
        rest = rest.subspan(count);
      }
    }
  }
  DS_FAILPOINT("sets.files_brought");
}

void DistributedSets::load(const WholeSet& set, const Use& use) {
  const auto agree = [&](const std::string& error) {
    exchange_.agree_on_success(use.label, error);
  };
  const std::string text = shared_manifest(set);
  Manifest manifest;
  agree(failure_of([&] { manifest = checked_manifest(set, use.place, text); }));
  SetView view(text);
  for (size_t file = 0; file < set.files.size(); ++file) {
    if (!host_keeps(set, file)) continue;
    view.add(manifest.files[file], [this, &set, file](Caching caching) {
      return kept_.open(kept_file(set, file), caching);
    });
  }
  bring_tails(set, manifest, view);
  std::optional<CheckpointReader> reader;
  std::vector<uint8_t> wanted(set.files.size(), 0);
  agree(failure_of([&] {
    reader = CheckpointReader::open_directory(view, use.place);
    for (const int rank : use.wanted(*reader)) {
      const auto file = to_size(rank);
      if (!host_keeps(set, file)) wanted.at(file) = 1;
    }
  }));
  bring_files(set, manifest, wanted, view);
  agree(failure_of([&] { use.take(*reader); }));
}

}  // namespace ds
