// The conformance suite of GradientSink: whatever becomes of gradients, sums equal a reference in
// plain numbers for one rank and several, contributions that are missing or doubled are refused,
// and after a step no memory is out that was not before it.
#include <map>
#include <memory>
#include <numeric>

#include "comm/solo_comm.h"
#include "core/memory/adaptors.h"
#include "core/values/rng.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/embedding/embedding.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "zero/reduce/sink_factory.h"
#include "zero/state/optimizer_state_store.h"

namespace ds {
namespace {

using test::require;
using test::run_ranks;
using Floats = std::vector<float>;

// Tables of so many columns, so that rows can be exchanged of all of them.
constexpr int64_t kColumns = 4, kMostRows = 25;
constexpr std::array<int64_t, 5> kNumel{40, 8, 100, 36, 12};
constexpr int kParams = 5;

// Small numbers, so that sums of them are exact.
float value_of(int rank, int micro, int param, int64_t index) {
  const Rng rng(to_size(100 * rank + micro), "gradient");
  return static_cast<float>(rng.derive(to_size(param)).bits(to_size(index)) % 9) - 4;
}

// Who keeps the sums of offloaded state, as a state store does.
class KeptSums final : public OptimizerStateStore {
 public:
  explicit KeptSums(Stream& stream) : stream_(stream) {}
  std::span<const StatePart> parts() const override { return {}; }
  void visit(PartAccess /*access*/, const Work& /*work*/) override {}
  void store_gradient(int bucket, const Tensor& slice, Stream& stream) override {
    Tensor& kept = sums_[bucket];
    if (!kept.defined()) kept = Tensor::empty(slice.shape(), DType::kF32, stream_);
    kernels::cast(stream, slice, kept);
  }
  void store_final_gradient(int bucket, const Tensor& slice, Stream& stream) override {
    store_gradient(bucket, slice, stream);
    ++finals_;
  }
  void load_gradient(int bucket, const Tensor& slice, Stream& stream) override {
    Tensor to = slice;
    kernels::cast(stream, sums_.at(bucket), to);
  }
  const Tensor& sum(int bucket) const { return sums_.at(bucket); }
  int take_finals() { return std::exchange(finals_, 0); }

 private:
  Stream& stream_;
  std::map<int, Tensor> sums_;
  int finals_ = 0;
};

// Stands for a reduction by codes: it says that it was asked.
class CountedReduction final : public SliceReduction {
 public:
  CountedReduction(Communicator& comm, StoreStreams streams) : plain_(comm, streams) {}
  void reduce_scatter(int bucket, const Tensor& full, const Tensor& slice) override {
    ++count;
    plain_.reduce_scatter(bucket, full, slice);
  }
  int count = 0;

 private:
  PlainReduction plain_;
};

enum class Extra : uint8_t { kNone, kKeeper, kQuantized };

struct Kind {
  std::string name;
  GradOptions options;
  Extra extra = Extra::kNone;
};

std::vector<Kind> kinds() {
  constexpr auto kWhole = Sharding::kWhole, kSharded = Sharding::kSharded;
  const TouchedRows rows{.columns = kColumns, .at_most = kMostRows};
  return {{"stage 0", {.sharding = kWhole, .state = kWhole}},
          {"stage 1", {.sharding = kWhole, .state = kSharded}},
          {"stage 2", {.sharding = kSharded, .state = kSharded}},
          {"stage 2 in codes", {.sharding = kSharded, .state = kSharded}, Extra::kQuantized},
          {"stage 0 at the step's end",
           {.sharding = kWhole, .state = kWhole, .reduce = Reduce::kStepEnd}},
          {"stage 1 at the step's end",
           {.sharding = kWhole, .state = kSharded, .reduce = Reduce::kStepEnd}},
          {"if asked", {.sharding = kWhole, .state = kWhole, .reduce = Reduce::kIfAsked}},
          {"rows", {.sharding = kWhole, .state = kWhole, .rows = rows}},
          {"stage 1 offloaded", {.sharding = kWhole, .state = kSharded}, Extra::kKeeper},
          {"stage 2 offloaded", {.sharding = kSharded, .state = kSharded}, Extra::kKeeper},
          {"stage 1 offloaded at the step's end",
           {.sharding = kWhole, .state = kSharded, .reduce = Reduce::kStepEnd},
           Extra::kKeeper}};
}

struct Dtypes {
  DType written, summed;
  std::optional<DType> wire = std::nullopt;
};

struct Case {
  Kind kind;
  int ranks;

  bool is_offloaded() const { return kind.extra == Extra::kKeeper; }
  bool by_step() const { return kind.options.reduce != Reduce::kEachMicroStep; }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Kind& kind : kinds()) {
    for (const int micro_steps : {1, 3}) {
      for (const Dtypes& dtypes : {Dtypes{DType::kF32, DType::kF32},
                                   {DType::kBF16, DType::kF32},
                                   {DType::kBF16, DType::kBF16},
                                   {DType::kF32, DType::kF32, DType::kBF16}}) {
        for (const int ranks : {1, 2, 3}) {
          Case& made = all.emplace_back(Case{kind, ranks});
          GradOptions& options = made.kind.options;
          options.micro_steps = micro_steps;
          options.dtype = dtypes.written;
          options.slice_dtype = dtypes.summed;
          options.wire_dtype = dtypes.wire;
          made.kind.name += fmt::format(", {} ranks, {} micro-steps, {} into {}{}", ranks,
                                        micro_steps, name_of(dtypes.written),
                                        name_of(dtypes.summed), dtypes.wire ? " over bf16" : "");
        }
      }
    }
  }
  return all;
}

// A rank with a sink, and with others who have parts of the same sums, if there are some.
struct Rank {
  Rank(Communicator& shard, const Case& of, std::vector<Communicator*> others = {})
      : c(of),
        comm(shard),
        layout(BucketLayout::build(layout_params(), {.bucket_numel = 150, .group_size = of.ranks})),
        sink(make_gradient_sink(
            of.kind.options, layout, std::vector<int>(kParams, 1),
            {.peers = {.shard = shard,
                       .summed = std::move(others),
                       .quantized = of.kind.extra == Extra::kQuantized ? &codes : nullptr},
             .streams = {stream, stream},
             .slots = slots,
             .keeper = of.is_offloaded() ? &keeper : nullptr})) {}

  static std::vector<LayoutParam> layout_params() {
    std::vector<LayoutParam> params;
    for (const int64_t numel : kNumel) {
      params.push_back({.numel = numel, .unit = narrow<int>(params.size()) / 2});
    }
    return params;
  }

  void contribute(int param, int micro, int rank) {
    const int64_t numel = kNumel[to_size(param)];
    const GradSlot slot = sink->slot(param, {numel / kColumns, kColumns});
    Tensor grad = slot.grad, values = Tensor::empty(grad.shape(), DType::kF32, stream);
    for (int64_t i = 0; i < numel; ++i) {
      values.data<float>()[i] = value_of(rank, micro, param, i);
    }
    if (slot.write == kernels::Write::kOverwrite) {
      kernels::cast(stream, values, grad);
    } else {
      kernels::accumulate(stream, values, grad);
    }
    Tensor tokens = Tensor::empty({kMostRows}, DType::kI32, stream);
    for (int64_t i = 0; i < kMostRows; ++i) {
      tokens.data<int32_t>()[i] = narrow<int32_t>(i % (numel / kColumns));
    }
    sink->rows_touched(param, kernels::token_order(stream, tokens));
    sink->ready(param);
  }
  void micro_step(int micro) {
    for (int param = kParams - 1; param >= 0; --param) contribute(param, micro, comm.rank());
    sink->end_micro_step();
  }
  void step(GradientsOf gradients = GradientsOf::kAllRanks) {
    sink->begin_step(gradients);
    for (int micro = 0; micro < c.kind.options.micro_steps; ++micro) micro_step(micro);
    sink->end_step();
  }
  Tensor kept(int bucket) const {
    return c.is_offloaded() ? keeper.sum(bucket) : sink->gradient(bucket);
  }
  int buckets() const { return narrow<int>(layout.buckets().size()); }
  double squares() {
    const Tensor total = Tensor::zeros({1}, DType::kF64, stream);
    sink->add_sum_of_squares(total);
    return *total.data<double>();
  }
  size_t bytes() const { return account.usage().bytes_now; }

  const Case c;
  Communicator& comm;
  MemoryAccount account{};
  HostMemory heap;
  TrackingMemory own{heap, account}, shared{comm.memory(), account};
  ThreadPool pool{1};
  Stream stream{{.memory = &own, .pool = &pool}};
  BucketSlots slots{shared};
  BucketLayout layout;
  KeptSums keeper{stream};
  CountedReduction codes{comm, {stream, stream}};
  const std::unique_ptr<GradientSink> sink;
};

Floats floats(const Tensor& tensor, Stream& stream) {
  Tensor copy = Tensor::empty(tensor.shape(), DType::kF32, stream);
  kernels::cast(stream, tensor, copy);
  return {copy.data<float>(), copy.data<float>() + copy.numel()};
}

// What a slice of a bucket must hold, or the whole of it where rank < 0: sums over ranks where
// parameters are, zeros between them.
Floats expected(const Rank& of, int bucket, int rank, std::span<const int> summed) {
  const BucketLayout& layout = of.layout;
  const int64_t numel = rank < 0 ? nth(layout.buckets(), bucket).numel : layout.slice_numel(bucket);
  Floats values(to_size(numel), 0.0F);
  for (const ShardField& field : layout.fields(bucket, rank)) {
    for (int64_t i = 0; i < field.numel; ++i) {
      for (const int from : summed) {
        for (int micro = 0; micro < of.c.kind.options.micro_steps; ++micro) {
          nth(values, field.offset + i) +=
              value_of(from, micro, field.param, field.param_begin + i);
        }
      }
    }
  }
  return values;
}

double squares_of(const Floats& values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
}

std::vector<int> ranks_below(int count) {
  std::vector<int> all(to_size(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::string said_by(const std::function<void()>& body) {
  try {
    body();
  } catch (const InternalError& error) {
    return error.what();
  }
  return "nothing";
}

void must_say(std::string_view wanted, const std::string& said, const std::string& name) {
  require(said.find(wanted) != std::string::npos, "{}: said '{}' instead of '{}'", name, said,
          wanted);
}

TEST_CASE("every sink gives the sums, and the squares of this rank's slices", "[zero]") {
  for (const Case& c : cases()) {
    INFO(c.kind.name);
    run_ranks(c.ranks, [&](Communicator& comm) {
      Rank rank(comm, c);
      const std::vector<int> all = ranks_below(c.ranks);
      for (int step = 0; step < 2; ++step) {  // what the step before left must not show
        rank.step();
        double squares = 0;
        for (int b = 0; b < rank.buckets(); ++b) {
          const bool whole = c.kind.options.state == Sharding::kWhole && !c.is_offloaded();
          const Floats got = floats(rank.kept(b), rank.stream);
          require(got == expected(rank, b, whole ? -1 : comm.rank(), all),
                  "{}: bucket {} of rank {}", c.kind.name, b, comm.rank());
          squares += squares_of(expected(rank, b, comm.rank(), all));
        }
        require(rank.squares() == squares, "{}: squares {} instead of {}", c.kind.name,
                rank.squares(), squares);
        const int finals = c.is_offloaded() ? rank.buckets() : 0;
        require(rank.keeper.take_finals() == finals, "{}: other final gradients", c.kind.name);
      }
      const bool codes = c.kind.extra == Extra::kQuantized && c.ranks > 1;
      const int reduced = codes ? 2 * c.kind.options.micro_steps * rank.buckets() : 0;
      require(rank.codes.count == reduced, "{}: {} reductions by codes", c.kind.name,
              rank.codes.count);
    });
  }
}

TEST_CASE("after a step every sink has the memory that it had before", "[zero]") {
  for (const Case& c : cases()) {
    INFO(c.kind.name);
    run_ranks(c.ranks, [&](Communicator& comm) {
      Rank rank(comm, c);
      rank.step();
      const size_t before = rank.bytes();
      rank.step();
      require(rank.bytes() == before, "{}: {} bytes after a step, {} before", c.kind.name,
              rank.bytes(), before);
      // Buckets are kept where micro-batches wait in them, and at the stages that keep gradients.
      const bool lends =
          c.kind.options.sharding == Sharding::kSharded && (c.ranks > 1 || c.is_offloaded());
      size_t kept = c.kind.options.wire_dtype && c.ranks > 1 ? 1 : 0;  // room for copies
      for (const Bucket& bucket : rank.layout.buckets()) kept += to_size(bucket.numel);
      if (!lends) {
        require(before >= kept * 2, "{}: {} bytes are kept of {} numbers", c.kind.name, before,
                kept);
      }
    });
  }
}

TEST_CASE("every sink refuses contributions that are missing or doubled", "[zero]") {
  for (const Case& c : cases()) {
    INFO(c.kind.name);
    run_ranks(c.ranks, [&](Communicator& comm) {
      {
        Rank rank(comm, c);
        rank.sink->begin_step(GradientsOf::kAllRanks);
        rank.contribute(2, 0, comm.rank());  // its bucket has another one
        must_say("gradient of parameter 0: 0 contributions", said_by([&] {
                   for (int m = 0; m < c.kind.options.micro_steps; ++m) rank.sink->end_micro_step();
                   rank.sink->end_step();
                 }),
                 c.kind.name);
      }
      Rank rank(comm, c);
      rank.sink->begin_step(GradientsOf::kAllRanks);
      const int times = c.by_step() ? c.kind.options.micro_steps : 1;
      for (int i = 0; i < times; ++i) rank.contribute(3, 0, comm.rank());
      must_say(fmt::format("parameter 3: more contributions than the {} announced", times),
               said_by([&] { rank.contribute(3, 0, comm.rank()); }), c.kind.name);
    });
  }
}

TEST_CASE("every sink but those that are asked refuses a step of a rank's own gradients",
          "[zero]") {
  for (const Case& c : cases()) {
    INFO(c.kind.name);
    run_ranks(c.ranks, [&](Communicator& comm) {
      Rank rank(comm, c);
      if (c.kind.options.reduce != Reduce::kIfAsked) {
        return must_say("where all are reduced",
                        said_by([&] { rank.sink->begin_step(GradientsOf::kOwnRank); }),
                        c.kind.name);
      }
      const std::vector<int> own{comm.rank()};
      rank.step(GradientsOf::kOwnRank);
      double squares = 0;
      for (int b = 0; b < rank.buckets(); ++b) {
        const Floats wanted = expected(rank, b, -1, own);
        require(floats(rank.kept(b), rank.stream) == wanted, "{}: bucket {}", c.kind.name, b);
        squares += squares_of(wanted);
      }
      require(rank.squares() == squares, "{}: squares of one's own", c.kind.name);
    });
  }
}

TEST_CASE("a micro-step that streams repeat counts as one", "[zero]") {
  for (const Case& c : cases()) {
    if (c.by_step() || c.kind.options.micro_steps == 1) continue;
    INFO(c.kind.name);
    run_ranks(c.ranks, [&](Communicator& comm) {
      Rank rank(comm, c);
      rank.sink->begin_step(GradientsOf::kAllRanks);
      rank.micro_step(0);
      rank.sink->repeat_micro_step();
      must_say("ends after 2 of 3 micro-steps", said_by([&] { rank.sink->end_step(); }),
               c.kind.name);
      rank.micro_step(2);
      rank.sink->end_step();
    });
  }
}

TEST_CASE("who is alone with its slices sums them up with the others that have them", "[zero]") {
  const auto refuses = [](const Case& c) {  // what the configuration does not come to
    return c.is_offloaded() && !c.by_step();
  };
  for (const Case& c : cases()) {
    if (c.ranks > 1 || refuses(c) || c.kind.options.rows.any()) continue;
    INFO(c.kind.name);
    run_ranks(2, [&](Communicator& comm) {
      SoloComm alone(comm.memory());
      Rank rank(alone, c, {&comm});
      rank.sink->begin_step(GradientsOf::kAllRanks);
      for (int micro = 0; micro < c.kind.options.micro_steps; ++micro) {
        for (int param = 0; param < kParams; ++param) rank.contribute(param, micro, comm.rank());
        rank.sink->end_micro_step();
      }
      rank.sink->end_step();
      for (int b = 0; b < rank.buckets(); ++b) {
        const std::vector<int> both{0, 1};
        require(floats(rank.kept(b), rank.stream) == expected(rank, b, -1, both),
                "{}: bucket {} of rank {}", c.kind.name, b, comm.rank());
      }
    });
  }
}

TEST_CASE("a sink whose sums others keep has none to show", "[zero]") {
  run_ranks(2, [&](Communicator& comm) {
    Rank rank(comm, {{"offloaded",
                      {.sharding = Sharding::kSharded, .state = Sharding::kSharded},
                      Extra::kKeeper},
                     2});
    rank.step();
    must_say("kept by who keeps the optimizer's state",
             said_by([&] { static_cast<void>(rank.sink->gradient(0)); }), "offloaded");
  });
}

}  // namespace
}  // namespace ds
