#include "train/memory_tier.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

#include "checkpoint/hosts/agreement.h"
#include "checkpoint/tag.h"
#include "core/status/failpoint.h"
#include "core/values/index.h"
#include "train/engine_pieces.h"

namespace ds {
namespace {

constexpr const char* kRoot = "memory";  // what the format calls a folder

}  // namespace

MemoryTier::MemoryTier(Engine& engine, const JobPlan& plan, HostExchange& exchange)
    : engine_(engine),
      plan_(plan),
      exchange_(exchange),
      memory_([&] {
        if (plan.memory_fd < 0) {
          throw Unsupported(
              "train.save_in_memory_every: whoever started this rank holds no memory "
              "for it; start it by dslaunch, or set the key to 0");
        }
        return plan.memory_fd;
      }()),
      sets_(memory_, hosts_of_ranks(exchange.gather(std::vector<int>{plan.local_rank})), exchange),
      copies_(plan_peer_copies(sets_.host_of())) {}

FileVote MemoryTier::write_own(int buffer) {
  const std::unique_ptr<FileSystem> slot = memory_.slot_of(plan_.rank, buffer);
  CheckpointWriter writer(
      *slot,
      {.root = kRoot, .tag = default_tag(engine_.step()), .epoch = plan_.epoch, .rank = plan_.rank},
      owned_bytes(engine_));
  put_pieces(engine_, plan_.rank, {.facts = "", .notes = notes_}, writer);
  DS_FAILPOINT("memory.before_finish");
  return writer.finish();
}

// With a single host nothing is ever copied, and one kind of places is enough.
size_t MemoryTier::kind_of(Replica replica) const {
  return replica == Replica::kPeerHost && !copies_.empty() ? 1 : 0;
}

void MemoryTier::save(Replica replica) {
  DS_FAILPOINT("memory.before_save");
  const size_t kind = kind_of(replica);
  // The groups know nothing of each other's order: who is elsewhere in the engine's calls is told
  // here, by an error, and not waited for.
  engine_.host().barrier();
  // The first set of this epoch with all that it may need is whole by now: all ranks have made a
  // step since.
  if (leftovers_ == Leftovers::kSuperseded) sweep();
  const int buffer = static_cast<int>(2 * kind) + next_buffer_[kind];
  WireVote mine;
  try {
    mine.vote(write_own(buffer));
  } catch (const IoError& failure) {
    mine.fail(failure.what());
  } catch (const BadPiece& bad) {
    mine.refuse(bad.what());
  }
  DS_FAILPOINT("memory.written");
  const std::vector<WireVote> all = exchange_votes(mine, exchange_);
  if (const std::string bad = first_refusal(all); !bad.empty()) {
    throw ValidationError(bad_state_text(engine_.step(), bad, "what was saved before stays"));
  }
  if (const std::string failure = first_failure(all); !failure.empty()) {
    throw IoError(fmt::format("step {} could not be kept in memory: {}", engine_.step(), failure));
  }
  DS_FAILPOINT("memory.votes_exchanged");
  const Manifest manifest{.tag = default_tag(engine_.step()),
                          .step = engine_.step(),
                          .epoch = plan_.epoch,
                          .files = votes_of(all, plan_.epoch),
                          .begun_in = begun_in_,
                          .after = after_};
  memory_.commit(plan_.rank, buffer, manifest);
  DS_FAILPOINT("memory.committed");
  for (const PeerCopy& copy : copies_) {
    if (kind == 0) break;
    if (copy.from == plan_.rank) send_copy(copy, buffer, manifest);
    if (copy.to == plan_.rank) take_copy(copy, buffer, manifest);
  }
  DS_FAILPOINT("memory.saved");
  next_buffer_[kind] = 1 - next_buffer_[kind];
  const bool survives_all = kind == kind_of(Replica::kPeerHost);
  if (survives_all && leftovers_ == Leftovers::kNeeded) leftovers_ = Leftovers::kSuperseded;
}

void MemoryTier::send_copy(const PeerCopy& copy, int buffer, const Manifest& manifest) {
  const FileVote& vote = nth(manifest.files, copy.from);
  sets_.send_file({.set = {}, .rank = copy.from, .buffer = buffer, .bytes = vote.bytes}, copy.to);
  DS_FAILPOINT("memory.copy_sent");
}

// Whatever fails here, the sender is heard to the end: it has its own copy, and training goes on.
void MemoryTier::take_copy(const PeerCopy& copy, int buffer, const Manifest& manifest) {
  const FileVote& vote = nth(manifest.files, copy.from);
  std::unique_ptr<File> slot;
  std::string error = failure_of([&] {
    const int64_t room = memory_.room_for(copy.from, buffer);
    if (room < vote.bytes) {
      throw DiskFull(fmt::format("need={} free={} bytes of memory", vote.bytes, room));
    }
    slot = memory_.begin(copy.from, buffer);
  });
  chunk_.resize(kChunkBytes);
  for (int64_t at = 0; at < vote.bytes;) {
    const auto count = std::min(chunk_.size(), to_size(vote.bytes - at));
    const auto bytes = std::span(chunk_).first(count);
    exchange_.receive(bytes, copy.from);
    DS_FAILPOINT("memory.chunk_taken");
    if (error.empty()) error = failure_of([&] { slot->write(at, bytes); });
    at += static_cast<int64_t>(count);
  }
  if (error.empty()) error = failure_of([&] { memory_.commit(copy.from, buffer, manifest); });
  if (!error.empty()) {
    spdlog::warn(
        "no copy of rank {}'s state at step {} here: {}; a lost host would cost more steps",
        copy.from, manifest.step, error);
  }
  DS_FAILPOINT("memory.copy_taken");
}

// What lies here where nobody saves any more: of the epoch before, of other placements. Nobody
// writes there, so one rank of the host can do it.
void MemoryTier::sweep() {
  leftovers_ = Leftovers::kSwept;
  if (!sets_.is_host_leader()) return;
  const std::vector<int>& host_of = sets_.host_of();
  std::set<int> own, clients;
  for (size_t rank = 0; rank < host_of.size(); ++rank) {
    if (host_of[rank] == sets_.host()) own.insert(static_cast<int>(rank));
  }
  for (const PeerCopy& copy : copies_) {
    if (nth(host_of, copy.to) == sets_.host()) clients.insert(copy.from);
  }
  memory_.drop_if([&](int rank, int buffer) {
    const bool copied = buffer >= 2;
    const bool wanted =
        own.contains(rank) ? !copied || !copies_.empty() : copied && clients.contains(rank);
    return !wanted;
  });
  DS_FAILPOINT("memory.swept");
}

const MemoryTier::Found& MemoryTier::find() {
  const std::vector<HostFile> kept = sets_.gather();
  found_ = {whole_sets(kept), newest_kept_step(kept)};
  return found_;
}

void MemoryTier::restore(const WholeSet& set) {
  const std::string label = fmt::format("step {} in memory", set.id.step);
  DS_FAILPOINT("memory.before_restore");
  sets_.load(
      set, {.label = label,
            .place = kRoot,
            .wanted = [&](const CheckpointReader& reader) { return ranks_needed(engine_, reader); },
            .take =
                [&](CheckpointReader& reader) {
                  restored_after_ = reader.manifest().after;
                  lost_ = restore_pieces(engine_, reader, label);
                  restored_notes_ = notes_of(reader);
                }});
  DS_FAILPOINT("memory.restored");
}

void MemoryTier::settle(const WholeSet* from, int64_t begun_in,
                        const std::vector<Ancestor>& after) {
  begun_in_ = begun_in;
  after_ = after;
  // Older ones lie on the way that led here; the newest of each kind is not to be written over
  // next.
  std::vector<const WholeSet*> wanted;
  next_buffer_ = {};
  leftovers_ = Leftovers::kNeeded;
  for (auto set = found_.whole.rbegin(); from != nullptr && set != found_.whole.rend(); ++set) {
    if (set->id.step >= from->id.step && !(set->id == from->id)) continue;
    wanted.push_back(&*set);
    next_buffer_.at(to_size(set->buffer / 2)) = 1 - set->buffer % 2;
  }
  if (!sets_.is_host_leader()) return;
  std::set<std::pair<int, int>> kept;
  for (const KeptFile& file : memory_.files()) {
    const bool needed = std::ranges::any_of(wanted, [&](const WholeSet* set) {
      return set->id == file.set && set->buffer == file.buffer;
    });
    if (needed) kept.insert({file.rank, file.buffer});
  }
  memory_.drop_if([&](int rank, int buffer) { return !kept.contains({rank, buffer}); });
  DS_FAILPOINT("memory.settled");
}

}  // namespace ds
