// The memory in which a host keeps states over the death of its ranks: one piece of nameless memory
// (memfd), which the launcher or the host's agent made and holds open and which each of its ranks
// inherits. It has no name that could be left behind, outlives ranks and epochs, and goes with its
// holder.
//
// It is a sparse file. Rank r of an epoch has kSlotsPerRank slots from number kSlotsPerRank *
// r on, kSlotSpan bytes apart, each with room for one pieces file:
//
//   header     at 0: what lies in the slot and its digests, 4 KiB; zeros while the slot is written
//   manifest   at 4 KiB: that of the set, as in a tag's manifest.json
//   pieces     at 512 MiB: the file, as on disk
//
// The header is written last, so a slot holds a whole file or none, whenever a rank is killed.
// Saves of a kind take turns between two slots (`buffer`), so the set before the newest is whole
// while the newest is written. Nothing is mapped: sizes are checked by every read, and lost pages
// are an error, never a signal.
//
// Refuses to know who else keeps what, and when a set is whole (checkpoint/hosts/memory_sets.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format.h"
#include "checkpoint/hosts/kept_files.h"
#include "core/files/file.h"

namespace ds {

inline constexpr int64_t kSlotSpan = int64_t{1} << 40;
inline constexpr int kSlotsPerRank = 4;  // two kinds of saves, two buffers each
inline constexpr int kMostKeptRanks = 1 << 20;

// Confined to one thread; ranks of a host use the same memory, each its own slots.
class CheckpointMemory final : public KeptFiles {
 public:
  // A descriptor of the memory, which is duplicated. IoError if it is no such descriptor.
  explicit CheckpointMemory(int fd);

  // What lies on slots whose headers hold, in order of rank and buffer.
  std::vector<KeptFile> files() const override;
  std::string manifest(const KeptFile& file) const override;
  using KeptFiles::open;
  std::unique_ptr<File> open(const KeptFile& file, Caching caching) const override;

  // Takes back what the slot holds, and opens it for writing.
  std::unique_ptr<File> begin(int rank, int buffer);
  // A file system for one CheckpointWriter, in which "rank-<rank>.pieces" is that slot.
  std::unique_ptr<FileSystem> slot_of(int rank, int buffer);
  // Makes the slot hold the file that `manifest` names for the rank, after looking at its length,
  // trailer and index. ValidationError if what was written is another file.
  void commit(int rank, int buffer, const Manifest& manifest);
  // Gives back the memory of all slots of which `unwanted` holds.
  void drop_if(const std::function<bool(int rank, int buffer)>& unwanted);

  // Memory that the machine has left, and what the slot holds already.
  int64_t room_for(int rank, int buffer) const;
  int64_t kept_bytes() const;  // memory in use

 private:
  // Those that have any memory, in their order.
  void for_each_slot(const std::function<void(int rank, int buffer)>& visit) const;

  const Fd memory_;
};

}  // namespace ds
