// What the ranks of one group share, byte by byte: a header, one slot per rank, one mailbox per
// pair of ranks, one staging area per rank. The same layout serves threads (anonymous memory) and
// processes (POSIX shared memory). A fresh region is all zero bytes, which is every field's start
// value.
//
// Only `Flag`s order anything: a rank writes plain bytes (its call, its inline data, its staging
// area), then raises its flag with release; a peer that has seen the flag with acquire may read
// them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "comm/contract/collective_call.h"
#include "core/tasks/flag.h"
#include "core/values/index.h"

namespace ds::detail {

inline constexpr size_t kInlineBytes = 4096;    // largest message that travels inside the slot
inline constexpr size_t kMailboxMessages = 16;  // sends in flight from one rank to another
inline constexpr uint64_t kRegionMagic = 0x31'6d68'732d'7364ULL;  // "ds-shm1"

// What a rank calls, and where its peers find the data.
struct alignas(kCacheLine) Call : CollectiveCall {
  uint64_t location = 0;  // of the input; the meaning is the ShmWorld's
  bool visible = false;   // `location` is valid; otherwise the data is staged
};

struct alignas(4096) Slot {
  Flag phase;  // counts this rank's signals; all ranks signal equally often
  alignas(
      kCacheLine) std::atomic<uint64_t> doing;  // diagnosis only: sequence << 8 | op << 1 | inside
  std::atomic<uint32_t> left;                   // 1 once this rank closed its end
  std::atomic<int32_t> pid;                     // processes only
  std::atomic<uint64_t> started;  // its start time in clock ticks: tells a reused pid apart
  std::atomic<uint64_t> arena_bytes;
  std::atomic<int32_t> arena_fd;
  std::array<Call, 2> calls;  // by parity of the exchange: a fast rank may be one ahead
  alignas(kCacheLine) std::byte data[2][kInlineBytes];
};

struct alignas(kCacheLine) Message {
  int64_t numel;
  uint64_t location;
  DType dtype;
};

struct Mailbox {  // one writer, one reader
  Flag sent;
  Flag received;
  std::array<Message, kMailboxMessages> messages;
};

struct alignas(4096) Header {
  std::atomic<uint64_t> magic;  // stored last by the creator: the region is ready
  std::atomic<int32_t> size;
  std::atomic<int32_t> creator_pid;
  std::atomic<uint64_t> creator_started;
  Flag joined;                    // how many ranks have published themselves
  Flag unlinked;                  // 1 when the name is gone
  std::atomic<uint32_t> failure;  // 0 none, 1 being written, 2 failure_text is valid
  char failure_text[512];
};

// This says where the parts lie, for a group of `size` ranks.
struct ShmLayout {
  explicit ShmLayout(int size);
  int size;
  size_t chunk_bytes;                       // one of a rank's two staging buffers
  size_t slots, mailboxes, staging, bytes;  // offsets, and the whole

  Header& header(std::byte* base) const { return *reinterpret_cast<Header*>(base); }
  Slot& slot(std::byte* base, int rank) const {
    return *reinterpret_cast<Slot*>(base + slots + sizeof(Slot) * to_size(rank));
  }
  Mailbox& mailbox(std::byte* base, int from, int to) const {
    const auto index = to_size(from) * to_size(size) + to_size(to);
    return *reinterpret_cast<Mailbox*>(base + mailboxes + sizeof(Mailbox) * index);
  }
  std::byte* stage(std::byte* base, int rank, int64_t chunk) const {
    const size_t buffer = 2 * to_size(rank) + to_size(chunk & 1);
    return base + staging + chunk_bytes * buffer;
  }
};

}  // namespace ds::detail
