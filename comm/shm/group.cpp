// The calls themselves: check what this rank was given, meet the peers, pick the path.
#include "comm/shm/group.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "comm/contract/collective_checks.h"
#include "core/values/index.h"

namespace ds::detail {
namespace {

// On a host with fewer cores than ranks, a spinning rank keeps its peer from running.
int spins_for(int world_size) {
  constexpr int kSpins = 3000;  // about 100 microseconds
  return world_size <= sysconf(_SC_NPROCESSORS_ONLN) ? kSpins : 0;
}

void check_on_host(CommOp op, const Tensor& tensor) {
  DS_CHECK(tensor.defined() && tensor.device().kind == Device::Kind::kCpu,
           "{}: the shared-memory communicator takes CPU tensors, got {}", name_of(op),
           tensor.defined() ? tensor.device().to_string() : std::string("an undefined one"));
}

std::byte* bytes_of(const Tensor& tensor) { return static_cast<std::byte*>(tensor.raw()); }

void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (to != from && bytes != 0) std::memcpy(to, from, bytes);
}

}  // namespace

class ShmComm::Scope {
 public:
  Scope(ShmComm& comm, CommOp op) : comm_(comm) {
    comm_.check_failure();
    ++comm_.sequence_;
    comm_.op_ = op;
    publish(1);
  }
  ~Scope() { publish(0); }
  Scope(const Scope&) = delete;  // marks one call
  Scope& operator=(const Scope&) = delete;

 private:
  void publish(uint64_t inside) {
    comm_.slot(comm_.rank_)
        .doing.store(comm_.sequence_ << 8 | static_cast<uint64_t>(comm_.op_) << 1 | inside,
                     std::memory_order_relaxed);
  }
  ShmComm& comm_;
};

ShmComm::ShmComm(Group group)
    : world_(std::move(group.world)),
      region_(std::move(group.region)),
      members_(std::move(group.members)),
      rank_(group.rank),
      size_(narrow<int>(members_.size())),
      options_(group.options),
      layout_(size_),
      base_(region_->base()),
      spins_(spins_for(world_->size())),
      token_(std::make_shared<AbortToken>()),
      calls_(members_.size()),
      sources_(members_.size()),
      outbox_(members_.size()),
      sent_(members_.size()),
      received_(members_.size()) {
  token_->parent = std::move(group.parent);
}

ShmComm::~ShmComm() {
  drain_outboxes();
  slot(rank_).left.store(1, std::memory_order_release);
  wake_all(slot(rank_).phase);
  for (int peer = 0; peer < size_; ++peer) {
    wake_all(layout_.mailbox(base_, rank_, peer).sent);
    wake_all(layout_.mailbox(base_, peer, rank_).received);
  }
}

Call ShmComm::describe_call(CommOp op, const Tensor& in, int64_t numel) const {
  check_on_host(op, in);
  Call call;
  call.sequence = sequence_;
  call.op = op;
  call.numel = numel;
  call.in = call.out = in.dtype();
  return call;
}

void ShmComm::locate_input(Call& call, const Tensor& in) const {
  if (options_.path == ShmOptions::Path::kStaged) return;
  const std::optional<uint64_t> location = world_->locate(bytes_of(in), in.bytes());
  call.visible = location.has_value();
  call.location = location.value_or(0);
}

void ShmComm::exchange(const Call& call) {
  ++exchanges_;
  slot(rank_).calls[exchanges_ & 1] = call;
  signal();
  await_peers();
  for (int r = 0; r < size_; ++r) {
    nth(calls_, r) = slot(r).calls[exchanges_ & 1];
    check_agreement(r);
  }
}

void ShmComm::signal() { raise(slot(rank_).phase, ++phase_); }

void ShmComm::await_peers() {
  for (int i = 1; i < size_; ++i) {
    const int peer = (rank_ + i) % size_;
    await(slot(peer).phase, phase_, peer, Lagging::kAllRanks);
  }
}

bool ShmComm::all_visible() const {
  return std::all_of(calls_.begin(), calls_.end(), [](const Call& c) { return c.visible; });
}

std::byte* ShmComm::input_of(int rank, size_t bytes) const {
  const auto r = to_size(rank);
  return world_->resolve(members_[r], calls_[r].location, bytes);
}

void ShmComm::barrier() {
  const Scope scope(*this, CommOp::kBarrier);
  Call call;
  call.sequence = sequence_;
  exchange(call);
}

void ShmComm::all_reduce(Tensor& inout, ReduceOp op, Stream& stream) {
  const Scope scope(*this, CommOp::kAllReduce);
  Call call = describe_call(CommOp::kAllReduce, inout, inout.numel());
  call.reduce = op;
  const ReduceTypes types{inout.dtype(), inout.dtype(), op};
  if (inout.bytes() <= kInlineBytes) {
    copy_bytes(next_inline_data(), bytes_of(inout), inout.bytes());
    exchange(call);
    for (int r = 0; r < size_; ++r) nth(sources_, r) = inline_data(r);
    std::byte* const target = bytes_of(inout);
    reduce_in_rank_order(types, sources_, {&target, 1}, inout.numel());
    return;
  }
  locate_input(call, inout);
  exchange(call);
  if (all_visible()) {
    reduce_direct(inout, types, stream);
  } else {
    reduce_staged(inout, types);
  }
}

void ShmComm::reduce_scatter(const Tensor& full, Tensor& shard, ReduceOp op, Stream& stream) {
  check_reduce_scatter(full, shard, size_);
  const Scope scope(*this, CommOp::kReduceScatter);
  check_on_host(CommOp::kReduceScatter, shard);
  Call call = describe_call(CommOp::kReduceScatter, full, full.numel());
  call.reduce = op;
  call.out = shard.dtype();
  const ReduceTypes types{full.dtype(), shard.dtype(), op};
  const size_t slice_bytes = to_size(shard.numel()) * size_of(full.dtype());
  const bool small = full.bytes() <= kInlineBytes;
  if (small) {
    copy_bytes(next_inline_data(), bytes_of(full), full.bytes());
  } else {
    locate_input(call, full);
  }
  exchange(call);
  if (!small && !all_visible()) {
    const auto bounds = equal_bounds(size_, shard.numel());
    reduce_scatter_staged(bytes_of(full), bytes_of(shard), types, bounds);
    return;
  }
  for (int r = 0; r < size_; ++r) {
    const std::byte* const input = small ? inline_data(r) : input_of(r, full.bytes());
    nth(sources_, r) = input + slice_bytes * to_size(rank_);
  }
  std::byte* const target = bytes_of(shard);
  reduce_on_pool(types, sources_, {&target, 1}, shard.numel(), stream);
  if (small) return;
  signal();  // peers may write their inputs again once all have read them
  await_peers();
}

void ShmComm::all_gather(const Tensor& shard, Tensor& full, Stream& /*stream*/) {
  check_all_gather(shard, full, size_);
  const Scope scope(*this, CommOp::kAllGather);
  check_on_host(CommOp::kAllGather, full);
  Call call = describe_call(CommOp::kAllGather, shard, full.numel());
  const size_t bytes = shard.bytes();
  const auto slice_of = [&](int r) { return bytes_of(full) + bytes * to_size(r); };
  if (bytes <= kInlineBytes) {
    copy_bytes(next_inline_data(), bytes_of(shard), bytes);
    exchange(call);
    for (int r = 0; r < size_; ++r) copy_bytes(slice_of(r), inline_data(r), bytes);
    return;
  }
  locate_input(call, shard);
  copy_bytes(slice_of(rank_), bytes_of(shard), bytes);
  if (!call.visible) locate_input(call, full.narrow(rank_ * shard.numel(), shard.numel()));
  exchange(call);
  if (!all_visible()) {
    all_gather_staged(slice_of(rank_), bytes_of(full),
                      equal_bounds(size_, static_cast<int64_t>(bytes)));
    return;
  }
  for (int i = 1; i < size_; ++i) {
    const int peer = (rank_ + i) % size_;
    copy_bytes(slice_of(peer), input_of(peer, bytes), bytes);
  }
  signal();
  await_peers();
}

void ShmComm::all_to_all(const Tensor& in, Tensor& out, Stream& /*stream*/) {
  check_all_to_all(in, out, size_);
  const Scope scope(*this, CommOp::kAllToAll);
  check_on_host(CommOp::kAllToAll, out);
  Call call = describe_call(CommOp::kAllToAll, in, in.numel());
  const size_t slice = in.bytes() / to_size(size_);
  const bool small = in.bytes() <= kInlineBytes;
  if (small) {
    copy_bytes(next_inline_data(), bytes_of(in), in.bytes());
  } else {
    locate_input(call, in);
  }
  exchange(call);
  if (!small && !all_visible()) {
    all_to_all_staged(bytes_of(in), bytes_of(out), slice);
    return;
  }
  for (int i = 0; i < size_; ++i) {
    const int peer = (rank_ + i) % size_;
    const std::byte* const input = small ? inline_data(peer) : input_of(peer, in.bytes());
    copy_bytes(bytes_of(out) + slice * to_size(peer), input + slice * to_size(rank_), slice);
  }
  if (small) return;
  signal();
  await_peers();
}

void ShmComm::broadcast(Tensor& inout, int root, Stream& /*stream*/) {
  check_root(root, size_);
  const Scope scope(*this, CommOp::kBroadcast);
  Call call = describe_call(CommOp::kBroadcast, inout, inout.numel());
  call.root = root;
  const size_t bytes = inout.bytes();
  const bool small = bytes <= kInlineBytes;
  if (small && rank_ == root) copy_bytes(next_inline_data(), bytes_of(inout), bytes);
  if (!small && rank_ == root) locate_input(call, inout);
  exchange(call);
  if (small) {
    if (rank_ != root) copy_bytes(bytes_of(inout), inline_data(root), bytes);
    return;
  }
  if (!nth(calls_, root).visible) {
    broadcast_staged(bytes_of(inout), bytes, root);
    return;
  }
  if (rank_ != root) copy_bytes(bytes_of(inout), input_of(root, bytes), bytes);
  signal();
  await_peers();
}

std::unique_ptr<Communicator> ShmComm::split(int color, int key) {
  const Scope scope(*this, CommOp::kSplit);
  struct Wish {
    int color, key, rank;
  };
  struct Offer {
    uint64_t ticket;
  };
  Call call;
  call.sequence = sequence_;
  call.op = CommOp::kSplit;
  const Wish mine{color, key, rank_};
  std::memcpy(next_inline_data(), &mine, sizeof(mine));
  exchange(call);
  std::vector<Wish> group;
  for (int r = 0; r < size_; ++r) {
    Wish wish{};
    std::memcpy(&wish, inline_data(r), sizeof(wish));
    if (wish.color == color) group.push_back(wish);
  }
  std::stable_sort(group.begin(), group.end(),
                   [](const Wish& a, const Wish& b) { return a.key < b.key; });

  Group next{world_, nullptr, {}, 0, options_, token_};
  for (const Wish& wish : group) {
    if (wish.rank == rank_) next.rank = narrow<int>(next.members.size());
    next.members.push_back(nth(members_, wish.rank));
  }
  const ShmLayout layout(narrow<int>(group.size()));
  const int leader = group.front().rank;
  // The leader makes the region and holds it until all have opened it.
  ++sequence_;
  call.sequence = sequence_;
  if (leader == rank_) {
    Offer offer{};
    next.region = world_->create_region(layout.bytes, offer.ticket);
    std::memcpy(next_inline_data(), &offer, sizeof(offer));
  }
  exchange(call);
  if (leader != rank_) {
    Offer offer{};
    std::memcpy(&offer, inline_data(leader), sizeof(offer));
    next.region = world_->open_region(next.members.front(), offer.ticket, layout.bytes);
  }
  signal();
  await_peers();
  return std::make_unique<ShmComm>(std::move(next));
}

void ShmComm::abort() noexcept {
  token_->aborted.store(true, std::memory_order_relaxed);
  try {
    publish_failure(fmt::format("{} called abort()", world_->describe(nth(members_, rank_))));
  } catch (...) {
    publish_failure("a rank called abort()");
  }
}

}  // namespace ds::detail
