#include "rankd/memory_tier.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <set>

#include "checkpoint/tag.h"
#include "core/failpoint.h"
#include "rankd/agreement.h"
#include "rankd/engine_pieces.h"

namespace ds {
namespace {

constexpr size_t kLetterBytes = size_t{4} << 20;  // travels between hosts at a time
constexpr const char* kRoot = "memory";           // what the format calls a folder
constexpr const char* kNote = "note";             // the state that holds it

// What a host keeps, as it travels between ranks.
struct WireFile {
  int64_t epoch = 0, step = 0, files = 0;
  int64_t rank = -1;  // -1: nothing
  int64_t buffer = 0, bytes = 0, tail = 0;
  std::array<char, 32> digest{};
};

WireFile to_wire(const KeptFile& file) {
  WireFile out{.epoch = file.set.epoch, .step = file.set.step, .files = file.set.files,
               .rank = file.rank, .buffer = file.buffer, .bytes = file.bytes, .tail = file.tail};
  std::copy_n(file.set.digest.begin(), std::min(file.set.digest.size(), out.digest.size()),
              out.digest.begin());
  return out;
}

KeptFile from_wire(const WireFile& in) {
  return {.set = {.epoch = in.epoch,
                  .step = in.step,
                  .files = static_cast<int>(in.files),
                  .digest = {in.digest.begin(), in.digest.end()}},
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

Tensor letter(std::span<std::byte> bytes) {
  return Tensor::borrow(bytes.data(), {static_cast<int64_t>(bytes.size())}, DType::kU8);
}

// Runs a part that concerns this rank alone; what went wrong in words, or nothing.
template <class Part>
std::string error_of(const Part& part) {
  try {
    part();
    return "";
  } catch (const Error& failure) {
    return failure.what();
  }
}

}  // namespace

MemoryTier::MemoryTier(Engine& engine, const JobPlan& plan, Communicator& comm)
    : engine_(engine), plan_(plan), comm_(comm), vault_([&] {
        if (plan.memory_fd < 0) {
          throw Unsupported("train.save_in_memory_every: whoever started this rank holds no memory "
                            "for it; start it by dslaunch, or set the key to 0");
        }
        return plan.memory_fd;
      }()) {
  const std::vector<int> local_ranks =
      gather_values(std::vector<int>{plan_.local_rank}, comm_, engine_.stream());
  host_of_ = hosts_of_ranks(local_ranks);
  copies_ = plan_peer_copies(host_of_);
}

void MemoryTier::agree(const std::string& what, const std::string& error) {
  agree_on_success(what, error, comm_, engine_.stream());
}

FileVote MemoryTier::write_own(int buffer) {
  const std::unique_ptr<FileSystem> shelf = vault_.shelf_of(plan_.rank, buffer);
  CheckpointWriter writer(*shelf,
                          {.root = kRoot,
                           .tag = default_tag(engine_.step()),
                           .epoch = plan_.epoch,
                           .rank = plan_.rank},
                          owned_bytes(engine_));
  put_pieces(engine_, plan_.rank, writer);
  if (plan_.rank == 0) writer.put_state(kNote, note_);
  DS_FAILPOINT("memory.before_finish");
  return writer.finish();
}

// With a single host nothing is ever copied, and one kind of places is enough.
size_t MemoryTier::kind_of(Spread spread) const {
  return spread == Spread::kPeerHost && !copies_.empty() ? 1 : 0;
}

void MemoryTier::save(Spread spread) {
  DS_FAILPOINT("memory.before_save");
  const size_t kind = kind_of(spread);
  // The groups know nothing of each other's order: who is elsewhere in the engine's calls is told here, by
  // an error, and not waited for.
  engine_.comm().barrier();
  // The first set of this epoch with all that it may need is whole by now: all ranks have made a step since.
  if (leftovers_ == Leftovers::kSuperseded) sweep();
  const int buffer = static_cast<int>(2 * kind) + next_buffer_[kind];
  WireVote mine;
  try {
    mine.vote(write_own(buffer));
  } catch (const IoError& failure) {
    mine.fail(failure.what());
  }
  DS_FAILPOINT("memory.written");
  const std::vector<WireVote> all = exchange_votes(mine, comm_, engine_.stream());
  if (const std::string failure = first_failure(all); !failure.empty()) {
    throw IoError(fmt::format("step {} could not be kept in memory: {}", engine_.step(), failure));
  }
  DS_FAILPOINT("memory.votes_exchanged");
  const Manifest manifest{default_tag(engine_.step()), engine_.step(), plan_.epoch,
                          votes_of(all, plan_.epoch)};
  vault_.commit(plan_.rank, buffer, manifest);
  DS_FAILPOINT("memory.committed");
  for (const PeerCopy& copy : copies_) {
    if (kind == 0) break;
    if (copy.from == plan_.rank) send_copy(copy, buffer, manifest);
    if (copy.to == plan_.rank) take_copy(copy, buffer, manifest);
  }
  DS_FAILPOINT("memory.saved");
  next_buffer_[kind] = 1 - next_buffer_[kind];
  const bool survives_all = kind == kind_of(Spread::kPeerHost);
  if (survives_all && leftovers_ == Leftovers::kNeeded) leftovers_ = Leftovers::kSuperseded;
}

void MemoryTier::send_copy(const PeerCopy& copy, int buffer, const Manifest& manifest) {
  const FileVote& vote = manifest.files[static_cast<size_t>(copy.from)];
  send_file({.set = {}, .rank = copy.from, .buffer = buffer, .bytes = vote.bytes}, copy.to);
  DS_FAILPOINT("memory.copy_sent");
}

// Whatever fails here, the sender is heard to the end: it has its own copy, and training goes on.
void MemoryTier::take_copy(const PeerCopy& copy, int buffer, const Manifest& manifest) {
  const FileVote& vote = manifest.files[static_cast<size_t>(copy.from)];
  std::unique_ptr<File> shelf;
  std::string error = error_of([&] {
    const int64_t room = vault_.room_for(copy.from, buffer);
    if (room < vote.bytes) {
      throw DiskFull(fmt::format("need={} free={} bytes of memory", vote.bytes, room));
    }
    shelf = vault_.begin(copy.from, buffer);
  });
  letter_.resize(kLetterBytes);
  for (int64_t at = 0; at < vote.bytes;) {
    const auto count = std::min(letter_.size(), static_cast<size_t>(vote.bytes - at));
    const auto bytes = std::span(letter_).first(count);
    Tensor into = letter(bytes);
    comm_.recv(into, copy.from, engine_.stream());
    DS_FAILPOINT("memory.letter_taken");
    if (error.empty()) error = error_of([&] { shelf->write(at, bytes); });
    at += static_cast<int64_t>(count);
  }
  if (error.empty()) error = error_of([&] { vault_.commit(copy.from, buffer, manifest); });
  if (!error.empty()) {
    spdlog::warn("no copy of rank {}'s state at step {} here: {}; a lost host would cost more steps",
                 copy.from, manifest.step, error);
  }
  DS_FAILPOINT("memory.copy_taken");
}

void MemoryTier::send_file(const KeptFile& file, int to) {
  const std::unique_ptr<File> from = vault_.open(file);
  letter_.resize(kLetterBytes);
  for (int64_t at = 0; at < file.bytes;) {
    const auto count = std::min(letter_.size(), static_cast<size_t>(file.bytes - at));
    const auto bytes = std::span(letter_).first(count);
    // What cannot be read arrives as something else, which its digest tells the receiver.
    const std::string error = error_of([&] { from->read(at, bytes); });
    if (!error.empty()) spdlog::warn("{}", error);
    comm_.send(letter(bytes), to, engine_.stream());
    DS_FAILPOINT("memory.letter_sent");
    at += static_cast<int64_t>(count);
  }
}

// What lies here where nobody saves any more: of the epoch before, of other placements. Nobody writes
// there, so one rank of the host can do it.
void MemoryTier::sweep() {
  leftovers_ = Leftovers::kSwept;
  if (plan_.local_rank != 0) return;
  const int here = host_of_[static_cast<size_t>(plan_.rank)];
  std::set<int> own, guests;
  for (size_t rank = 0; rank < host_of_.size(); ++rank) {
    if (host_of_[rank] == here) own.insert(static_cast<int>(rank));
  }
  for (const PeerCopy& copy : copies_) {
    if (host_of_[static_cast<size_t>(copy.to)] == here) guests.insert(copy.from);
  }
  vault_.drop_if([&](int rank, int buffer) {
    const bool copied = buffer >= 2;
    const bool wanted = own.contains(rank) ? !copied || !copies_.empty()
                                           : copied && guests.contains(rank);
    return !wanted;
  });
  DS_FAILPOINT("memory.swept");
}

const MemoryTier::Found& MemoryTier::find() {
  // One rank of each host speaks for it.
  std::vector<WireFile> mine;
  if (plan_.local_rank == 0) {
    std::ranges::transform(vault_.files(), std::back_inserter(mine), to_wire);
  }
  const std::vector<int64_t> counts =
      gather_values(std::vector<int64_t>{static_cast<int64_t>(mine.size())}, comm_, engine_.stream());
  const auto most = static_cast<size_t>(*std::ranges::max_element(counts));
  mine.resize(most);
  const std::vector<WireFile> all = gather_values(mine, comm_, engine_.stream());
  std::vector<HostFile> kept;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].rank >= 0) kept.push_back({host_of_[i / most], from_wire(all[i])});
  }
  found_ = {whole_sets(kept), newest_kept_step(kept)};
  return found_;
}

bool MemoryTier::host_keeps(const WholeSet& set, size_t file) const {
  return std::ranges::binary_search(set.files[file].hosts,
                                    host_of_[static_cast<size_t>(plan_.rank)]);
}

// Every rank needs it, and only hosts that keep a file of the set have it.
std::string MemoryTier::spread_manifest(const WholeSet& set) {
  const int root = sender_of(set.files[0], 0, host_of_);
  std::string text;
  if (root == plan_.rank) {
    const std::string error = error_of([&] { text = vault_.manifest(kept_file(set, 0)); });
    if (!error.empty()) spdlog::warn("{}", error);
  }
  auto size = static_cast<int64_t>(text.size());
  Tensor sizes = Tensor::borrow(&size, {1}, DType::kI64);
  comm_.broadcast(sizes, root, engine_.stream());
  text.resize(static_cast<size_t>(size));
  Tensor bytes = letter(std::as_writable_bytes(std::span(text)));
  if (size > 0) comm_.broadcast(bytes, root, engine_.stream());
  return text;
}

Manifest MemoryTier::checked_manifest(const WholeSet& set, const std::string& text) const {
  Manifest manifest = parse_manifest(kRoot, text);
  bool fits = digest_of(std::as_bytes(std::span(text))) == set.id.digest &&
              manifest.files.size() == set.files.size();
  for (size_t file = 0; fits && file < set.files.size(); ++file) {
    fits = manifest.files[file].bytes == set.files[file].bytes &&
           manifest.files[file].rank == static_cast<int>(file);
  }
  if (!fits) throw ValidationError("the manifest in memory is not that of its files");
  return manifest;
}

// The indexes of files that some host lacks, so that every rank knows what is where.
void MemoryTier::bring_tails(const WholeSet& set, const Manifest& manifest, SetView& view) {
  const auto hosts = static_cast<size_t>(host_of_.back()) + 1;
  for (size_t file = 0; file < set.files.size(); ++file) {
    const WholeSet::Place& place = set.files[file];
    if (place.hosts.size() == hosts) continue;
    const int root = sender_of(place, static_cast<int>(file), host_of_);
    std::vector<std::byte> known(host_keeps(set, file) ? static_cast<size_t>(place.bytes - place.tail) : 0);
    const std::span<std::byte> tail =
        known.empty() ? view.add_tail(manifest.files[file], place.tail) : std::span(known);
    if (root == plan_.rank) {
      const std::string error =
          error_of([&] { vault_.open(kept_file(set, file))->read(place.tail, tail); });
      if (!error.empty()) spdlog::warn("{}", error);
    }
    Tensor bytes = letter(tail);
    comm_.broadcast(bytes, root, engine_.stream());
  }
  DS_FAILPOINT("memory.tails_brought");
}

// Files that ranks need and their hosts lack, from ranks whose hosts keep them.
void MemoryTier::bring_files(const WholeSet& set, const Manifest& manifest,
                             const std::vector<uint8_t>& wanted, SetView& view) {
  const std::vector<uint8_t> all = gather_values(wanted, comm_, engine_.stream());
  for (size_t file = 0; file < set.files.size(); ++file) {
    const int from = sender_of(set.files[file], static_cast<int>(file), host_of_);
    for (int to = 0; to < comm_.size(); ++to) {
      if (all[static_cast<size_t>(to) * wanted.size() + file] == 0) continue;
      if (from == plan_.rank) send_file(kept_file(set, file), to);
      if (to != plan_.rank) continue;
      std::span<std::byte> rest = view.make_whole(manifest.files[file]);
      while (!rest.empty()) {
        const size_t count = std::min(kLetterBytes, rest.size());
        Tensor into = letter(rest.first(count));
        comm_.recv(into, from, engine_.stream());
        rest = rest.subspan(count);
      }
    }
  }
  DS_FAILPOINT("memory.files_brought");
}

void MemoryTier::restore(const WholeSet& set) {
  const std::string label = fmt::format("step {} in memory", set.id.step);
  DS_FAILPOINT("memory.before_restore");
  const std::string text = spread_manifest(set);
  Manifest manifest;
  agree(label, error_of([&] { manifest = checked_manifest(set, text); }));
  SetView view(text);
  for (size_t file = 0; file < set.files.size(); ++file) {
    if (!host_keeps(set, file)) continue;
    view.add(manifest.files[file], [this, &set, file] { return vault_.open(kept_file(set, file)); });
  }
  bring_tails(set, manifest, view);
  std::optional<CheckpointReader> reader;
  std::vector<uint8_t> wanted(set.files.size(), 0);
  agree(label, error_of([&] {
    reader = CheckpointReader::open_directory(view, kRoot);
    for_each_piece(engine_, [&](const std::string& name, const ParamSpec&, const Region& region,
                                Tensor&) {
      for (const int rank : reader->ranks_holding(name, region)) {
        const auto file = static_cast<size_t>(rank);
        if (!host_keeps(set, file)) wanted[file] = 1;
      }
    });
  }));
  bring_files(set, manifest, wanted, view);
  agree(label, error_of([&] {
    restore_pieces(engine_, *reader, label);
    restored_note_ = reader->state(kNote);
  }));
  DS_FAILPOINT("memory.restored");
}

void MemoryTier::settle(const WholeSet* from) {
  // Older ones lie on the way that led here; the newest of each kind is not to be written over next.
  std::vector<const WholeSet*> wanted;
  next_buffer_ = {};
  leftovers_ = Leftovers::kNeeded;
  for (auto set = found_.whole.rbegin(); from != nullptr && set != found_.whole.rend(); ++set) {
    if (set->id.step >= from->id.step && !(set->id == from->id)) continue;
    wanted.push_back(&*set);
    next_buffer_.at(static_cast<size_t>(set->buffer / 2)) = 1 - set->buffer % 2;
  }
  if (plan_.local_rank != 0) return;
  std::set<std::pair<int, int>> kept;
  for (const KeptFile& file : vault_.files()) {
    const bool needed = std::ranges::any_of(
        wanted, [&](const WholeSet* set) { return set->id == file.set && set->buffer == file.buffer; });
    if (needed) kept.insert({file.rank, file.buffer});
  }
  vault_.drop_if([&](int rank, int buffer) { return !kept.contains({rank, buffer}); });
  DS_FAILPOINT("memory.settled");
}

}  // namespace ds
