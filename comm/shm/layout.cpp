#include "comm/shm/layout.h"

#include <algorithm>

#include "core/memory/rounding.h"
#include "core/values/index.h"

namespace ds::detail {
namespace {

// Two buffers per rank that fit the second-level cache together; smaller in large groups, so that
// the region stays within the 64 MiB of shared memory that containers get by default.
size_t chunk_bytes_for(int size) {
  constexpr size_t kLargest = size_t{256} << 10;
  constexpr size_t kSmallest = size_t{32} << 10;
  constexpr size_t kAllRanks = size_t{8} << 20;
  const size_t share = kAllRanks / to_size(size) / 4096 * 4096;
  return std::clamp(share, kSmallest, kLargest);
}

}  // namespace

ShmLayout::ShmLayout(int ranks) : size(ranks), chunk_bytes(chunk_bytes_for(ranks)) {
  const auto n = to_size(ranks);
  slots = sizeof(Header);
  mailboxes = slots + sizeof(Slot) * n;
  staging = round_up(mailboxes + sizeof(Mailbox) * n * n, 4096);
  bytes = staging + 2 * chunk_bytes * n;
}

}  // namespace ds::detail
