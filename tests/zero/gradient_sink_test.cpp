// Sinks of gradients on the device, over ranks as threads: what each rank's slice holds after one
// micro-step and after several, in every combination of stage and dtypes, what stays whole, and
// that padding stays zero.
#include <cmath>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/values/rng.h"
#include "kernels/elementwise/elementwise.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "zero/reduce/sink_factory.h"

namespace ds {
namespace {

using test::require;
using test::run_ranks;

const std::vector<LayoutParam>& params() {
  static const std::vector<LayoutParam> list{{.numel = 40, .unit = 0},
                                             {.numel = 7, .unit = 0},
                                             {.numel = 100, .unit = 1},
                                             {.numel = 33, .unit = 1},
                                             {.numel = 5, .unit = 2}};
  return list;
}

// Small numbers that every dtype holds exactly, and so do their sums over ranks and micro-steps.
float value_of(int rank, int micro, int param, int64_t index) {
  const Rng rng(static_cast<uint64_t>(100 * rank + micro), "gradient");
  return static_cast<float>(
             rng.derive(static_cast<uint64_t>(param)).bits(static_cast<uint64_t>(index)) % 9) -
         4;
}

// The sum over ranks and over micro-steps [0, micro_steps).
float sum_of(int ranks, int micro_steps, int param, int64_t index) {
  float sum = 0;
  for (int micro = 0; micro < micro_steps; ++micro) {
    for (int rank = 0; rank < ranks; ++rank) sum += value_of(rank, micro, param, index);
  }
  return sum;
}

struct Case {
  int ranks;
  Sharding grads, state;
  DType dtype, slice_dtype;
  int micro_steps;
  Reduce reduce = Reduce::kEachMicroStep;
  std::optional<DType> wire = std::nullopt;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int ranks : {1, 2, 3}) {
    for (const auto& [grads, state] : {std::pair{Sharding::kWhole, Sharding::kWhole},
                                       std::pair{Sharding::kWhole, Sharding::kSharded},
                                       std::pair{Sharding::kSharded, Sharding::kSharded}}) {
      for (const auto& [dtype, slice] :
           {std::pair{DType::kF32, DType::kF32}, std::pair{DType::kBF16, DType::kF32},
            std::pair{DType::kBF16, DType::kBF16}, std::pair{DType::kF16, DType::kF32}}) {
        for (const int micro_steps : {1, 3}) {
          all.push_back({ranks, grads, state, dtype, slice, micro_steps});
          if (grads == Sharding::kSharded) continue;
          all.push_back({ranks, grads, state, dtype, slice, micro_steps, Reduce::kStepEnd});
        }
      }
      for (const auto& [dtype, slice, wire] :
           {std::tuple{DType::kF32, DType::kF32, DType::kBF16},
            std::tuple{DType::kF32, DType::kBF16, DType::kF16},
            std::tuple{DType::kBF16, DType::kF32, DType::kF32},
            std::tuple{DType::kBF16, DType::kBF16, DType::kF32}}) {
        for (const int micro_steps : {1, 3}) {
          all.push_back(
              {ranks, grads, state, dtype, slice, micro_steps, Reduce::kEachMicroStep, wire});
          if (grads == Sharding::kSharded || dtype != slice) continue;
          all.push_back({ranks, grads, state, dtype, slice, micro_steps, Reduce::kStepEnd, wire});
        }
      }
    }
  }
  return all;
}

// Everything that a rank needs to make a sink.
struct Rank {
  Rank(Communicator& world, const Case& c)
      : comm(world),
        pool(1),
        stream({.memory = &heap, .pool = &pool}),
        layout(BucketLayout::build(params(), {.bucket_numel = 150, .group_size = c.ranks})),
        state(c.state),
        sink(make_gradient_sink({.sharding = c.grads,
                                 .state = c.state,
                                 .dtype = c.dtype,
                                 .slice_dtype = c.slice_dtype,
                                 .wire_dtype = c.wire,
                                 .reduce = c.reduce,
                                 .micro_steps = c.micro_steps},
                                layout, std::vector<int>(params().size(), 1),
                                {{.shard = comm}, {stream, stream}, slots})) {}

  void contribute(int param, int micro) {
    const int64_t numel = params()[static_cast<size_t>(param)].numel;
    GradSlot slot = sink->slot(param, {numel});
    Tensor values = Tensor::empty({numel}, DType::kF32, stream);
    for (int64_t i = 0; i < numel; ++i) {
      values.data<float>()[i] = value_of(comm.rank(), micro, param, i);
    }
    if (slot.write == kernels::Write::kOverwrite) {
      kernels::cast(stream, values, slot.grad);
    } else {
      kernels::accumulate(stream, values, slot.grad);
    }
    sink->ready(param);
  }
  void micro_step(int micro) {
    for (int param = static_cast<int>(params().size()) - 1; param >= 0; --param) {
      contribute(param, micro);
    }
    sink->end_micro_step();
  }
  // This rank's slice of the sum: with whole state it is cut out of the whole.
  Tensor slice(int bucket) const {
    const Tensor kept = sink->gradient(bucket);
    if (state == Sharding::kSharded) return kept;
    const int64_t numel = layout.slice_numel(bucket);
    return kept.narrow(comm.rank() * numel, numel);
  }
  std::vector<float> floats(const Tensor& tensor) {
    Tensor copy = Tensor::empty(tensor.shape(), DType::kF32, stream);
    kernels::cast(stream, tensor, copy);
    return {copy.data<float>(), copy.data<float>() + copy.numel()};
  }

  Communicator& comm;
  HostMemory heap;
  ThreadPool pool;
  Stream stream;
  BucketSlots slots{comm.memory()};
  BucketLayout layout;
  const Sharding state;
  const std::unique_ptr<GradientSink> sink;
};

// What a range of a bucket must hold: sums where parameters are, zeros between them.
std::vector<float> expected(const BucketLayout& layout, int bucket, int rank, int ranks,
                            int micro_steps) {
  const int64_t numel =
      rank < 0 ? layout.buckets()[static_cast<size_t>(bucket)].numel : layout.slice_numel(bucket);
  std::vector<float> values(static_cast<size_t>(numel), 0.0F);
  for (const ShardField& field : layout.fields(bucket, rank)) {
    for (int64_t i = 0; i < field.numel; ++i) {
      values[static_cast<size_t>(field.offset + i)] =
          sum_of(ranks, micro_steps, field.param, field.param_begin + i);
    }
  }
  return values;
}

std::string words_of(const Case& c) {
  return fmt::format("{} ranks, gradients {}, state {}, {} into {}, {} micro-steps{}", c.ranks,
                     c.grads == Sharding::kWhole ? "whole" : "sharded",
                     c.state == Sharding::kWhole ? "whole" : "sharded", name_of(c.dtype),
                     name_of(c.slice_dtype), c.micro_steps,
                     c.reduce == Reduce::kStepEnd ? ", reduced at the end" : "") +
         (c.wire ? fmt::format(", sent as {}", name_of(*c.wire)) : "");
}

TEST_CASE("every rank's slice is the sum over ranks and micro-steps, and padding is zero",
          "[zero]") {
  for (const Case& c : cases()) {
    INFO(words_of(c));
    run_ranks(c.ranks, [&](Communicator& comm) {
      Rank rank(comm, c);
      for (int step = 0; step < 2; ++step) {  // what the step before left must not show
        rank.sink->begin_step(GradientsOf::kAllRanks);
        for (int micro = 0; micro < c.micro_steps; ++micro) rank.micro_step(micro);
        rank.sink->end_step();
        for (int b = 0; b < static_cast<int>(rank.layout.buckets().size()); ++b) {
          const auto got = rank.floats(rank.slice(b));
          require(got == expected(rank.layout, b, comm.rank(), c.ranks, c.micro_steps),
                  "{}: slice of bucket {} on rank {}", words_of(c), b, comm.rank());
          // A rank alone adds up in what is written, or in fp32.
          const bool narrows = c.ranks == 1 && c.slice_dtype != DType::kF32;
          require(rank.slice(b).dtype() == (narrows ? c.dtype : c.slice_dtype), "slice of {}",
                  name_of(rank.slice(b).dtype()));
        }
      }
    });
  }
}

TEST_CASE("with whole state every rank has the whole reduced bucket after the last micro-step",
          "[zero]") {
  for (const Case& c : cases()) {
    if (c.state != Sharding::kWhole) continue;
    INFO(words_of(c));
    run_ranks(c.ranks, [&](Communicator& comm) {
      Rank rank(comm, c);
      rank.sink->begin_step(GradientsOf::kAllRanks);
      for (int micro = 0; micro < c.micro_steps; ++micro) rank.micro_step(micro);
      rank.sink->end_step();
      for (int b = 0; b < static_cast<int>(rank.layout.buckets().size()); ++b) {
        require(rank.floats(rank.sink->gradient(b)) ==
                    expected(rank.layout, b, -1, c.ranks, c.micro_steps),
                "{}: bucket {} on rank {}", words_of(c), b, comm.rank());
      }
    });
  }
}

TEST_CASE("a tied parameter's contributions add up, whatever comes between them", "[zero]") {
  const BucketLayout layout =
      BucketLayout::build(std::vector<LayoutParam>{{.numel = 3}, {.numel = 2}}, {.group_size = 2});
  run_ranks(2, [&](Communicator& comm) {
    test::RankStream own(comm);
    BucketSlots slots(comm.memory());
    const auto sink =
        make_gradient_sink({.sharding = Sharding::kSharded, .state = Sharding::kSharded}, layout,
                           {2, 1}, {{.shard = comm}, {own.stream, own.stream}, slots});
    const auto contribute = [&](int param, int64_t numel, float value) {
      GradSlot slot = sink->slot(param, {numel});
      Tensor values = Tensor::empty({numel}, DType::kF32, own.stream);
      kernels::fill(own.stream, values, value);
      if (slot.write == kernels::Write::kOverwrite) {
        kernels::cast(own.stream, values, slot.grad);
      } else {
        kernels::accumulate(own.stream, values, slot.grad);
      }
      sink->ready(param);
    };
    sink->begin_step(GradientsOf::kAllRanks);
    contribute(0, 3, 1.0F);
    contribute(1, 2, 5.0F);
    contribute(0, 3, 10.0F);
    sink->end_micro_step();
    const Tensor sum = sink->gradient(0);
    const float* const slice = sum.data<float>();
    for (const ShardField& field : layout.fields(0, comm.rank())) {
      for (int64_t i = 0; i < field.numel; ++i) {
        const float wanted = field.param == 0 ? 22.0F : 10.0F;
        require(slice[field.offset + i] == wanted, "parameter {}: {} instead of {}", field.param,
                slice[field.offset + i], wanted);
      }
    }
  });
}

TEST_CASE("a sink of one rank names a parameter with too few or too many contributions", "[zero]") {
  run_ranks(1, [&](Communicator& comm) {
    const Case c{1, Sharding::kWhole, Sharding::kWhole, DType::kF32, DType::kF32, 1};
    Rank rank(comm, c);
    rank.sink->begin_step(GradientsOf::kAllRanks);
    rank.contribute(2, 0);
    std::string said;
    try {
      rank.sink->end_micro_step();
    } catch (const InternalError& error) {
      said = error.what();
    }
    require(said.find("gradient of parameter 0: 0 contributions in this micro-step, expected 1") !=
                std::string::npos,
            "said '{}'", said);
    Rank other(comm, c);
    other.sink->begin_step(GradientsOf::kAllRanks);
    other.contribute(3, 0);
    said.clear();
    try {
      other.contribute(3, 0);
    } catch (const InternalError& error) {
      said = error.what();
    }
    require(said.find("parameter 3: more contributions than the 1 announced") != std::string::npos,
            "said '{}'", said);
  });
}

// As pipelines do: the second micro-batch contributes between the contributions of the first.
TEST_CASE("micro-batches that come in turn add up until the end of the step", "[zero]") {
  for (const int ranks : {1, 2, 3}) {
    run_ranks(ranks, [&](Communicator& comm) {
      const Case c{ranks, Sharding::kWhole, Sharding::kSharded, DType::kBF16, DType::kF32,
                   2,     Reduce::kStepEnd};
      Rank rank(comm, c);
      for (int step = 0; step < 2; ++step) {
        rank.sink->begin_step(GradientsOf::kAllRanks);
        for (int param = narrow<int>(params().size()) - 1; param >= 0; --param) {
          rank.contribute(param, 0);
          rank.contribute(param, 1);
        }
        rank.sink->end_micro_step();
        rank.sink->end_micro_step();
        const Tensor own = rank.sink->summed(2, {10, 10});
        require(own.shape() == Shape{10, 10} && own.dtype() == DType::kF32, "another shape");
        const float wanted = value_of(comm.rank(), 0, 2, 17) + value_of(comm.rank(), 1, 2, 17);
        require(own.data<float>()[17] == wanted, "{} instead of {}", own.data<float>()[17], wanted);
        rank.sink->end_step();
        for (int b = 0; b < narrow<int>(rank.layout.buckets().size()); ++b) {
          require(rank.floats(rank.slice(b)) == expected(rank.layout, b, comm.rank(), ranks, 2),
                  "bucket {} on rank {}", b, comm.rank());
        }
      }
      rank.sink->begin_step(GradientsOf::kAllRanks);
      rank.contribute(0, 0);
      rank.sink->end_micro_step();
      try {
        rank.sink->end_step();
      } catch (const InternalError& error) {
        require(std::string(error.what()).find("1 contributions in this step, expected 2") !=
                    std::string::npos,
                "said '{}'", error.what());
        return;
      }
      throw InternalError("a step without all contributions went through");
    });
  }
}

TEST_CASE("gradients are each rank's own in steps that say so, and summed in others", "[zero]") {
  run_ranks(2, [&](Communicator& comm) {
    const Case c{2, Sharding::kWhole, Sharding::kWhole, DType::kBF16, DType::kF32,
                 3, Reduce::kIfAsked};
    Rank rank(comm, c);
    rank.sink->begin_step(GradientsOf::kAllRanks);
    for (int micro = 0; micro < 3; ++micro) rank.micro_step(micro);
    rank.sink->end_step();
    for (int b = 0; b < narrow<int>(rank.layout.buckets().size()); ++b) {
      require(rank.floats(rank.slice(b)) == expected(rank.layout, b, comm.rank(), 2, 3),
              "bucket {} on rank {}", b, comm.rank());
    }
    rank.sink->begin_step(GradientsOf::kOwnRank);
    for (int micro = 0; micro < 3; ++micro) rank.micro_step(micro);
    rank.sink->end_step();
    for (int b = 0; b < narrow<int>(rank.layout.buckets().size()); ++b) {
      const std::vector<float> got = rank.floats(rank.sink->gradient(b));
      for (const ShardField& field : rank.layout.fields(b, -1)) {
        for (int64_t i = 0; i < field.numel; ++i) {
          float wanted = 0;
          for (int micro = 0; micro < 3; ++micro) {
            wanted += value_of(comm.rank(), micro, field.param, field.param_begin + i);
          }
          require(nth(got, field.offset + i) == wanted, "parameter {}", field.param);
        }
      }
    }
  });
}

TEST_CASE("who reduces always is not asked for a rank's own gradients", "[zero]") {
  run_ranks(2, [&](Communicator& comm) {
    Rank rank(comm, {2, Sharding::kWhole, Sharding::kWhole, DType::kF32, DType::kF32, 1});
    try {
      rank.sink->begin_step(GradientsOf::kOwnRank);
    } catch (const InternalError& error) {
      require(std::string(error.what()).find("where all are reduced") != std::string::npos,
              "said '{}'", error.what());
      return;
    }
    throw InternalError("it went through");
  });
}

TEST_CASE("what is sharded cannot wait for the end of a step", "[zero]") {
  run_ranks(2, [&](Communicator& comm) {
    const auto must_refuse = [&](const Case& c, std::string_view why) {
      try {
        Rank rank(comm, c);
      } catch (const Unsupported& error) {
        require(std::string_view(error.what()).find(why) != std::string_view::npos, "said '{}'",
                error.what());
        return;
      }
      throw InternalError(words_of(c) + " went through");
    };
    Case c{2, Sharding::kSharded, Sharding::kSharded, DType::kF32, DType::kF32, 1};
    c.reduce = Reduce::kStepEnd;
    must_refuse(c, "use stage 0 or 1");
    c.grads = Sharding::kWhole;
    c.reduce = Reduce::kIfAsked;
    must_refuse(c, "needs its whole state on every rank");
  });
}

TEST_CASE("a step that ends before its last micro-step is an error", "[zero]") {
  run_ranks(1, [&](Communicator& comm) {
    Rank rank(comm, {1, Sharding::kWhole, Sharding::kWhole, DType::kF32, DType::kF32, 2});
    rank.sink->begin_step(GradientsOf::kAllRanks);
    rank.micro_step(0);
    try {
      rank.sink->end_step();
    } catch (const InternalError& error) {
      require(std::string(error.what()).find("1 of 2 micro-steps") != std::string::npos,
              "said '{}'", error.what());
      return;
    }
    throw InternalError("went through");
  });
}

TEST_CASE("sharded gradients hold a bucket's memory only until it is reduced", "[zero]") {
  // Counts the bytes of buckets that are out.
  struct Counting final : MemoryResource {
    explicit Counting(MemoryResource& to) : upstream(to) {}
    void* allocate(size_t bytes, MemoryTag tag) override {
      now += bytes;
      peak = std::max(peak, now);
      return upstream.allocate(bytes, tag);
    }
    void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override {
      now -= bytes;
      upstream.deallocate(pointer, bytes, tag);
    }
    MemoryResource& upstream;
    size_t now = 0, peak = 0;
  };
  run_ranks(2, [&](Communicator& comm) {
    const BucketLayout layout =
        BucketLayout::build(params(), {.bucket_numel = 150, .group_size = 2});
    test::RankStream own(comm);
    Counting counting(comm.memory());
    size_t largest = 0, total = 0;
    for (const Bucket& bucket : layout.buckets()) {
      largest = std::max(largest, static_cast<size_t>(bucket.numel) * 4);
      total += static_cast<size_t>(bucket.numel) * 4;
    }
    BucketSlots slots(counting);
    {
      const auto sink = make_gradient_sink(
          {.sharding = Sharding::kSharded, .state = Sharding::kSharded}, layout,
          std::vector<int>(params().size(), 1), {{.shard = comm}, {own.stream, own.stream}, slots});
      require(counting.now == 0, "{} bytes before anything is written", counting.now);
      sink->begin_step(GradientsOf::kAllRanks);
      for (size_t i = params().size(); i-- > 0;) {
        GradSlot slot = sink->slot(static_cast<int>(i), {params()[i].numel});
        kernels::fill(own.stream, slot.grad, 1.0F);
        sink->ready(static_cast<int>(i));
      }
      sink->end_micro_step();
      require(counting.now == 0, "{} bytes after everything was reduced", counting.now);
      require(counting.peak == largest, "{} bytes at once, the largest bucket has {}",
              counting.peak, largest);
    }
    const auto keeps = make_gradient_sink(
        {.sharding = Sharding::kWhole, .state = Sharding::kSharded}, layout,
        std::vector<int>(params().size(), 1), {{.shard = comm}, {own.stream, own.stream}, slots});
    require(counting.now == total, "{} bytes kept, the buckets have {}", counting.now, total);
  });
}

}  // namespace
}  // namespace ds
