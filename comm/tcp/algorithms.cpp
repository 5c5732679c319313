// How the data move: straight from the one who has them to the one who needs them, so that every
// byte crosses the network once. Reductions work on pieces: while one is added up, the next
// arrives, and the sums of the last are on their way. Sums are made where all inputs meet, in rank
// order.
#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>

#include "comm/contract/slice_bounds.h"
#include "comm/tcp/group.h"
#include "core/memory/rounding.h"
#include "core/values/index.h"

namespace ds::detail {
namespace {

constexpr size_t kPieceBytes = size_t{512}
                               << 10;  // per peer: small enough for caches, large for calls
constexpr int64_t kPieceUnit = 64;

// Every rank's slice cut into pieces of equal length; the last ones may be shorter or empty.
class Pieces {
 public:
  Pieces(std::span<const int64_t> bounds, size_t element_bytes, int64_t numel)
      : bounds_(bounds), element_bytes_(element_bytes), numel_(numel) {
    for (size_t r = 0; r + 1 < bounds.size(); ++r) {
      count_ = std::max(count_, divide_up(bounds[r + 1] - bounds[r], numel));
    }
  }

  int64_t count() const { return count_; }
  int64_t length(int rank, int64_t piece) const {
    const auto r = to_size(rank);
    return std::clamp<int64_t>(bounds_[r + 1] - bounds_[r] - piece * numel_, 0, numel_);
  }
  size_t bytes(int rank, int64_t piece) const {
    return to_size(length(rank, piece)) * element_bytes_;
  }
  size_t offset(int rank, int64_t piece) const {
    return to_size(nth(bounds_, rank) + piece * numel_) * element_bytes_;
  }

 private:
  const std::span<const int64_t> bounds_;
  const size_t element_bytes_;
  const int64_t numel_;
  int64_t count_ = 0;
};

}  // namespace

void TcpComm::reduce_whole(std::byte* data, const ReduceTypes& types, int64_t numel,
                           Stream& stream) {
  const size_t bytes = to_size(numel) * size_of(types.in);
  scratch_.resize(std::max(scratch_.size(), bytes * to_size(size_)));
  TcpBatch batch(*wire_, *state_);
  for_each_peer([&](int peer) {
    std::byte* const place = scratch_.data() + bytes * to_size(peer);
    nth(sources_, peer) = place;
    post_receive(batch, peer, place, bytes);
    post_send(batch, peer, data, bytes);
  });
  nth(sources_, rank_) = data;
  wait(batch);
  reduce_on_pool(types, sources_, {&data, 1}, numel, stream);
}

void TcpComm::reduce_slices(const std::byte* full, std::byte* shard, std::byte* gathered,
                            const ReduceTypes& types, std::span<const int64_t> bounds,
                            Stream& stream) {
  const auto piece_numel =
      static_cast<int64_t>(kPieceBytes / size_of(types.in)) / kPieceUnit * kPieceUnit;
  const Pieces pieces(bounds, size_of(types.in), piece_numel);
  const size_t stride = to_size(piece_numel) * size_of(types.in);
  const auto ranks = to_size(size_);
  if (size_ > 1 && pieces.count() > 0)
    scratch_.resize(std::max(scratch_.size(), 2 * ranks * stride));
  const auto place = [&](int peer, int64_t piece) {
    const size_t half = (piece & 1) == 0 ? 0 : ranks;
    return scratch_.data() + (half + to_size(peer)) * stride;
  };
  // Peers read our messages in the order of posting: piece by piece, sums one piece behind.
  std::optional<TcpBatch> scatter[2];
  const auto post = [&](int64_t piece) {
    TcpBatch& batch = scatter[piece & 1].emplace(*wire_, *state_);
    for_each_peer([&](int peer) {
      post_receive(batch, peer, place(peer, piece), pieces.bytes(rank_, piece));
      post_send(batch, peer, full + pieces.offset(peer, piece), pieces.bytes(peer, piece));
    });
  };
  TcpBatch gather(*wire_, *state_);
  if (pieces.count() > 0) post(0);
  for (int64_t piece = 0; piece < pieces.count(); ++piece) {
    if (piece + 1 < pieces.count()) post(piece + 1);
    wait(*scatter[piece & 1]);
    for_each_peer([&](int peer) { nth(sources_, peer) = place(peer, piece); });
    nth(sources_, rank_) = full + pieces.offset(rank_, piece);
    std::byte* const target = shard + to_size(piece * piece_numel) * size_of(types.out);
    reduce_on_pool(types, sources_, {&target, 1}, pieces.length(rank_, piece), stream);
    if (gathered == nullptr) continue;
    for_each_peer([&](int peer) {
      post_receive(gather, peer, gathered + pieces.offset(peer, piece), pieces.bytes(peer, piece));
      post_send(gather, peer, target, pieces.bytes(rank_, piece));
    });
  }
  wait(gather);
}

void TcpComm::gather_slices(const std::byte* shard, std::byte* full, size_t slice_bytes) {
  TcpBatch batch(*wire_, *state_);
  for_each_peer([&](int peer) {
    post_receive(batch, peer, full + slice_bytes * to_size(peer), slice_bytes);
    post_send(batch, peer, shard, slice_bytes);
  });
  std::byte* const own = full + slice_bytes * to_size(rank_);
  if (own != shard && slice_bytes != 0) std::memcpy(own, shard, slice_bytes);
  wait(batch);
}

void TcpComm::broadcast_whole(std::byte* data, size_t bytes, int root) {
  TcpBatch batch(*wire_, *state_);
  if (rank_ == root) {
    for_each_peer([&](int peer) { post_send(batch, peer, data, bytes); });
  } else {
    post_receive(batch, root, data, bytes);
  }
  wait(batch);
}

// The root gives every rank its slice, and each passes its own on to the others: the root's bytes
// leave it once (and its own slice to everybody), whatever the size of the group. Piece by piece,
// so that all links work at once. `bounds` in bytes.
void TcpComm::broadcast_slices(std::byte* data, std::span<const int64_t> bounds, int root) {
  const Pieces pieces(bounds, 1, static_cast<int64_t>(kPieceBytes));
  TcpBatch others(*wire_, *state_);
  std::deque<TcpBatch> own;  // by piece
  for (int64_t piece = 0; piece < pieces.count(); ++piece) {
    TcpBatch& mine = own.emplace_back(*wire_, *state_);
    for_each_peer([&](int peer) {
      std::byte* const theirs = data + pieces.offset(peer, piece);
      std::byte* const roots = data + pieces.offset(root, piece);
      if (rank_ == root) {
        post_send(others, peer, theirs, pieces.bytes(peer, piece));
        post_send(others, peer, roots, pieces.bytes(root, piece));
      } else if (peer == root) {
        post_receive(mine, root, data + pieces.offset(rank_, piece), pieces.bytes(rank_, piece));
        post_receive(others, root, roots, pieces.bytes(root, piece));
      } else {
        post_receive(others, peer, theirs, pieces.bytes(peer, piece));
      }
    });
  }
  for (int64_t piece = 0; rank_ != root && piece < pieces.count(); ++piece) {
    wait(nth(own, piece));
    for_each_peer([&](int peer) {
      if (peer == root) return;
      post_send(others, peer, data + pieces.offset(rank_, piece), pieces.bytes(rank_, piece));
    });
  }
  wait(others);
}

}  // namespace ds::detail
