// Gradients of tables that are exchanged by rows: the bits of the reduction of whole tables in
// every combination of dtypes, ranks and micro-steps, what travels, and when it is worth it.
#include "zero/reduce/row_exchange.h"

#include <cmath>
#include <mutex>

#include "comm/mesh.h"
#include "comm/traced_comm.h"
#include "core/values/rng.h"
#include "kernels/elementwise/elementwise.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/zero/device_rank.h"
#include "zero/sharded_store.h"

namespace ds {
namespace {

using test::require;
using Floats = std::vector<float>;

constexpr int64_t kVocabulary = 97, kWidth = 12, kTokens = 10;

struct Case {
  int ranks;
  DType dtype, slice;
  std::optional<DType> wire;
  int micro_steps;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int micro_steps : {1, 3}) {
      for (const auto& [dtype, slice, wire] :
           {std::tuple{DType::kF32, DType::kF32, std::optional<DType>()},
            {DType::kBF16, DType::kBF16, {}},
            {DType::kBF16, DType::kF32, {}},
            {DType::kF16, DType::kF32, {}},
            {DType::kF32, DType::kF32, DType::kBF16},
            {DType::kBF16, DType::kF32, DType::kF32},
            {DType::kF32, DType::kBF16, DType::kF16}}) {
        all.push_back({ranks, dtype, slice, wire, micro_steps});
      }
    }
  }
  return all;
}

// Returns the tokens of a rank's micro-batch: some come again and again, some are shared with
// others.
std::vector<int32_t> tokens_of(int rank, int micro) {
  std::vector<int32_t> tokens;
  const Rng rng(to_size(100 * rank + micro), "tokens");
  for (uint64_t i = 0; i < to_size(kTokens); ++i) {
    tokens.push_back(static_cast<int32_t>(rng.bits(i) % (i < 5 ? 6 : kVocabulary)));
  }
  return tokens;
}

struct Seen {
  Floats table{}, beside{};  // gradients of the last of two steps
  int64_t sent = 0;          // in it
};

// The gradients of a table and of another parameter, at stage 0. tokens: of ZeroOptions.
Seen two_steps(Communicator& world, const Case& c, int64_t tokens) {
  testing::DeviceRank own(world);
  CommVolume volume;
  Mesh mesh = Mesh::over(own.comm(), {.data = world.size()}, [&](Axis axis, Communicator& group) {
    return std::make_unique<TracedComm>(group, std::string(to_string(axis)),
                                        TracedComm::Sinks{.volume = &volume});
  });
  ShardedStore store({.layout = {.bucket_numel = 500},
                      .placement = {.policy = zero_policy(0)},
                      .wire = {.slice_dtype = c.slice,
                               .dtype = c.wire,
                               .sparse_tokens = tokens,
                               .micro_steps = c.micro_steps}},
                     mesh, {own.stream(), own.stream()}, own.comm().memory());
  const ParamId table = store.add({.name = "table",
                                   .shape = Shape({kVocabulary, kWidth}),
                                   .dtype = c.dtype,
                                   .looked_up = true});
  const ParamId beside = store.add({.name = "beside", .shape = Shape({384}), .dtype = c.dtype});
  store.seal();
  for (int step = 0; step < 2; ++step) {
    volume.reset();
    store.step().begin();
    for (int micro = 0; micro < c.micro_steps; ++micro) {
      store.begin_micro_step();
      const int number = 10 * step + micro;
      GradSlot other = store.grad_slot(beside);
      kernels::fill(own.stream(), other.grad, static_cast<float>(world.rank() + number));
      store.grad_ready(beside);
      const Tensor order = kernels::token_order(
          own.stream(), testing::upload(tokens_of(world.rank(), number), {kTokens}, own.stream()));
      Floats rows(to_size(kTokens * kWidth));
      const Rng rng(to_size(world.rank() + 7 * number), "dy");
      for (size_t i = 0; i < rows.size(); ++i) rows[i] = rng.normal(i);
      GradSlot slot = store.grad_slot(table);
      kernels::embedding_backward(own.stream(), order,
                                  testing::upload(rows, {kTokens, kWidth}, own.stream()),
                                  slot.write, slot.grad);
      store.rows_touched(table, order);
      store.grad_ready(table);
      store.end_micro_step();
    }
    store.reduce_gradients();
  }
  Seen seen{.sent = volume.wire_bytes()};
  for (const auto& group : store.groups()) {
    for (const Shard& shard : group->shards()) {
      const Floats all = testing::floats_of(shard.grad);
      for (const ShardField& field : shard.fields) {
        Floats& into = field.param == table ? seen.table : seen.beside;
        into.insert(into.end(), all.begin() + field.offset,
                    all.begin() + field.offset + field.numel);
      }
    }
  }
  return seen;
}

std::vector<Seen> on_ranks(const Case& c, int64_t tokens) {
  std::vector<Seen> seen(to_size(c.ranks));
  test::run_ranks(
      c.ranks, [&](Communicator& world) { nth(seen, world.rank()) = two_steps(world, c, tokens); });
  return seen;
}

TEST_CASE("rows give the bits of the whole table's reduction, to every rank", "[zero][device]") {
  for (const Case& c : cases()) {
    CAPTURE(c.ranks, c.micro_steps, name_of(c.dtype), name_of(c.slice),
            c.wire ? name_of(*c.wire) : "as written");
    const std::vector<Seen> whole = on_ranks(c, 0), rows = on_ranks(c, kTokens);
    for (size_t rank = 0; rank < rows.size(); ++rank) {
      CHECK(rows[rank].table.size() == to_size(kVocabulary * kWidth));
      CHECK((rows[rank].table == whole[rank].table));
      CHECK((rows[rank].beside == whole[rank].beside));
      CHECK(std::ranges::any_of(rows[rank].table, [](float x) { return x != 0; }));
      CHECK((c.ranks == 1 || rows[rank].sent < whole[rank].sent));
    }
  }
}

TEST_CASE("a row travels with its number, as many as a micro-batch has tokens", "[zero][device]") {
  for (const int ranks : {2, 3, 4}) {
    for (const int micro_steps : {1, 3}) {
      for (const auto wire : {std::optional<DType>(), std::optional(DType::kBF16)}) {
        CAPTURE(ranks, micro_steps, wire.has_value());
        const Case c{ranks, DType::kF32, DType::kF32, wire, micro_steps};
        const int64_t each = wire ? 2 : 4;
        const int64_t row = 4 + kWidth * each;
        const int64_t beside = (ranks - 1) * 384 / ranks * each;
        const Seen seen = on_ranks(c, kTokens).front();
        CHECK(seen.sent == micro_steps * (ranks - 1) * kTokens * row + (micro_steps + 1) * beside);
      }
    }
  }
}

TEST_CASE("where rows would be more than the whole, the whole travels", "[zero]") {
  const ParamSpec table{.name = "t", .shape = Shape({100, 8}), .looked_up = true};
  ZeroOptions options{.placement = {.policy = zero_policy(0)}, .wire = {.sparse_tokens = 50}};
  const auto touched = [&](int ranks) {
    return touched_rows(table, 1, group_key(table, options), options, ranks);
  };
  // (n - 1) (4 + 8 * 4) 50 bytes against 2 (n - 1) / n 100 * 32.
  CHECK(touched(3) == TouchedRows{.columns = 8, .at_most = 50});
  CHECK_FALSE(touched(4).any());
  CHECK_FALSE(touched(1).any());
  options.wire.sparse_tokens = 1000;
  CHECK_FALSE(touched(2).any());
  options.wire.sparse_tokens = 5;
  CHECK(touched(4) == TouchedRows{.columns = 8, .at_most = 5});
  CHECK_FALSE(touched_rows(table, 2, group_key(table, options), options, 4).any());  // tied
  ParamSpec other = table;
  other.looked_up = false;
  CHECK_FALSE(touched_rows(other, 1, group_key(other, options), options, 4).any());
  options.placement.policy = zero_policy(1);
  CHECK_FALSE(touched(4).any());
  options.placement.policy = zero_policy(0);
  options.wire.reduce = Reduce::kStepEnd;
  CHECK_FALSE(touched(4).any());
}

TEST_CASE("a table of which nobody says the rows is named", "[zero]") {
  std::string said;
  std::mutex mutex;
  test::run_ranks(2, [&](Communicator& world) {
    test::RankStream own(world);
    Mesh mesh = Mesh::over(world, {.data = 2});
    ShardedStore store({.placement = {.policy = zero_policy(0)}, .wire = {.sparse_tokens = 2}},
                       mesh, {own.stream, own.stream}, world.memory());
    const ParamId table = store.add({.name = "t", .shape = Shape({100, 8}), .looked_up = true});
    store.seal();
    store.step().begin();
    store.begin_micro_step();
    GradSlot slot = store.grad_slot(table);
    kernels::fill(own.stream, slot.grad, 1.0F);
    try {
      store.grad_ready(table);
    } catch (const InternalError& error) {
      const std::lock_guard lock(mutex);
      said = error.what();
    }
  });
  CHECK_THAT(said, Catch::Contains("nobody has said which rows it has"));
}

}  // namespace
}  // namespace ds
