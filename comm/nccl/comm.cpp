#include "comm/nccl/comm.h"

#include <algorithm>
#include <vector>

#include "comm/contract/collective_call.h"
#include "comm/contract/collective_checks.h"
#include "comm/contract/host_exchange.h"
#include "comm/nccl/watch.h"
#include "core/cuda/library_calls.h"
#include "core/libraries/gpu_libraries.h"
#include "kernels/elementwise/elementwise.h"

namespace ds {
namespace detail {
namespace {

NcclType nccl_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return NcclType::kFloat32;
    case DType::kBF16:
      return NcclType::kBfloat16;
    case DType::kF16:
      return NcclType::kFloat16;
    case DType::kF64:
      return NcclType::kFloat64;
    case DType::kI32:
      return NcclType::kInt32;
    case DType::kI64:
      return NcclType::kInt64;
    case DType::kU8:
      return NcclType::kUint8;
    case DType::kI8:
      return NcclType::kInt8;
  }
  throw InternalError("NCCL: no such dtype");
}

NcclReduce nccl_reduce(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return NcclReduce::kSum;
    case ReduceOp::kAverage:
      return NcclReduce::kAverage;
    case ReduceOp::kMin:
      return NcclReduce::kMin;
    case ReduceOp::kMax:
      return NcclReduce::kMax;
    case ReduceOp::kProduct:
      return NcclReduce::kProduct;
  }
  throw InternalError("NCCL: no such reduction");
}

void* at(const Tensor& tensor, int64_t element) {
  return static_cast<std::byte*>(tensor.address()) + to_size(element) * size_of(tensor.dtype());
}

NcclConfig does_not_block() {
  NcclConfig config;
  config.blocking = 0;
  return config;
}

}  // namespace

class NcclComm final : public Communicator {
 public:
  NcclComm(const Nccl& nccl, NcclOptions options, std::shared_ptr<NcclEnd> end,
           std::shared_ptr<NcclWatch> watch);
  ~NcclComm() override;
  NcclComm(const NcclComm&) = delete;  // one end per rank
  NcclComm& operator=(const NcclComm&) = delete;

  int rank() const override { return end_->hosts().rank(); }
  int size() const override { return end_->hosts().size(); }
  SumOrder sum_order() const override { return SumOrder::kAny; }
  void all_reduce(Tensor& inout, ReduceOp op, Stream& stream) override;
  void all_gather(const Tensor& shard, Tensor& full, Stream& stream) override;
  void reduce_scatter(const Tensor& full, Tensor& shard, ReduceOp op, Stream& stream) override;
  void all_to_all(const Tensor& in, Tensor& out, Stream& stream) override;
  void broadcast(Tensor& inout, int root, Stream& stream) override;
  void send(const Tensor& tensor, int to, Stream& stream) override;
  void recv(Tensor& tensor, int from, Stream& stream) override;
  void exchange(const Exchange& messages, Stream& stream,
                const std::function<void()>& meanwhile) override;
  void barrier() override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  void check() override { end_->check(); }
  bool is_recordable() const override { return true; }
  void follow_replay(Stream& stream, Event begin) override {
    end_->follow("a replay of recorded calls", stream, std::move(begin), stream.mark());
  }
  void abort() noexcept override;
  MemoryResource& memory() override { return *options_.memory; }

 private:
  CollectiveCall describe_call(CommOp op, const Tensor& in, const Tensor& out,
                               const Stream& stream) const;
  // Gives the call to NCCL, and to the watchdog what it looks after; nothing where it moves
  // nothing.
  void give(CollectiveCall call, Stream& stream, const NcclEnd::Call& to_nccl);
  void sum_in_fp32(const Tensor& full, Tensor& shard, ReduceOp op, Stream& stream);
  void swap_slices(const Tensor& full, const Tensor& pieces, int64_t begin, Stream& stream);
  Tensor scratch(Stream& stream);

  const Nccl& nccl_;
  const NcclOptions options_;
  const std::shared_ptr<NcclEnd> end_;
  const std::shared_ptr<NcclWatch> watch_;
  void* registered_ = nullptr;  // NCCL's handle of options_.block
  uint64_t sequence_ = 0;
  Tensor scratch_;
  Event scratch_used_;
};

NcclComm::NcclComm(const Nccl& nccl, NcclOptions options, std::shared_ptr<NcclEnd> end,
                   std::shared_ptr<NcclWatch> watch)
    : nccl_(nccl), options_(options), end_(std::move(end)), watch_(std::move(watch)) {
  const NcclOptions::Block& block = options_.block;
  if (block.bytes > 0) {
    end_->call("registration of memory", [&](NcclHandle* handle) {
      return nccl_.ncclCommRegister(handle, block.data, block.bytes, &registered_);
    });
  }
  watch_->add(*end_);
}

NcclComm::~NcclComm() {
  watch_->remove(*end_);
  try {
    if (registered_ != nullptr) {
      end_->call("registration of memory, its end",
                 [&](NcclHandle* handle) { return nccl_.ncclCommDeregister(handle, registered_); });
    }
  } catch (const CommError&) {
    // It ended with the group.
  }
  end_->close();
}

CollectiveCall NcclComm::describe_call(CommOp op, const Tensor& in, const Tensor& out,
                                       const Stream& stream) const {
  for (const Tensor* const tensor : {&in, &out}) {
    DS_CHECK(tensor->defined() && tensor->device() == options_.device,
             "{}: NCCL moves what lies on {}, this tensor is {}; what hosts say to each other goes "
             "over their own communicator",
             name_of(op), options_.device.to_string(),
             tensor->defined() ? "on " + tensor->device().to_string() : "undefined");
  }
  DS_CHECK(stream.device() == options_.device, "{}: NCCL works on streams of {}, this is one of {}",
           name_of(op), options_.device.to_string(), stream.device().to_string());
  return {.numel = in.numel(), .op = op, .in = in.dtype(), .out = out.dtype()};
}

void NcclComm::give(CollectiveCall call, Stream& stream, const NcclEnd::Call& to_nccl) {
  call.sequence = ++sequence_;
  end_->check();
  if (call.numel == 0) return;
  const std::string what = describe(call);
  if (stream.is_recorded()) return end_->call(what, to_nccl);
  Event begin = stream.mark();
  end_->call(what, to_nccl);
  end_->follow(what, stream, std::move(begin), stream.mark());
}

void NcclComm::all_reduce(Tensor& inout, ReduceOp op, Stream& stream) {
  CollectiveCall call = describe_call(CommOp::kAllReduce, inout, inout, stream);
  call.reduce = op;
  give(call, stream, [&](NcclHandle* handle) {
    return nccl_.ncclAllReduce(inout.address(), inout.address(), to_size(inout.numel()),
                               nccl_type(inout.dtype()), nccl_reduce(op), handle,
                               stream.queue().native());
  });
}

void NcclComm::all_gather(const Tensor& shard, Tensor& full, Stream& stream) {
  check_all_gather(shard, full, size());
  CollectiveCall call = describe_call(CommOp::kAllGather, shard, full, stream);
  call.numel = full.numel();
  give(call, stream, [&](NcclHandle* handle) {
    return nccl_.ncclAllGather(shard.address(), full.address(), to_size(shard.numel()),
                               nccl_type(shard.dtype()), handle, stream.queue().native());
  });
}

void NcclComm::reduce_scatter(const Tensor& full, Tensor& shard, ReduceOp op, Stream& stream) {
  check_reduce_scatter(full, shard, size());
  CollectiveCall call = describe_call(CommOp::kReduceScatter, full, shard, stream);
  if (full.dtype() != shard.dtype()) return sum_in_fp32(full, shard, op, stream);
  call.reduce = op;
  give(call, stream, [&](NcclHandle* handle) {
    return nccl_.ncclReduceScatter(full.address(), shard.address(), to_size(shard.numel()),
                                   nccl_type(full.dtype()), nccl_reduce(op), handle,
                                   stream.queue().native());
  });
}

Tensor NcclComm::scratch(Stream& stream) {
  if (!scratch_.defined()) {
    const MemoryScope scope(stream, *options_.memory);
    scratch_ = Tensor::empty({narrow<int64_t>(options_.scratch_bytes)}, DType::kU8, stream,
                             MemoryTag::kScratch);
  }
  return scratch_;
}

// A piece of every slice at a time: everybody gives each rank the piece of that rank's slice, and
// adds up what it is given.
void NcclComm::sum_in_fp32(const Tensor& full, Tensor& shard, ReduceOp op, Stream& stream) {
  if (op != ReduceOp::kSum && op != ReduceOp::kAverage) {
    throw Unsupported(
        fmt::format("reduce_scatter: NCCL makes no {} of {} in {}; set data_types.grad_accum_dtype "
                    "to the type of the gradients",
                    name_of(op), name_of(full.dtype()), name_of(shard.dtype())));
  }
  const Tensor room = scratch(stream).reinterpret(full.dtype());
  const int64_t most = room.numel() / size();
  DS_CHECK(most > 0, "NCCL: {} bytes of scratch for {} ranks", options_.scratch_bytes, size());
  if (!stream.is_recorded()) stream.wait(scratch_used_);
  for (int64_t begin = 0; begin < shard.numel(); begin += most) {
    const int64_t numel = std::min(most, shard.numel() - begin);
    const Tensor pieces = room.narrow(0, numel * size());
    swap_slices(full, pieces, begin, stream);
    Tensor sum = shard.narrow(begin, numel);
    for (int from = 0; from < size(); ++from) {
      const Tensor piece = from == rank() ? full.narrow(from * shard.numel() + begin, numel)
                                          : pieces.narrow(from * numel, numel);
      from == 0 ? kernels::cast(stream, piece, sum) : kernels::accumulate(stream, piece, sum);
    }
    if (op == ReduceOp::kAverage) kernels::scale(stream, 1.0F / static_cast<float>(size()), sum);
  }
  if (!stream.is_recorded()) scratch_used_ = stream.mark();
}

// From `begin` on, as much of every slice of `full` as a slice of `pieces` has.
void NcclComm::swap_slices(const Tensor& full, const Tensor& pieces, int64_t begin,
                           Stream& stream) {
  if (size() == 1) return;
  const int64_t numel = pieces.numel() / size();
  const int64_t slice = full.numel() / size();
  CollectiveCall call = describe_call(CommOp::kReduceScatter, full, pieces, stream);
  call.out = DType::kF32;
  give(call, stream, [&](NcclHandle* handle) {
    const NcclType type = nccl_type(full.dtype());
    NcclResult result = nccl_.ncclGroupStart();
    for (int peer = 0; peer < size() && result == NcclResult::kSuccess; ++peer) {
      if (peer == rank()) continue;
      result = nccl_.ncclSend(at(full, peer * slice + begin), to_size(numel), type, peer, handle,
                              stream.queue().native());
      if (result != NcclResult::kSuccess) break;
      result = nccl_.ncclRecv(at(pieces, peer * numel), to_size(numel), type, peer, handle,
                              stream.queue().native());
    }
    const NcclResult end = nccl_.ncclGroupEnd();
    return result == NcclResult::kSuccess ? end : result;
  });
}

void NcclComm::all_to_all(const Tensor& in, Tensor& out, Stream& stream) {
  check_all_to_all(in, out, size());
  const CollectiveCall call = describe_call(CommOp::kAllToAll, in, out, stream);
  const int64_t slice = in.numel() / size();
  give(call, stream, [&](NcclHandle* handle) {
    const NcclType type = nccl_type(in.dtype());
    NcclResult result = nccl_.ncclGroupStart();
    for (int peer = 0; peer < size() && result == NcclResult::kSuccess; ++peer) {
      result = nccl_.ncclSend(at(in, peer * slice), to_size(slice), type, peer, handle,
                              stream.queue().native());
      if (result != NcclResult::kSuccess) break;
      result = nccl_.ncclRecv(at(out, peer * slice), to_size(slice), type, peer, handle,
                              stream.queue().native());
    }
    const NcclResult end = nccl_.ncclGroupEnd();
    return result == NcclResult::kSuccess ? end : result;
  });
}

void NcclComm::broadcast(Tensor& inout, int root, Stream& stream) {
  check_root(root, size());
  CollectiveCall call = describe_call(CommOp::kBroadcast, inout, inout, stream);
  call.root = root;
  give(call, stream, [&](NcclHandle* handle) {
    return nccl_.ncclBroadcast(inout.address(), inout.address(), to_size(inout.numel()),
                               nccl_type(inout.dtype()), root, handle, stream.queue().native());
  });
}

void NcclComm::send(const Tensor& tensor, int to, Stream& stream) {
  check_peer("send", rank(), to, size());
  CollectiveCall call = describe_call(CommOp::kSend, tensor, tensor, stream);
  call.root = to;
  give(call, stream, [&](NcclHandle* handle) {
    return nccl_.ncclSend(tensor.address(), to_size(tensor.numel()), nccl_type(tensor.dtype()), to,
                          handle, stream.queue().native());
  });
}

void NcclComm::recv(Tensor& tensor, int from, Stream& stream) {
  check_peer("recv", rank(), from, size());
  CollectiveCall call = describe_call(CommOp::kRecv, tensor, tensor, stream);
  call.root = from;
  give(call, stream, [&](NcclHandle* handle) {
    return nccl_.ncclRecv(tensor.address(), to_size(tensor.numel()), nccl_type(tensor.dtype()),
                          from, handle, stream.queue().native());
  });
}

// A group of two messages, lest a send hold up the recv that its receiver's send waits for.
void NcclComm::exchange(const Exchange& messages, Stream& stream,
                        const std::function<void()>& meanwhile) {
  const auto& [out, to, in, from] = messages;
  check_peer("exchange", rank(), to, size());
  check_peer("exchange", rank(), from, size());
  CollectiveCall call = describe_call(CommOp::kSend, out, in, stream);
  call.root = to;
  give(call, stream, [&](NcclHandle* handle) {
    NcclResult result = nccl_.ncclGroupStart();
    if (result != NcclResult::kSuccess) return result;
    result = nccl_.ncclSend(out.address(), to_size(out.numel()), nccl_type(out.dtype()), to, handle,
                            stream.queue().native());
    if (result == NcclResult::kSuccess) {
      result = nccl_.ncclRecv(in.address(), to_size(in.numel()), nccl_type(in.dtype()), from,
                              handle, stream.queue().native());
    }
    const NcclResult end = nccl_.ncclGroupEnd();
    return result == NcclResult::kSuccess ? end : result;
  });
  meanwhile();
}

void NcclComm::barrier() {
  end_->check();
  end_->hosts().barrier();
}

void NcclComm::abort() noexcept {
  try {
    end_->fail(fmt::format("rank {} called abort()", rank()));
  } catch (const std::exception&) {
    end_->fail("");  // out of memory
  }
}

std::unique_ptr<Communicator> NcclComm::split(int color, int key) {
  DS_CHECK(color >= 0, "split: color {}; NCCL knows none below 0", color);
  end_->check();
  NcclEnd::Place place{.hosts = end_->hosts().split(color, key), .parent = end_};
  place.words = fmt::format("rank {} of {} on {}, split from {} ranks", place.hosts->rank(),
                            place.hosts->size(), options_.device.to_string(), size());
  place.timeout = options_.timeout;
  const auto part = std::make_shared<NcclEnd>(nccl_, std::move(place));
  NcclConfig config = does_not_block();
  const std::string what = fmt::format("split #{}", ++sequence_);
  use_device(options_.device);
  end_->call(what, [&](NcclHandle* handle) {
    return nccl_.ncclCommSplit(handle, color, key, part->slot(), &config);
  });
  part->await(what);
  return std::make_unique<NcclComm>(nccl_, options_, part, watch_);
}

namespace {

// What ranks tell each other before NCCL is asked for anything.
struct Greeting {
  int version = 0;
  WireFailure failure{};
};

const Nccl& usable_nccl(int& version) {
  constexpr int kLeastVersion = 21900;  // the configuration is laid out as since then
  const Nccl& table = nccl();
  if (table.ncclGetVersion(&version) != NcclResult::kSuccess || version < kLeastVersion) {
    throw Unsupported(fmt::format("NCCL {} ({}) is older than 2.19; install a newer one: {}",
                                  table.library.version().value_or("of unknown version"),
                                  table.library.file(), table.library.kind().source));
  }
  return table;
}

void check_greetings(const std::vector<Greeting>& greetings) {
  for (size_t rank = 0; rank < greetings.size(); ++rank) {
    const Greeting& each = greetings[rank];
    if (each.failure.error[0] != '\0') throw Unsupported(in_words(rank, each.failure));
    if (each.version != greetings[0].version) {
      throw CommError(
          fmt::format("NCCL: rank 0 has version {}, rank {} version {}; install the "
                      "same on all hosts",
                      greetings[0].version, rank, each.version));
    }
  }
}

// Rank 0's id, or its reason for having none.
NcclId agreed_id(const Nccl& nccl, HostExchange& hosts) {
  struct Told {
    NcclId id{};
    WireFailure failure{};
  } told;
  if (hosts.rank() == 0) {
    const NcclResult result = nccl.ncclGetUniqueId(&told.id);
    if (result != NcclResult::kSuccess) told.failure.set(nccl.ncclGetErrorString(result));
  }
  hosts.broadcast(std::as_writable_bytes(std::span(&told, 1)), 0);
  if (told.failure.error[0] != '\0') {
    throw CommError(fmt::format("NCCL gave no id: {}", in_words(0, told.failure)));
  }
  return told.id;
}

}  // namespace
}  // namespace detail

std::unique_ptr<Communicator> open_nccl_group(Communicator& hosts, const NcclOptions& options) {
  DS_CHECK(options.memory != nullptr, "NCCL: no memory of {} given", options.device.to_string());
  auto own = hosts.split(0, hosts.rank());  // what NCCL says is no part of the order of other calls
  HostExchange exchange(*own);
  detail::Greeting mine;
  mine.failure.set(failure_of([&] { static_cast<void>(detail::usable_nccl(mine.version)); }));
  detail::check_greetings(exchange.gather(std::vector{mine}));
  const Nccl& table = nccl();
  const NcclId id = detail::agreed_id(table, exchange);
  const int rank = own->rank();
  const int size = own->size();
  const auto end = std::make_shared<detail::NcclEnd>(
      table, detail::NcclEnd::Place{.hosts = std::move(own),
                                    .words = fmt::format("rank {} of {} on {}", rank, size,
                                                         options.device.to_string()),
                                    .timeout = options.timeout});
  NcclConfig config = detail::does_not_block();
  use_device(options.device);
  end->call("initialization", [&](NcclHandle*) {
    return table.ncclCommInitRankConfig(end->slot(), size, id, rank, &config);
  });
  return std::make_unique<detail::NcclComm>(
      table, options, end, std::make_shared<detail::NcclWatch>(options.watch_every));
}

}  // namespace ds
