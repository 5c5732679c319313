#include "comm/mpi/comm.h"

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <vector>

#include "comm/contract/collective_call.h"
#include "comm/contract/collective_checks.h"
#include "comm/contract/rank_order_reduce.h"
#include "comm/contract/slice_bounds.h"
#include "core/tasks/poll_pause.h"
#include "core/values/index.h"

namespace ds {
namespace {

using detail::CollectiveCall;
using detail::ReduceTypes;
using SteadyClock = std::chrono::steady_clock;

constexpr int kCallTag = 1, kDataTag = 2, kHeaderTag = 3, kPayloadTag = 4, kAbortTag = 5;
constexpr size_t kMessageBytes = size_t{256} << 20;  // MPI counts are int
constexpr size_t kSegmentBytes = size_t{64} << 20;   // of a reduction: bounds the scratch memory

void check_mpi(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw CommError(fmt::format("{}: {}", call, std::string_view(text, to_size(length))));
}
#define DS_MPI(call) check_mpi((call), #call)

// MPI's life, shared by all communicators of the process.
class MpiSession {
 public:
  MpiSession() {
    int initialized = 0;
    DS_MPI(MPI_Initialized(&initialized));
    int provided = MPI_THREAD_SINGLE;
    if (initialized == 0) {
      DS_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided));
      owned_ = true;
    } else {
      DS_MPI(MPI_Query_thread(&provided));
    }
    if (provided < MPI_THREAD_MULTIPLE) {
      throw Unsupported(
          "mpi: the library does not provide MPI_THREAD_MULTIPLE, which abort() needs");
    }
  }
  ~MpiSession() {
    // With lost messages MPI_Finalize would wait for ever.
    if (owned_ && !failed()) MPI_Finalize();
  }
  MpiSession(const MpiSession&) = delete;  // MPI is there once
  MpiSession& operator=(const MpiSession&) = delete;
  void mark_failed() noexcept { failed_.store(true); }
  // Also while an error of this rank alone unwinds it: its peers are in calls that it will not
  // make, and not in those that end MPI, which wait for all.
  bool failed() const { return failed_.load() || std::uncaught_exceptions() != 0; }

 private:
  bool owned_ = false;
  std::atomic<bool> failed_{false};
};

struct Piece {
  int peer;
  std::byte* data;
  size_t bytes;
};

std::byte* bytes_of(const Tensor& tensor) { return static_cast<std::byte*>(tensor.raw()); }

class MpiComm final : public Communicator {
 public:
  // Takes `data` over, and duplicates it for abort messages.
  MpiComm(std::shared_ptr<MpiSession> session, MPI_Comm data, const MpiOptions& options);
  ~MpiComm() override;
  MpiComm(const MpiComm&) = delete;  // owns MPI communicators
  MpiComm& operator=(const MpiComm&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  SumOrder sum_order() const override { return SumOrder::kRank; }
  void all_reduce(Tensor& inout, ReduceOp op, Stream& stream) override;
  void all_gather(const Tensor& shard, Tensor& full, Stream& stream) override;
  void reduce_scatter(const Tensor& full, Tensor& shard, ReduceOp op, Stream& stream) override;
  void all_to_all(const Tensor& in, Tensor& out, Stream& stream) override;
  void broadcast(Tensor& inout, int root, Stream& stream) override;
  void send(const Tensor& tensor, int to, Stream& stream) override;
  void recv(Tensor& tensor, int from, Stream& stream) override;
  void barrier() override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  void abort() noexcept override;
  MemoryResource& memory() override { return memory_; }

 private:
  struct Header {
    int64_t numel;
    int32_t dtype;
  };
  struct Outgoing {
    MPI_Request request;
    std::vector<std::byte> data;
  };

  CollectiveCall call_of(CommOp op, const Tensor& in) const;
  void agree(CollectiveCall call);
  void transfer(const std::vector<Piece>& sends, const std::vector<Piece>& receives, int tag);
  void wait(std::vector<MPI_Request>& requests, const std::vector<int>& peers);
  void check_state();
  void reclaim_sends();
  void post_send(int to, int tag, const void* data, size_t bytes);
  void reduce_slices(const std::byte* full, std::byte* shard, const ReduceTypes& types,
                     std::span<const int64_t> bounds);
  void gather_slices(std::byte* full, std::span<const int64_t> byte_bounds);
  [[noreturn]] void fail(const std::string& text);

  const std::shared_ptr<MpiSession> session_;
  const MpiOptions options_;
  MPI_Comm data_;
  MPI_Comm control_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  HostMemory memory_;
  uint64_t sequence_ = 0;
  CommOp op_ = CommOp::kBarrier;
  std::vector<std::byte> scratch_;
  std::deque<Outgoing> outgoing_;
  std::atomic<bool> aborted_{false};
  std::string failure_;
};

MpiComm::MpiComm(std::shared_ptr<MpiSession> session, MPI_Comm data, const MpiOptions& options)
    : session_(std::move(session)), options_(options), data_(data) {
  DS_MPI(MPI_Comm_set_errhandler(data_, MPI_ERRORS_RETURN));
  DS_MPI(MPI_Comm_dup(data_, &control_));
  DS_MPI(MPI_Comm_rank(data_, &rank_));
  DS_MPI(MPI_Comm_size(data_, &size_));
}

MpiComm::~MpiComm() {
  try {
    const auto begin = SteadyClock::now();
    while (!outgoing_.empty() && !session_->failed()) {
      check_state();
      reclaim_sends();
      pause(SteadyClock::now() - begin);
    }
  } catch (const Error&) {
    session_->mark_failed();
  }
  if (!session_->failed()) {
    MPI_Comm_free(&control_);
    MPI_Comm_free(&data_);
    return;
  }
  // MPI may still write to or read from these; they stay until the process ends.
  auto* const leaked = new std::pair(std::move(scratch_), std::move(outgoing_));
  (void)leaked;
}

void MpiComm::fail(const std::string& text) {
  failure_ = fmt::format("{} #{} on rank {}: {}", name_of(op_), sequence_, rank_, text);
  session_->mark_failed();
  throw CommError(failure_);
}

void MpiComm::check_state() {
  if (!failure_.empty()) {
    throw CommError(
        fmt::format("{} on rank {}: the group has failed: {}", name_of(op_), rank_, failure_));
  }
  if (aborted_.load(std::memory_order_relaxed)) {
    fail(fmt::format("the group has failed: rank {} called abort()", rank_));
  }
  int there = 0;
  MPI_Status status;
  DS_MPI(MPI_Iprobe(MPI_ANY_SOURCE, kAbortTag, control_, &there, &status));
  if (there != 0)
    fail(fmt::format("the group has failed: rank {} called abort()", status.MPI_SOURCE));
}

// Done when all requests are; the deadline starts anew whenever one of them comes through.
void MpiComm::wait(std::vector<MPI_Request>& requests, const std::vector<int>& peers) {
  constexpr int kPollsPerLook = 256;
  auto last_progress = SteadyClock::now();
  std::vector<int> done(requests.size());
  std::vector<bool> open(requests.size(), true);
  size_t left = requests.size();
  for (int poll = 1; left != 0; ++poll) {
    int count = 0;
    DS_MPI(MPI_Testsome(narrow<int>(requests.size()), requests.data(), &count, done.data(),
                        MPI_STATUSES_IGNORE));
    if (count == MPI_UNDEFINED) return;
    for (int i = 0; i < count; ++i) nth(open, nth(done, i)) = false;
    left -= to_size(count);
    if (poll % kPollsPerLook != 0 || left == 0) continue;
    const auto now = SteadyClock::now();
    if (count != 0) last_progress = now;
    check_state();
    if (now - last_progress >= options_.timeout) {
      std::string names;
      for (size_t i = 0; i < open.size(); ++i) {
        const std::string name = fmt::format("rank {}", peers[i]);
        if (open[i] && names.find(name) == std::string::npos)
          names += (names.empty() ? "" : ", ") + name;
      }
      fail(fmt::format("no answer within {:.1f} s from: {}",
                       static_cast<double>(options_.timeout.count()) / 1e3, names));
    }
    pause(now - last_progress);
  }
}

void MpiComm::transfer(const std::vector<Piece>& sends, const std::vector<Piece>& receives,
                       int tag) {
  std::vector<MPI_Request> requests;
  std::vector<int> peers;
  const auto post = [&](const Piece& piece, const auto& start) {
    for (size_t at = 0; at < piece.bytes; at += kMessageBytes) {
      const auto count = static_cast<int>(std::min(kMessageBytes, piece.bytes - at));
      start(piece.data + at, count, piece.peer, &requests.emplace_back());
      peers.push_back(piece.peer);
    }
  };
  for (const Piece& piece : receives) {
    post(piece, [&](std::byte* data, int count, int peer, MPI_Request* request) {
      DS_MPI(MPI_Irecv(data, count, MPI_BYTE, peer, tag, data_, request));
    });
  }
  for (const Piece& piece : sends) {
    post(piece, [&](const std::byte* data, int count, int peer, MPI_Request* request) {
      DS_MPI(MPI_Isend(data, count, MPI_BYTE, peer, tag, data_, request));
    });
  }
  wait(requests, peers);
}

CollectiveCall MpiComm::call_of(CommOp op, const Tensor& in) const {
  DS_CHECK(in.defined() && in.device().kind == Device::Kind::kCpu,
           "{}: the MPI communicator takes CPU tensors", name_of(op));
  CollectiveCall call;
  call.op = op;
  call.numel = in.numel();
  call.in = call.out = in.dtype();
  return call;
}

// Every rank tells every other what it calls. This is also the whole of a barrier.
void MpiComm::agree(CollectiveCall call) {
  call.sequence = ++sequence_;
  op_ = call.op;
  check_state();
  std::vector<CollectiveCall> calls(to_size(size_), call);
  std::vector<Piece> sends, receives;
  for (int i = 1; i < size_; ++i) {
    const int peer = (rank_ + i) % size_;
    sends.push_back({peer, reinterpret_cast<std::byte*>(&call), sizeof(call)});
    receives.push_back({peer, reinterpret_cast<std::byte*>(&nth(calls, peer)), sizeof(call)});
  }
  transfer(sends, receives, kCallTag);
  for (int peer = 0; peer < size_; ++peer) {
    const CollectiveCall& theirs = nth(calls, peer);
    if (theirs == call) continue;
    failure_ = fmt::format("{} on rank {}: {}", name_of(op_), rank_,
                           detail::disagreement(rank_, call, peer, theirs));
    throw CommError(failure_);  // no message is under way: MPI itself is sound
  }
}

void MpiComm::barrier() { agree({}); }

// Slice r of every rank's `full` comes to rank r, segment by segment, and is reduced there.
void MpiComm::reduce_slices(const std::byte* full, std::byte* shard, const ReduceTypes& types,
                            std::span<const int64_t> bounds) {
  const size_t in = size_of(types.in);
  const size_t out = size_of(types.out);
  const auto me = to_size(rank_);
  int64_t longest = 0;
  for (size_t r = 0; r + 1 < bounds.size(); ++r) {
    longest = std::max(longest, bounds[r + 1] - bounds[r]);
  }
  const int64_t piece =
      std::max<int64_t>(64, static_cast<int64_t>(kSegmentBytes / in) / size_ / 64 * 64);
  std::vector<const std::byte*> sources(to_size(size_));
  for (int64_t begin = 0; begin < longest; begin += piece) {
    const auto length = [&](size_t r) {
      return to_size(std::clamp<int64_t>(bounds[r + 1] - bounds[r] - begin, 0, piece));
    };
    const size_t mine = length(me);
    scratch_.resize(mine * in * to_size(size_));
    std::vector<Piece> sends, receives;
    for (size_t r = 0; r < to_size(size_); ++r) {
      const std::byte* const slice = full + to_size(bounds[r] + begin) * in;
      std::byte* const place = scratch_.data() + mine * in * r;
      sources[r] = r == me ? slice : place;
      if (r == me) continue;
      sends.push_back({static_cast<int>(r), const_cast<std::byte*>(slice), length(r) * in});
      receives.push_back({static_cast<int>(r), place, mine * in});
    }
    transfer(sends, receives, kDataTag);
    std::byte* const target = shard + to_size(begin) * out;
    detail::reduce_in_rank_order(types, sources, {&target, 1}, static_cast<int64_t>(mine));
  }
}

void MpiComm::gather_slices(std::byte* full, std::span<const int64_t> byte_bounds) {
  std::vector<Piece> sends, receives;
  const auto piece = [&](int peer, int owner) {
    const auto r = to_size(owner);
    return Piece{peer, full + byte_bounds[r], to_size(byte_bounds[r + 1] - byte_bounds[r])};
  };
  for (int i = 1; i < size_; ++i) {
    const int peer = (rank_ + i) % size_;
    sends.push_back(piece(peer, rank_));
    receives.push_back(piece(peer, peer));
  }
  transfer(sends, receives, kDataTag);
}

void MpiComm::all_reduce(Tensor& inout, ReduceOp op, Stream& /*stream*/) {
  CollectiveCall call = call_of(CommOp::kAllReduce, inout);
  call.reduce = op;
  agree(call);
  const ReduceTypes types{inout.dtype(), inout.dtype(), op};
  const size_t element = size_of(inout.dtype());
  std::vector<int64_t> bounds = detail::aligned_bounds(size_, inout.numel());
  std::byte* const data = bytes_of(inout);
  reduce_slices(data, data + to_size(nth(bounds, rank_)) * element, types, bounds);
  for (int64_t& bound : bounds) bound *= static_cast<int64_t>(element);
  gather_slices(data, bounds);
}

void MpiComm::reduce_scatter(const Tensor& full, Tensor& shard, ReduceOp op, Stream& /*stream*/) {
  detail::check_reduce_scatter(full, shard, size_);
  CollectiveCall call = call_of(CommOp::kReduceScatter, full);
  call.reduce = op;
  call.out = shard.dtype();
  agree(call);
  reduce_slices(bytes_of(full), bytes_of(shard), {full.dtype(), shard.dtype(), op},
                detail::equal_bounds(size_, shard.numel()));
}

void MpiComm::all_gather(const Tensor& shard, Tensor& full, Stream& /*stream*/) {
  detail::check_all_gather(shard, full, size_);
  CollectiveCall call = call_of(CommOp::kAllGather, shard);
  call.numel = full.numel();
  agree(call);
  std::byte* const own = bytes_of(full) + shard.bytes() * to_size(rank_);
  if (own != bytes_of(shard) && shard.bytes() != 0) {
    std::memcpy(own, bytes_of(shard), shard.bytes());
  }
  gather_slices(bytes_of(full), detail::equal_bounds(size_, static_cast<int64_t>(shard.bytes())));
}

void MpiComm::all_to_all(const Tensor& in, Tensor& out, Stream& /*stream*/) {
  detail::check_all_to_all(in, out, size_);
  agree(call_of(CommOp::kAllToAll, in));
  const size_t slice = in.bytes() / to_size(size_);
  std::vector<Piece> sends, receives;
  for (int r = 0; r < size_; ++r) {
    const size_t at = slice * to_size(r);
    if (r == rank_) {
      if (slice != 0) std::memcpy(bytes_of(out) + at, bytes_of(in) + at, slice);
      continue;
    }
    sends.push_back({r, bytes_of(in) + at, slice});
    receives.push_back({r, bytes_of(out) + at, slice});
  }
  transfer(sends, receives, kDataTag);
}

// Along a chain of pieces: rank after the root passes each on while it receives the next. The
// root's bytes leave it once, whatever the size of the group.
void MpiComm::broadcast(Tensor& inout, int root, Stream& /*stream*/) {
  detail::check_root(root, size_);
  CollectiveCall call = call_of(CommOp::kBroadcast, inout);
  call.root = root;
  agree(call);
  constexpr size_t kPiece = size_t{1} << 20;
  const int place = (rank_ - root + size_) % size_;
  const int before = (rank_ - 1 + size_) % size_;
  const int after = (rank_ + 1) % size_;
  const auto piece = [&](size_t at, int peer) {
    return Piece{peer, bytes_of(inout) + at, std::min(kPiece, inout.bytes() - at)};
  };
  std::vector<Piece> passing;  // received in the last round, sent on in this one
  for (size_t at = 0; at < inout.bytes() || !passing.empty(); at += kPiece) {
    std::vector<Piece> sends = std::move(passing);
    std::vector<Piece> receives;
    passing.clear();
    if (at < inout.bytes()) {
      if (place != 0) receives.push_back(piece(at, before));
      if (place == 0 && size_ > 1) sends.push_back(piece(at, after));
      if (place != 0 && place + 1 < size_) passing.push_back(piece(at, after));
    }
    transfer(sends, receives, kDataTag);
  }
}

void MpiComm::post_send(int to, int tag, const void* data, size_t bytes) {
  const auto* const from = static_cast<const std::byte*>(data);
  for (size_t at = 0; at < bytes; at += kMessageBytes) {
    const size_t count = std::min(kMessageBytes, bytes - at);
    Outgoing& message = outgoing_.emplace_back();
    message.data.assign(from + at, from + at + count);
    DS_MPI(MPI_Isend(message.data.data(), static_cast<int>(count), MPI_BYTE, to, tag, data_,
                     &message.request));
  }
}

void MpiComm::reclaim_sends() {
  while (!outgoing_.empty()) {
    int done = 0;
    DS_MPI(MPI_Test(&outgoing_.front().request, &done, MPI_STATUS_IGNORE));
    if (done == 0) return;
    outgoing_.pop_front();
  }
}

void MpiComm::send(const Tensor& tensor, int to, Stream& /*stream*/) {
  detail::check_peer("send", rank_, to, size_);
  op_ = CommOp::kSend;
  check_state();
  reclaim_sends();
  const Header header{tensor.numel(), static_cast<int32_t>(tensor.dtype())};
  post_send(to, kHeaderTag, &header, sizeof(header));
  post_send(to, kPayloadTag, tensor.raw(), tensor.bytes());
}

void MpiComm::recv(Tensor& tensor, int from, Stream& /*stream*/) {
  detail::check_peer("recv", rank_, from, size_);
  op_ = CommOp::kRecv;
  check_state();
  Header header{};
  transfer({}, {{from, reinterpret_cast<std::byte*>(&header), sizeof(header)}}, kHeaderTag);
  if (header.numel != tensor.numel() || header.dtype != static_cast<int32_t>(tensor.dtype())) {
    fail(fmt::format("the ranks disagree: rank {} sent {} x {}, rank {} expects {} x {}", from,
                     name_of(static_cast<DType>(header.dtype)), header.numel, rank_,
                     name_of(tensor.dtype()), tensor.numel()));
  }
  transfer({}, {{from, bytes_of(tensor), tensor.bytes()}}, kPayloadTag);
}

std::unique_ptr<Communicator> MpiComm::split(int color, int key) {
  CollectiveCall call;
  call.op = CommOp::kSplit;
  agree(call);
  // MPI_Comm_split wants colours of 0 and more, and orders by key, then rank, as we do. Everybody
  // has come, so this blocks no longer than MPI's own messages take.
  DS_CHECK(color >= 0, "split: color {}, expected 0 or more", color);
  MPI_Comm group = MPI_COMM_NULL;
  DS_MPI(MPI_Comm_split(data_, color, key, &group));
  return std::make_unique<MpiComm>(session_, group, options_);
}

void MpiComm::abort() noexcept {
  if (aborted_.exchange(true)) return;
  session_->mark_failed();
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    // An empty message is in MPI's hands at once, so nobody needs to wait for the request.
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Isend(nullptr, 0, MPI_BYTE, peer, kAbortTag, control_, &request) == MPI_SUCCESS) {
      MPI_Request_free(&request);
    }
  }
}

}  // namespace

bool built_with_mpi() { return true; }

std::string mpi_library() {
  std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int length = 0;
  DS_MPI(MPI_Get_library_version(text.data(), &length));  // allowed before MPI_Init
  text.resize(to_size(length));
  return text.substr(0, text.find(','));
}

bool mpi_takes_cuda_memory() {
#ifdef MPIX_CUDA_AWARE_SUPPORT
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

std::unique_ptr<Communicator> open_mpi_world(const MpiOptions& options) {
  auto session = std::make_shared<MpiSession>();
  MPI_Comm world = MPI_COMM_NULL;
  DS_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0, options.place, &world));
  return std::make_unique<MpiComm>(std::move(session), world, options);
}

}  // namespace ds
