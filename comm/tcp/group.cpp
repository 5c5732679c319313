// The calls themselves: check what this rank was given, tell the peers what is called, wait for
// them, and say what went wrong.
#include "comm/tcp/group.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "comm/contract/collective_checks.h"
#include "comm/contract/slice_bounds.h"
#include "comm/tcp/rendezvous.h"
#include "core/values/index.h"

namespace ds::detail {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr uint64_t kMessagesUnderWay = 16;        // sends that one receiver has not taken yet
constexpr size_t kSmallBytes = size_t{64} << 10;  // up to here one round beats less traffic

std::byte* bytes_of(const Tensor& tensor) { return static_cast<std::byte*>(tensor.raw()); }

void check_on_host(CommOp op, const Tensor& tensor) {
  DS_CHECK(tensor.defined() && tensor.device().kind == Device::Kind::kCpu,
           "{}: the TCP communicator takes CPU tensors, got {}", name_of(op),
           tensor.defined() ? tensor.device().to_string() : std::string("an undefined one"));
}

// Returns a group's id by its parent and the split that made it: any two groups of a world differ
// in their ids but for a chance of 2^-64 (the finaliser of MurmurHash3).
uint64_t id_of_split(uint64_t parent, uint64_t sequence) {
  uint64_t x = parent * 0x9e3779b97f4a7c15ULL + sequence;
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

Frame data_frame(uint64_t sequence, size_t bytes) {
  Frame frame;
  frame.sequence = sequence;
  frame.bytes = bytes;
  return frame;
}

Frame message_frame(const Tensor& tensor) {
  Frame frame;
  frame.kind = FrameKind::kMessage;
  frame.dtype = tensor.dtype();
  frame.numel = tensor.numel();
  frame.bytes = tensor.bytes();
  return frame;
}

}  // namespace

// A StallWatch belongs to one wait: once a second it looks whether the connections carry anything,
// the first time with something to carry. Short waits cost nothing.
class TcpComm::StallWatch {
 public:
  StallWatch(TcpWire& wire, const TcpGroupState& group)
      : wire_(wire), group_(group), next_(SteadyClock::now() + kTurn) {}

  void look() {
    const auto now = SteadyClock::now();
    if (now < next_) return;
    if (!std::exchange(probed_, true)) wire_.probe(group_);
    wire_.feel_pulses();
    next_ = now + kTurn;
  }
  SteadyClock::time_point next() const { return next_; }

 private:
  static constexpr std::chrono::seconds kTurn{1};
  TcpWire& wire_;
  const TcpGroupState& group_;
  SteadyClock::time_point next_;
  bool probed_ = false;
};

class TcpComm::Call {
 public:
  Call(TcpComm& comm, CollectiveCall call)
      : comm_(comm),
        entry_(comm, *this, call.op),
        mine_(call),
        theirs_(to_size(comm.size_)),
        compared_(to_size(comm.size_)),
        messages_(*comm.wire_, *comm.state_) {
    mine_.sequence = comm_.sequence_;
    const Frame frame = data_frame(mine_.sequence, sizeof(CollectiveCall));
    tickets_.resize(theirs_.size());
    comm_.for_each_peer([&](int peer) {
      const auto p = to_size(peer);
      tickets_[p] = &messages_.receive(peer, TcpStream::kCollective, frame,
                                       reinterpret_cast<std::byte*>(&theirs_[p]));
      messages_.send(peer, frame, reinterpret_cast<const std::byte*>(&mine_));
    });
  }
  Call(const Call&) = delete;  // the wire knows its members' addresses
  Call& operator=(const Call&) = delete;

  // Compares what has come since the last time. Under the wire's lock.
  void compare() {
    for (int peer = 0; peer < comm_.size_; ++peer) {
      const auto p = to_size(peer);
      if (peer == comm_.rank_ || compared_[p] || !tickets_[p]->done) continue;
      comm_.check_message(*tickets_[p]);
      if (theirs_[p] != mine_) {
        comm_.fail(disagreement(comm_.rank_, mine_, peer, theirs_[p]));
      }
      compared_[p] = true;
    }
  }
  TcpBatch& messages() { return messages_; }

 private:
  // From the first to the last moment of the call the group knows it, also when making it fails.
  class Entry {
   public:
    Entry(TcpComm& comm, Call& call, CommOp op) : comm_(comm) {
      const auto held = comm.wire_->lock();
      comm.op_ = op;
      if (++comm.sequence_ >= comm.state_->failed_from) comm.check_failure();
      comm.call_ = &call;
    }
    ~Entry() {
      const auto held = comm_.wire_->lock();
      comm_.call_ = nullptr;
    }
    Entry(const Entry&) = delete;  // marks one call
    Entry& operator=(const Entry&) = delete;

   private:
    TcpComm& comm_;
  };

  TcpComm& comm_;
  const Entry entry_;
  CollectiveCall mine_;
  std::vector<CollectiveCall> theirs_;
  std::vector<bool> compared_;
  std::vector<const ReceiveTicket*> tickets_;
  TcpBatch messages_;  // last: it refers to the others
};

TcpComm::TcpComm(Group group)
    : wire_(group.wire),
      state_([&] {
        const auto held = group.wire->lock();
        return group.wire->make_group(group.id, group.members, group.rank, group.parent);
      }()),
      rank_(group.rank),
      size_(narrow<int>(group.members.size())),
      sources_(group.members.size()) {}

TcpComm::~TcpComm() {
  const auto held = wire_->lock();
  wire_->leave_group(*state_);
}

void TcpComm::fail(const std::string& text) {
  const std::string message =
      fmt::format("{} #{} on rank {}: {}", name_of(op_), sequence_, rank_, text);
  wire_->fail_group(*state_, message, first_unfinished());
  throw CommError(message);
}

void TcpComm::check_failure() const {
  if (state_->failure.empty() || (call_ != nullptr && sequence_ < state_->failed_from)) return;
  throw CommError(fmt::format("{} #{} on rank {}: the group has failed: {}", name_of(op_),
                              sequence_, rank_, state_->failure));
}

uint64_t TcpComm::first_unfinished() const { return call_ != nullptr ? sequence_ : sequence_ + 1; }

// Only those who are awaited: the others have given what we need of them. A death is the better
// explanation than the leaving of those who noticed it before us.
void TcpComm::check_gone(const std::vector<int>& awaited) {
  std::string left;
  for (const int member : awaited) {
    const std::optional<std::string> reason = wire_->gone(*state_, member);
    if (!reason) continue;
    const std::string text = fmt::format("rank {} {}", member, *reason);
    if (reason->starts_with("died")) fail(text);
    if (left.empty()) left = text;
  }
  if (!left.empty()) fail(left);
}

void TcpComm::check_message(const ReceiveTicket& ticket) {
  if (!ticket.wrong) return;
  if (ticket.frame.kind == FrameKind::kMessage) {
    fail(fmt::format("the ranks disagree: rank {} sent {} x {}, rank {} expects {} x {}",
                     ticket.peer, name_of(ticket.other.dtype), ticket.other.numel, rank_,
                     name_of(ticket.frame.dtype), ticket.frame.numel));
  }
  fail(fmt::format(
      "the ranks disagree: rank {} sent {} bytes in its call #{}, rank {} expects {} bytes "
      "in call #{}",
      ticket.peer, ticket.other.bytes, ticket.other.sequence, rank_, ticket.frame.bytes,
      ticket.frame.sequence));
}

uint64_t TcpComm::bytes_moved(const std::vector<int>& members) const {
  return std::accumulate(
      members.begin(), members.end(), uint64_t{0},
      [&](uint64_t sum, int member) { return sum + wire_->bytes_moved(*state_, member); });
}

void TcpComm::fail_silent(const std::vector<int>& awaited) {
  std::string names;
  for (const int r : awaited) names += fmt::format("{}rank {}", names.empty() ? "" : ", ", r);
  fail(fmt::format("no answer within {:.1f} s from: {}",
                   static_cast<double>(wire_->timeout().count()) / 1e3, names));
}

// The deadline starts anew as long as bytes move to or from those who are awaited.
template <class Done, class Awaited>
void TcpComm::await(const Done& done, const Awaited& awaited) {
  auto held = wire_->lock();
  auto deadline = SteadyClock::now() + wire_->timeout();
  StallWatch stall(*wire_, *state_);
  std::optional<uint64_t> moved;
  while (true) {
    wire_->flush();
    if (done()) return;
    check_failure();
    const std::vector<int> late = awaited();
    stall.look();
    check_gone(late);
    if (!moved) moved = bytes_moved(late);
    if (SteadyClock::now() >= deadline) {
      const uint64_t now_moved = bytes_moved(late);
      if (now_moved == *moved) fail_silent(late);
      moved = now_moved;
      deadline = SteadyClock::now() + wire_->timeout();
    }
    wire_->progress(held, std::min(deadline, stall.next()));
  }
}

void TcpComm::wait(TcpBatch& batch) {
  await(
      [&] {
        if (call_ != nullptr) call_->compare();
        if (const ReceiveTicket* wrong = batch.wrong()) check_message(*wrong);
        return batch.done() && (call_ == nullptr || call_->messages().done());
      },
      [&] {
        std::vector<int> members = batch.awaited();
        if (call_ != nullptr) {
          for (const int member : call_->messages().awaited()) {
            const bool known = std::find(members.begin(), members.end(), member) != members.end();
            if (!known) members.push_back(member);
          }
        }
        return members;
      });
}

void TcpComm::post_send(TcpBatch& batch, int to, const std::byte* data, size_t bytes) const {
  if (bytes != 0) batch.send(to, data_frame(sequence_, bytes), data);
}

void TcpComm::post_receive(TcpBatch& batch, int from, std::byte* data, size_t bytes) const {
  if (bytes != 0) batch.receive(from, TcpStream::kCollective, data_frame(sequence_, bytes), data);
}

CollectiveCall TcpComm::describe_call(CommOp op, const Tensor& in) const {
  check_on_host(op, in);
  CollectiveCall call;
  call.op = op;
  call.numel = in.numel();
  call.in = call.out = in.dtype();
  return call;
}

void TcpComm::barrier() {
  Call call(*this, {});
  wait(call.messages());
}

void TcpComm::all_reduce(Tensor& inout, ReduceOp op, Stream& stream) {
  CollectiveCall described = describe_call(CommOp::kAllReduce, inout);
  described.reduce = op;
  const Call call(*this, described);
  const ReduceTypes types{inout.dtype(), inout.dtype(), op};
  std::byte* const data = bytes_of(inout);
  if (inout.bytes() * to_size(size_) <= kSmallBytes) {
    reduce_whole(data, types, inout.numel(), stream);
    return;
  }
  const std::vector<int64_t> bounds = aligned_bounds(size_, inout.numel());
  const auto first = to_size(nth(bounds, rank_));
  reduce_slices(data, data + first * size_of(types.in), data, types, bounds, stream);
}

void TcpComm::reduce_scatter(const Tensor& full, Tensor& shard, ReduceOp op, Stream& stream) {
  check_reduce_scatter(full, shard, size_);
  check_on_host(CommOp::kReduceScatter, shard);
  CollectiveCall described = describe_call(CommOp::kReduceScatter, full);
  described.reduce = op;
  described.out = shard.dtype();
  const Call call(*this, described);
  reduce_slices(bytes_of(full), bytes_of(shard), nullptr, {full.dtype(), shard.dtype(), op},
                equal_bounds(size_, shard.numel()), stream);
}

void TcpComm::all_gather(const Tensor& shard, Tensor& full, Stream& /*stream*/) {
  check_all_gather(shard, full, size_);
  check_on_host(CommOp::kAllGather, full);
  CollectiveCall described = describe_call(CommOp::kAllGather, shard);
  described.numel = full.numel();
  const Call call(*this, described);
  gather_slices(bytes_of(shard), bytes_of(full), shard.bytes());
}

void TcpComm::all_to_all(const Tensor& in, Tensor& out, Stream& /*stream*/) {
  check_all_to_all(in, out, size_);
  check_on_host(CommOp::kAllToAll, out);
  const Call call(*this, describe_call(CommOp::kAllToAll, in));
  const size_t slice = in.bytes() / to_size(size_);
  TcpBatch batch(*wire_, *state_);
  for_each_peer([&](int peer) {
    const size_t at = slice * to_size(peer);
    post_receive(batch, peer, bytes_of(out) + at, slice);
    post_send(batch, peer, bytes_of(in) + at, slice);
  });
  const size_t own = slice * to_size(rank_);
  if (slice != 0 && bytes_of(out) != bytes_of(in)) {
    std::memcpy(bytes_of(out) + own, bytes_of(in) + own, slice);
  }
  wait(batch);
}

void TcpComm::broadcast(Tensor& inout, int root, Stream& /*stream*/) {
  check_root(root, size_);
  CollectiveCall described = describe_call(CommOp::kBroadcast, inout);
  described.root = root;
  const Call call(*this, described);
  if (inout.bytes() <= kSmallBytes || size_ == 2) {
    broadcast_whole(bytes_of(inout), inout.bytes(), root);
  } else {
    broadcast_slices(bytes_of(inout), aligned_bounds(size_, static_cast<int64_t>(inout.bytes())),
                     root);
  }
}

void TcpComm::begin_point_to_point(CommOp op, const Tensor& tensor) {
  check_on_host(op, tensor);
  const auto held = wire_->lock();
  op_ = op;
  check_failure();
}

void TcpComm::send(const Tensor& tensor, int to, Stream& /*stream*/) {
  check_peer("send", rank_, to, size_);
  begin_point_to_point(CommOp::kSend, tensor);
  TcpGroupState::Peer& peer = state_->peer(to);
  await([&] { return peer.messages_sent - peer.messages_taken < kMessagesUnderWay; },
        [&] { return std::vector<int>{to}; });
  const auto held = wire_->lock();
  ++peer.messages_sent;
  wire_->send_copy(*state_, to, message_frame(tensor), bytes_of(tensor));
  wire_->flush();
}

void TcpComm::recv(Tensor& tensor, int from, Stream& /*stream*/) {
  check_peer("recv", rank_, from, size_);
  begin_point_to_point(CommOp::kRecv, tensor);
  {
    TcpBatch batch(*wire_, *state_);
    batch.receive(from, TcpStream::kMessages, message_frame(tensor), bytes_of(tensor));
    wait(batch);
  }
  Frame taken;
  taken.kind = FrameKind::kTaken;
  const auto held = wire_->lock();
  wire_->send_copy(*state_, from, taken, nullptr);
  wire_->flush();
}

std::unique_ptr<Communicator> TcpComm::split(int color, int key) {
  struct Place {
    int32_t color, key;
  };
  CollectiveCall described;
  described.op = CommOp::kSplit;
  Call call(*this, described);
  std::vector<Place> places(to_size(size_));
  nth(places, rank_) = {color, key};
  auto* const bytes = reinterpret_cast<std::byte*>(places.data());
  gather_slices(bytes + sizeof(Place) * to_size(rank_), bytes, sizeof(Place));
  std::vector<int> chosen;  // ranks of this group
  for (int r = 0; r < size_; ++r) {
    if (nth(places, r).color == color) chosen.push_back(r);
  }
  std::stable_sort(chosen.begin(), chosen.end(),
                   [&](int a, int b) { return nth(places, a).key < nth(places, b).key; });
  Group group{wire_, id_of_split(state_->id, sequence_), {}, 0, state_};
  for (const int r : chosen) {
    if (r == rank_) group.rank = narrow<int>(group.members.size());
    group.members.push_back(nth(state_->members, r));
  }
  return std::make_unique<TcpComm>(std::move(group));
}

void TcpComm::check() {
  auto held = wire_->lock();
  wire_->progress(held, TcpWire::TimePoint::clock::now());  // what has arrived already
  if (state_->failure.empty()) return;
  throw CommError(fmt::format("rank {}: the group has failed: {}", rank_, state_->failure));
}

void TcpComm::abort() noexcept {
  try {
    const auto held = wire_->lock();
    wire_->fail_group(*state_, fmt::format("rank {} called abort()", rank_), first_unfinished());
  } catch (const std::exception&) {
    // Out of memory: the peers will notice when this process ends.
  }
}

}  // namespace ds::detail

namespace ds {
namespace {

constexpr size_t kSecretBytes = 32;

void check_world(const TcpListener& listener, const TcpWorld& world) {
  DS_CHECK(world.size > 0 && world.rank >= 0 && world.rank < world.size,
           "open_tcp_group: rank {} of {}", world.rank, world.size);
  DS_CHECK(world.endpoints.size() == to_size(world.size),
           "open_tcp_group: {} endpoints for {} ranks", world.endpoints.size(), world.size);
  DS_CHECK(world.secret.size() == kSecretBytes, "open_tcp_group: a secret of {} bytes, expected {}",
           world.secret.size(), kSecretBytes);
  for (int r = 0; r < world.size; ++r) {
    if (nth(world.endpoints, r).empty()) {
      throw CommError(
          fmt::format("open_tcp_group: rank {} listens nowhere for data, others do", r));
    }
  }
  DS_CHECK(listener.listening(), "open_tcp_group: the listener of rank {} does not listen",
           world.rank);
}

}  // namespace

std::unique_ptr<Communicator> open_tcp_group(TcpListener listener, const TcpWorld& world,
                                             const TcpOptions& options) {
  check_world(listener, world);
  auto wire = std::make_shared<detail::TcpWire>(
      detail::meet_peers(std::move(listener), world, options), options.timeout, options.board);
  std::vector<int> members(to_size(world.size));
  std::iota(members.begin(), members.end(), 0);
  auto comm = std::make_unique<detail::TcpComm>(
      detail::TcpComm::Group{std::move(wire), 1, std::move(members), world.rank, nullptr});
  comm->barrier();  // who returns knows that all have met
  return comm;
}

}  // namespace ds
