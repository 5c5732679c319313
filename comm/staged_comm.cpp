#include "comm/staged_comm.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "comm/contract/collective_checks.h"
#include "comm/contract/operation.h"
#include "core/cuda/memory.h"
#include "core/memory/rounding.h"
#include "core/memory/slab.h"
#include "core/values/index.h"

namespace ds {
namespace detail {

// Elements [begin, begin + numel) of every slice, which lie in a chunk one after the other.
struct StagedPiece {
  int64_t begin = 0;
  int64_t numel = 0;
  std::byte* at = nullptr;
};

// A call of any size, as what has to be done for each piece of it.
struct StagedCall {
  using Step = std::function<void(const StagedPiece&)>;

  CommOp op;
  Stream& stream;
  int64_t numel = 0;  // of each slice
  int64_t pieces = 1;
  Step load = {};   // gives the stream its copies to the chunk; empty where nothing is read
  Step exchange;    // on the host
  Step store = {};  // gives the stream its copies from the chunk; empty where nothing is written

  // Nearly equal ones, so that ranks whose sizes differ disagree about the size of one.
  StagedPiece piece(int64_t index, std::byte* at) const {
    const int64_t each = numel / pieces;
    const int64_t longer = numel % pieces;  // that many, the first ones
    return {.begin = index * each + std::min(index, longer),
            .numel = each + (index < longer ? 1 : 0),
            .at = at};
  }
};

}  // namespace detail

namespace {

using detail::StagedCall;
using detail::StagedPiece;

constexpr MemoryTag kTag = MemoryTag::kBuckets;

Communicator& existing(const std::unique_ptr<Communicator>& group) {
  DS_CHECK(group != nullptr, "staged communicator: nothing to stage for");
  return *group;
}

// Returns where a second region of a chunk begins behind the first.
size_t aligned(size_t bytes) { return round_up(bytes, kMemoryAlignment); }

size_t chunk_bytes_of(const StagedOptions& options, int ranks) {
  DS_CHECK(options.memory != nullptr, "staged communicator: no memory of the device given");
  const size_t chunk = options.pinned_bytes / 2 / kSlabAlignment * kSlabAlignment;
  // One element of the largest dtype from and for each rank, in two regions.
  const size_t least = aligned(2 * to_size(ranks) * sizeof(double)) + kMemoryAlignment;
  DS_CHECK(chunk >= least,
           "staged communicator: {} bytes of pinned memory, expected at least {} for {} ranks",
           options.pinned_bytes, 2 * slab_bytes(least), ranks);
  return chunk;
}

bool is_for_host(const Stream& stream) { return stream.device().kind != Device::Kind::kCuda; }

void require_on_device(CommOp op, const Tensor& tensor, const Stream& stream) {
  DS_CHECK(tensor.defined(), "{}: the tensor is undefined", name_of(op));
  DS_CHECK(tensor.device() == stream.device(), "{}: the tensor is on {}, the stream of {}",
           name_of(op), tensor.device().to_string(), stream.device().to_string());
}

void require_not_recorded(CommOp op, const Stream& stream) {
  if (!stream.is_recorded()) return;
  throw InternalError(
      fmt::format("graph: {}: the group goes through memory of the host, whose part in it cannot "
                  "be recorded; end the graph before the call and begin another one after it",
                  name_of(op)));
}

Tensor in_chunk(std::byte* at, int64_t numel, DType dtype) {
  return Tensor::borrow(at, {numel}, dtype);
}

// A row of equal slices on the device. Where a piece is all of a slice, the row is copied at once.
class Slices {
 public:
  Slices(const Tensor& tensor, int count)
      : data_(static_cast<std::byte*>(tensor.address())),
        count_(count),
        element_(size_of(tensor.dtype())),
        slice_bytes_(tensor.bytes() / to_size(count)) {}

  void load(const StagedPiece& piece, std::byte* to, Stream& stream) const {
    each(piece, to,
         [&](std::byte* here, std::byte* there, size_t bytes) { stream.copy(here, there, bytes); });
  }
  void store(const StagedPiece& piece, const std::byte* from, Stream& stream) const {
    each(piece, from, [&](std::byte* here, const std::byte* there, size_t bytes) {
      stream.copy(there, here, bytes);
    });
  }

 private:
  template <class Byte, class Copy>
  void each(const StagedPiece& piece, Byte* chunk, const Copy& copy) const {
    const size_t bytes = to_size(piece.numel) * element_;
    if (bytes == slice_bytes_) return copy(data_, chunk, to_size(count_) * bytes);
    std::byte* at = data_ + to_size(piece.begin) * element_;
    for (int i = 0; i < count_; ++i, at += slice_bytes_, chunk += bytes) copy(at, chunk, bytes);
  }

  std::byte* data_;
  int count_;
  size_t element_;
  size_t slice_bytes_;
};

// What each rank says before a call of several pieces.
struct Announced {
  int64_t numel = 0;
  int64_t pieces = 0;
  bool operator==(const Announced&) const = default;
};

Tensor as_tensor(Announced& first, size_t count) {
  return Tensor::borrow(&first, {narrow<int64_t>(count * sizeof(Announced))}, DType::kU8);
}

}  // namespace

StagedComm::StagedComm(std::unique_ptr<Communicator> inner, const StagedOptions& options)
    : StagedComm(existing(inner), options) {
  own_ = std::move(inner);
}

StagedComm::StagedComm(Communicator& inner, const StagedOptions& options)
    : inner_(inner),
      options_(options),
      chunk_bytes_(chunk_bytes_of(options, inner.size())),
      pinned_(make_pinned_memory(chunks_.size() * chunk_bytes_)),
      host_({.device = Device::cpu(), .memory = &heap_, .pool = options.pool}) {
  for (Chunk& chunk : chunks_) {
    chunk.data = static_cast<std::byte*>(pinned_->allocate(chunk_bytes_, kTag));
  }
}

StagedComm::~StagedComm() {
  for (const Chunk& chunk : chunks_) {
    try {
      chunk.last_use.wait_on_host();
    } catch (...) {  // the device failed, which its stream tells whoever waits for it
    }
    pinned_->deallocate(chunk.data, chunk_bytes_, kTag);
  }
}

int64_t StagedComm::pieces_of(int64_t numel, size_t bytes_of_each) const {
  const auto most = narrow<int64_t>((chunk_bytes_ - kMemoryAlignment) / bytes_of_each);
  return std::max<int64_t>(1, numel / most + (numel % most == 0 ? 0 : 1));
}

void StagedComm::load(const StagedCall& call, int64_t index) {
  Chunk& chunk = nth(chunks_, index % std::ssize(chunks_));
  call.stream.wait(chunk.last_use);  // of another stream, perhaps
  call.load(call.piece(index, chunk.data));
  chunk.last_use = call.stream.mark();
}

void StagedComm::by_pieces(const StagedCall& call) {
  require_not_recorded(call.op, call.stream);
  if (call.load) load(call, 0);
  const bool is_message = call.op == CommOp::kSend || call.op == CommOp::kRecv;
  if (call.pieces > 1 && !is_message) require_equal_pieces(call);
  for (int64_t index = 0; index < call.pieces; ++index) {
    if (call.load && index + 1 < call.pieces) load(call, index + 1);
    Chunk& chunk = nth(chunks_, index % std::ssize(chunks_));
    const StagedPiece piece = call.piece(index, chunk.data);
    chunk.last_use.wait_on_host();
    call.exchange(piece);
    if (!call.store) continue;
    call.store(piece);
    chunk.last_use = call.stream.mark();
  }
}

// The inner group compares pieces, and two calls of one piece look like one of two. A rank whose
// call is a single piece does not come here, and is told by the inner group that the calls differ.
void StagedComm::require_equal_pieces(const StagedCall& call) {
  Announced mine{.numel = call.numel, .pieces = call.pieces};
  std::vector<Announced> all(to_size(size()));
  Tensor everybodys = as_tensor(all.front(), all.size());
  inner_.all_gather(as_tensor(mine, 1), everybodys, host_);
  const auto other = std::ranges::find_if(all, [&](const Announced& a) { return a != mine; });
  if (other == all.end()) return;
  inner_.abort();
  throw CommError(fmt::format(
      "the ranks disagree: rank {} calls {} with {} elements in {} pieces, rank {} with {} in {}; "
      "expected equal sizes, and as much pinned memory on each",
      rank(), name_of(call.op), mine.numel, mine.pieces, other - all.begin(), other->numel,
      other->pieces));
}

void StagedComm::all_reduce(Tensor& inout, ReduceOp op, Stream& stream) {
  if (is_for_host(stream)) return inner_.all_reduce(inout, op, stream);
  require_on_device(CommOp::kAllReduce, inout, stream);
  const Slices whole(inout, 1);
  by_pieces({.op = CommOp::kAllReduce,
             .stream = stream,
             .numel = inout.numel(),
             .pieces = pieces_of(inout.numel(), size_of(inout.dtype())),
             .load = [&](const StagedPiece& piece) { whole.load(piece, piece.at, stream); },
             .exchange =
                 [&](const StagedPiece& piece) {
                   Tensor part = in_chunk(piece.at, piece.numel, inout.dtype());
                   inner_.all_reduce(part, op, host_);
                 },
             .store = [&](const StagedPiece& piece) { whole.store(piece, piece.at, stream); }});
}

// In place in the chunk: a rank's own piece lies where the others expect it.
void StagedComm::all_gather(const Tensor& shard, Tensor& full, Stream& stream) {
  if (is_for_host(stream)) return inner_.all_gather(shard, full, stream);
  require_on_device(CommOp::kAllGather, shard, stream);
  require_on_device(CommOp::kAllGather, full, stream);
  detail::check_all_gather(shard, full, size());
  const size_t element = size_of(shard.dtype());
  const Slices mine(shard, 1);
  const Slices all(full, size());
  by_pieces({.op = CommOp::kAllGather,
             .stream = stream,
             .numel = shard.numel(),
             .pieces = pieces_of(shard.numel(), to_size(size()) * element),
             .load =
                 [&](const StagedPiece& piece) {
                   const size_t before = to_size(rank() * piece.numel) * element;
                   mine.load(piece, piece.at + before, stream);
                 },
             .exchange =
                 [&](const StagedPiece& piece) {
                   Tensor whole = in_chunk(piece.at, size() * piece.numel, full.dtype());
                   const Tensor own = whole.narrow(rank() * piece.numel, piece.numel);
                   inner_.all_gather(own, whole, host_);
                 },
             .store = [&](const StagedPiece& piece) { all.store(piece, piece.at, stream); }});
}

void StagedComm::reduce_scatter(const Tensor& full, Tensor& shard, ReduceOp op, Stream& stream) {
  if (is_for_host(stream)) return inner_.reduce_scatter(full, shard, op, stream);
  require_on_device(CommOp::kReduceScatter, full, stream);
  require_on_device(CommOp::kReduceScatter, shard, stream);
  detail::check_reduce_scatter(full, shard, size());
  const size_t row = to_size(size()) * size_of(full.dtype());  // of one element of each slice
  const auto result = [&](const StagedPiece& piece) {
    return piece.at + aligned(to_size(piece.numel) * row);
  };
  const Slices all(full, size());
  const Slices mine(shard, 1);
  by_pieces({.op = CommOp::kReduceScatter,
             .stream = stream,
             .numel = shard.numel(),
             .pieces = pieces_of(shard.numel(), row + size_of(shard.dtype())),
             .load = [&](const StagedPiece& piece) { all.load(piece, piece.at, stream); },
             .exchange =
                 [&](const StagedPiece& piece) {
                   const Tensor whole = in_chunk(piece.at, size() * piece.numel, full.dtype());
                   Tensor own = in_chunk(result(piece), piece.numel, shard.dtype());
                   inner_.reduce_scatter(whole, own, op, host_);
                 },
             .store = [&](const StagedPiece& piece) { mine.store(piece, result(piece), stream); }});
}

void StagedComm::all_to_all(const Tensor& in, Tensor& out, Stream& stream) {
  if (is_for_host(stream)) return inner_.all_to_all(in, out, stream);
  require_on_device(CommOp::kAllToAll, in, stream);
  require_on_device(CommOp::kAllToAll, out, stream);
  detail::check_all_to_all(in, out, size());
  const size_t row = to_size(size()) * size_of(in.dtype());
  const auto result = [&](const StagedPiece& piece) {
    return piece.at + aligned(to_size(piece.numel) * row);
  };
  const Slices from(in, size());
  const Slices to(out, size());
  const int64_t slice = in.numel() / size();
  by_pieces({.op = CommOp::kAllToAll,
             .stream = stream,
             .numel = slice,
             .pieces = pieces_of(slice, 2 * row),
             .load = [&](const StagedPiece& piece) { from.load(piece, piece.at, stream); },
             .exchange =
                 [&](const StagedPiece& piece) {
                   const Tensor mine = in_chunk(piece.at, size() * piece.numel, in.dtype());
                   Tensor theirs = in_chunk(result(piece), size() * piece.numel, out.dtype());
                   inner_.all_to_all(mine, theirs, host_);
                 },
             .store = [&](const StagedPiece& piece) { to.store(piece, result(piece), stream); }});
}

void StagedComm::broadcast(Tensor& inout, int root, Stream& stream) {
  if (is_for_host(stream)) return inner_.broadcast(inout, root, stream);
  require_on_device(CommOp::kBroadcast, inout, stream);
  detail::check_root(root, size());
  const Slices whole(inout, 1);
  StagedCall call{.op = CommOp::kBroadcast,
                  .stream = stream,
                  .numel = inout.numel(),
                  .pieces = pieces_of(inout.numel(), size_of(inout.dtype())),
                  .exchange = [&](const StagedPiece& piece) {
                    Tensor part = in_chunk(piece.at, piece.numel, inout.dtype());
                    inner_.broadcast(part, root, host_);
                  }};
  if (rank() == root) {
    call.load = [&](const StagedPiece& piece) { whole.load(piece, piece.at, stream); };
  } else {
    call.store = [&](const StagedPiece& piece) { whole.store(piece, piece.at, stream); };
  }
  by_pieces(call);
}

// A message stays one message, because a sender may count on how many of them the inner group takes
// before their receivers come: what is longer than a chunk lies on the heap meanwhile.
void StagedComm::send(const Tensor& tensor, int to, Stream& stream) {
  if (is_for_host(stream)) return inner_.send(tensor, to, stream);
  require_on_device(CommOp::kSend, tensor, stream);
  detail::check_peer("send", rank(), to, size());
  const Slices whole(tensor, 1);
  StagedCall call{.op = CommOp::kSend,
                  .stream = stream,
                  .numel = tensor.numel(),
                  .pieces = pieces_of(tensor.numel(), size_of(tensor.dtype())),
                  .load = [&](const StagedPiece& piece) { whole.load(piece, piece.at, stream); },
                  .exchange =
                      [&](const StagedPiece& piece) {
                        inner_.send(in_chunk(piece.at, piece.numel, tensor.dtype()), to, host_);
                      }};
  if (call.pieces == 1) return by_pieces(call);
  const Tensor message = Tensor::empty({tensor.numel()}, tensor.dtype(), host_, kTag);
  call.exchange = [&](const StagedPiece& piece) {
    const Tensor part = message.narrow(piece.begin, piece.numel);
    std::memcpy(part.raw(), piece.at, part.bytes());
  };
  by_pieces(call);
  inner_.send(message, to, host_);
}

void StagedComm::recv(Tensor& tensor, int from, Stream& stream) {
  if (is_for_host(stream)) return inner_.recv(tensor, from, stream);
  require_on_device(CommOp::kRecv, tensor, stream);
  detail::check_peer("recv", rank(), from, size());
  const Slices whole(tensor, 1);
  StagedCall call{.op = CommOp::kRecv,
                  .stream = stream,
                  .numel = tensor.numel(),
                  .pieces = pieces_of(tensor.numel(), size_of(tensor.dtype())),
                  .exchange =
                      [&](const StagedPiece& piece) {
                        Tensor part = in_chunk(piece.at, piece.numel, tensor.dtype());
                        inner_.recv(part, from, host_);
                      },
                  .store = [&](const StagedPiece& piece) { whole.store(piece, piece.at, stream); }};
  if (call.pieces == 1) return by_pieces(call);
  require_not_recorded(CommOp::kRecv, stream);
  Tensor message = Tensor::empty({tensor.numel()}, tensor.dtype(), host_, kTag);
  inner_.recv(message, from, host_);
  call.exchange = [&](const StagedPiece& piece) {
    const Tensor part = message.narrow(piece.begin, piece.numel);
    std::memcpy(piece.at, part.raw(), part.bytes());
  };
  by_pieces(call);
}

std::unique_ptr<Communicator> StagedComm::split(int color, int key) {
  return std::make_unique<StagedComm>(inner_.split(color, key), options_);
}

}  // namespace ds
