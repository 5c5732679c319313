// How the data moves. Direct: every rank reads its peers' tensors. Staged: chunk by chunk through
// two buffers per rank. Both feed the same reduction in the same order, so they give the same bits.
#include <algorithm>
#include <cstring>

#include "comm/shm/group.h"
#include "core/memory/rounding.h"
#include "core/values/index.h"

namespace ds::detail {
namespace {

constexpr int64_t kPieceUnit = 64;  // pieces of a chunk start on cache lines

// How much of a slice [begin, end) falls into the piece that starts `offset` after begin.
int64_t piece_length(int64_t slice, int64_t offset, int64_t piece) {
  return std::clamp<int64_t>(slice - offset, 0, piece);
}

int64_t longest(std::span<const int64_t> bounds) {
  int64_t most = 0;
  for (size_t r = 0; r + 1 < bounds.size(); ++r) most = std::max(most, bounds[r + 1] - bounds[r]);
  return most;
}

}  // namespace

// One signal per chunk. A rank signals chunk c+1 after it has drained chunk c, so whoever has seen
// all signals of c may overwrite the buffer of c-1, which is the one that c+1 uses.
template <class Fill, class Drain>
void ShmComm::pipeline(int64_t chunks, const Fill& fill, const Drain& drain) {
  if (chunks == 0) return;
  fill(int64_t{0});
  signal();
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    await_peers();
    if (chunk + 1 < chunks) fill(chunk + 1);
    drain(chunk);
    if (chunk + 1 < chunks) signal();
  }
}

void ShmComm::reduce_direct(Tensor& inout, const ReduceTypes& types, Stream& stream) {
  const std::vector<int64_t> bounds = aligned_bounds(size_, inout.numel());
  const auto me = to_size(rank_);
  const size_t offset = to_size(bounds[me]) * size_of(types.in);
  std::vector<std::byte*> targets;
  for (int r = 0; r < size_; ++r) {
    targets.push_back(input_of(r, inout.bytes()) + offset);
    nth(sources_, r) = targets.back();
  }
  std::swap(targets[0], targets[me]);  // the block is first written where it is nearest
  reduce_on_pool(types, sources_, targets, bounds[me + 1] - bounds[me], stream);
  signal();
  await_peers();
}

void ShmComm::reduce_staged(Tensor& inout, const ReduceTypes& types) {
  // Few ranks: each reduces whole chunks for itself, which saves a pass. More: each reduces its
  // slice, then the slices are gathered, which keeps the reads per rank constant.
  constexpr int kFewRanks = 3;
  auto* const data = static_cast<std::byte*>(inout.raw());
  const size_t element = size_of(types.in);
  if (size_ > kFewRanks) {
    std::vector<int64_t> bounds = aligned_bounds(size_, inout.numel());
    std::byte* const shard = data + to_size(nth(bounds, rank_)) * element;
    reduce_scatter_staged(data, shard, types, bounds);
    signal();  // the gather reuses the staging buffers
    await_peers();
    for (int64_t& bound : bounds) bound *= static_cast<int64_t>(element);
    all_gather_staged(shard, data, bounds);
    return;
  }
  const auto piece = static_cast<int64_t>(layout_.chunk_bytes / element);
  const auto length = [&](int64_t c) { return piece_length(inout.numel(), c * piece, piece); };
  const auto at = [&](int64_t c) { return data + to_size(c * piece) * element; };
  pipeline(
      divide_up(inout.numel(), piece),
      [&](int64_t c) { std::memcpy(stage(rank_, c), at(c), to_size(length(c)) * element); },
      [&](int64_t c) {
        for (int r = 0; r < size_; ++r) nth(sources_, r) = stage(r, c);
        std::byte* const target = at(c);
        reduce_in_rank_order(types, sources_, {&target, 1}, length(c));
      });
}

void ShmComm::reduce_scatter_staged(const std::byte* full, std::byte* shard,
                                    const ReduceTypes& types, std::span<const int64_t> bounds) {
  const size_t in = size_of(types.in);
  const size_t out = size_of(types.out);
  const int64_t piece =
      static_cast<int64_t>(layout_.chunk_bytes / in) / size_ / kPieceUnit * kPieceUnit;
  DS_CHECK(piece > 0, "reduce_scatter: {} ranks are too many for staging buffers of {} bytes",
           size_, layout_.chunk_bytes);
  const auto length = [&](int r, int64_t c) {
    const auto i = to_size(r);
    return piece_length(bounds[i + 1] - bounds[i], c * piece, piece);
  };
  pipeline(
      divide_up(longest(bounds), piece),
      [&](int64_t c) {
        for (int r = 0; r < size_; ++r) {
          const auto from = to_size(nth(bounds, r) + c * piece);
          if (length(r, c) == 0) continue;
          std::memcpy(stage(rank_, c) + to_size(r * piece) * in, full + from * in,
                      to_size(length(r, c)) * in);
        }
      },
      [&](int64_t c) {
        const size_t mine = to_size(rank_ * piece) * in;
        for (int r = 0; r < size_; ++r) nth(sources_, r) = stage(r, c) + mine;
        std::byte* const target = shard + to_size(c * piece) * out;
        reduce_in_rank_order(types, sources_, {&target, 1}, length(rank_, c));
      });
}

// `bounds` in bytes; our own slice is in `full` already, and `shard` points to it.
void ShmComm::all_gather_staged(const std::byte* shard, std::byte* full,
                                std::span<const int64_t> bounds) {
  const auto piece = static_cast<int64_t>(layout_.chunk_bytes);
  const auto length = [&](int r, int64_t c) {
    const auto i = to_size(r);
    return to_size(piece_length(bounds[i + 1] - bounds[i], c * piece, piece));
  };
  pipeline(
      divide_up(longest(bounds), piece),
      [&](int64_t c) {
        if (length(rank_, c) != 0)
          std::memcpy(stage(rank_, c), shard + c * piece, length(rank_, c));
      },
      [&](int64_t c) {
        for (int i = 1; i < size_; ++i) {
          const int r = (rank_ + i) % size_;
          if (length(r, c) == 0) continue;
          std::memcpy(full + nth(bounds, r) + c * piece, stage(r, c), length(r, c));
        }
      });
}

void ShmComm::all_to_all_staged(const std::byte* in, std::byte* out, size_t slice_bytes) {
  const auto slice = static_cast<int64_t>(slice_bytes);
  const int64_t piece = static_cast<int64_t>(layout_.chunk_bytes) / size_ / kPieceUnit * kPieceUnit;
  DS_CHECK(piece > 0, "all_to_all: {} ranks are too many for staging buffers of {} bytes", size_,
           layout_.chunk_bytes);
  const auto length = [&](int64_t c) { return to_size(piece_length(slice, c * piece, piece)); };
  pipeline(
      divide_up(slice, piece),
      [&](int64_t c) {
        for (int r = 0; r < size_; ++r) {
          std::memcpy(stage(rank_, c) + r * piece, in + r * slice + c * piece, length(c));
        }
      },
      [&](int64_t c) {
        for (int r = 0; r < size_; ++r) {
          std::memcpy(out + r * slice + c * piece, stage(r, c) + rank_ * piece, length(c));
        }
      });
}

void ShmComm::broadcast_staged(std::byte* data, size_t bytes, int root) {
  const auto piece = static_cast<int64_t>(layout_.chunk_bytes);
  const auto length = [&](int64_t c) {
    return to_size(piece_length(static_cast<int64_t>(bytes), c * piece, piece));
  };
  pipeline(
      divide_up(static_cast<int64_t>(bytes), piece),
      [&](int64_t c) {
        if (rank_ == root) std::memcpy(stage(root, c), data + c * piece, length(c));
      },
      [&](int64_t c) {
        if (rank_ != root) std::memcpy(data + c * piece, stage(root, c), length(c));
      });
}

}  // namespace ds::detail
