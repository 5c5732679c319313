// ZeRO++: what quantized reductions and gathers give, against a reference of this file's own that
// knows neither kernels nor buckets, how far that is from what nobody quantized, and what travels.
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>

#include "comm/traced_comm.h"
#include "core/values/rng.h"
#include "kernels/elementwise/elementwise.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/zero/device_rank.h"
#include "tests/zero/quantized_reference.h"
#include "zero/sharded_store.h"

namespace ds {
namespace {

using namespace testing;

// Bytes that one of n ranks sends of S in all, where everybody sends to everybody.
int64_t to_others(int n, int64_t bytes) { return (n - 1) * bytes / n; }

constexpr int64_t kSlice = 4320;  // three runs of 1440

TEST_CASE("a quantized reduction is the reference's, and as near as its levels are",
          "[zero][device]") {
  for (const Hops hops : {Hops{2, 1}, Hops{1, 2}, Hops{3, 1}, Hops{2, 2}, Hops{4, 1}, Hops{1, 4}}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      CAPTURE(hops.near, hops.far, static_cast<int>(dtype));
      const int64_t slice = kSlice;
      const int64_t numel = slice * hops.ranks();
      std::vector<std::vector<float>> inputs(to_size(hops.ranks()));
      std::vector<float> got(to_size(numel));
      std::mutex mutex;
      std::vector<CommVolume::ByAxis> traffic(to_size(hops.ranks()));
      test::run_ranks(hops.ranks(), [&](Communicator& world) {
        testing::DeviceRank own(world);
        CommVolume volume;
        Mesh mesh = traced_mesh(own.comm(), {.data = hops.ranks(), .shard = hops.near}, volume);
        BucketSlots slots(own.comm().memory());
        QuantizedReduce reduce(mesh.group(Axis::kShard), mesh.group(Axis::kReplica), {},
                               {own.stream(), own.stream()}, slots);
        const Tensor wide =
            testing::upload(numbers(to_size(world.rank()), numel), Shape({numel}), own.stream());
        Tensor full = Tensor::empty({numel}, dtype, own.stream());
        kernels::cast(own.stream(), wide, full);
        const std::vector<float> given = testing::floats_of(full);
        Tensor sum = Tensor::empty({slice}, DType::kF32, own.stream());
        volume.reset();
        reduce.reduce_scatter(0, full, sum);
        const std::vector<float> mine = testing::floats_of(sum);
        const std::lock_guard lock(mutex);
        nth(inputs, world.rank()) = given;
        nth(traffic, world.rank()) = volume.totals();
        std::ranges::copy(mine, got.begin() + world.rank() * slice);
      });
      CHECK((got == reduced(inputs, hops, slice)));

      // A level is an eighth of what is largest: half of one is lost by rounding, one at the top.
      const std::vector<float> exact = sum_of(inputs);
      const bool twice = hops.near > 1 && hops.far > 1;
      const float largest = 10000 / 4096.0F;
      const float once = static_cast<float>(hops.ranks()) * largest / 8;
      const float again = twice ? static_cast<float>(hops.ranks()) * largest / 8 * 1.125F : 0;
      double squares = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        REQUIRE(std::abs(got[i] - exact[i]) <= once + again);
        squares += std::pow(got[i] - exact[i], 2);
      }
      // Rounding is uniform noise, nearly: the root of its mean square is level / sqrt(12) each.
      const double noise = largest / 8 / std::sqrt(12.0) * std::sqrt(hops.ranks());
      CHECK(std::sqrt(squares / static_cast<double>(numel)) < (twice ? 2.5 : 1.3) * noise);

      const int64_t scales = numel / 1440 * 4;
      for (const CommVolume::ByAxis& of : traffic) {
        if (hops.near > 1) {
          CHECK(of.at("shard").at("all_to_all").wire_bytes ==
                to_others(hops.near, numel / 2) + to_others(hops.near, scales));
        }
        if (hops.far > 1) {
          CHECK(of.at("replica").at("all_to_all").wire_bytes ==
                to_others(hops.far, numel / hops.near / 2) +
                    to_others(hops.far, scales / hops.near));
        }
      }
    }
  }
}

TEST_CASE("what is not finite stays so on its way", "[zero][device]") {
  for (const Hops hops : {Hops{2, 1}, Hops{2, 2}}) {
    std::atomic<int> lost = 0;
    test::run_ranks(hops.ranks(), [&](Communicator& world) {
      testing::DeviceRank own(world);
      Mesh mesh = Mesh::over(own.comm(), {.data = hops.ranks(), .shard = hops.near});
      BucketSlots slots(own.comm().memory());
      QuantizedReduce reduce(mesh.group(Axis::kShard), mesh.group(Axis::kReplica), {},
                             {own.stream(), own.stream()}, slots);
      std::vector<float> values(to_size(64 * hops.ranks()), 1.0F);
      if (world.rank() == 0) values[5] = INFINITY;  // of rank 0
      if (world.rank() == 1) values[64] = NAN;      // of rank 1
      const Tensor full =
          testing::upload(values, Shape({64 * int64_t{hops.ranks()}}), own.stream());
      Tensor sum = Tensor::empty({64}, DType::kF32, own.stream());
      reduce.reduce_scatter(0, full, sum);
      const std::vector<float> got = testing::floats_of(sum);
      const bool finite = std::ranges::all_of(got, [](float x) { return std::isfinite(x); });
      if (finite != (world.rank() > 1)) ++lost;
    });
    CHECK(lost == 0);
  }
}

// The store ---------------------------------------------------------------------------------------
struct Seen {
  std::map<std::string, std::vector<float>> forward, backward, evaluated, masters;
  CommVolume::ByAxis traffic;  // of the micro-step
};

// A micro-step of a store with two buckets that are cut and one that stays whole.
Seen micro_step(Communicator& world, const ZeroPlusPlus& how, int near, DType dtype) {
  testing::DeviceRank own(world);
  CommVolume volume;
  const bool cuts = how.secondary_weights || how.quantized_gradients;
  Mesh mesh = traced_mesh(own.comm(), {.data = world.size(), .shard = cuts ? near : 1}, volume);
  ZeroPolicy policy = zero_policy(3);
  policy.plus_plus = how;
  ShardedStore store({.layout = {.bucket_numel = kSlice * world.size(), .persistence_numel = 10},
                      .placement = {.policy = policy},
                      .state = {.slots = {{.name = "exp_avg"}}}},
                     mesh, {own.stream(), own.stream()}, own.comm().memory());
  const auto add = [&](const char* name, const Shape& shape, int unit) {
    return store.add({.name = name,
                      .shape = shape,
                      .dtype = dtype,
                      .init = {.kind = Initializer::Kind::kNormal, .extent = 0.5F},
                      .unit = unit});
  };
  const std::vector<ParamId> params{add("a", Shape({kSlice * world.size()}), 0),
                                    add("b", Shape({kSlice, world.size()}), 1),
                                    add("small", Shape({8}), 1)};
  store.seal();
  store.state().initialize(7);
  Seen seen;
  const auto see = [&](ParamId id, auto& into) {
    const Lease lease = store.acquire(id);
    into[store.spec(id).name] = testing::floats_of(lease.weight());
  };
  volume.reset();
  store.step().begin();
  store.begin_micro_step();
  for (const ParamId id : params) see(id, seen.forward);
  for (const ParamId id : {params[2], params[1], params[0]}) {
    see(id, seen.backward);
    GradSlot slot = store.grad_slot(id);
    kernels::fill(own.stream(), slot.grad, 0.25F);
    store.grad_ready(id);
  }
  store.end_micro_step();
  store.reduce_gradients();
  seen.traffic = volume.totals();
  for (const ParamId id : params) see(id, seen.evaluated);
  store.state().visit_owned(Visit::kSave, [&](OwnedPart& part) {
    const std::vector<float> values = testing::floats_of(part.master);
    for (const ShardField& field : part.fields) {
      const ParamSpec& spec = store.spec(field.param);
      auto& all = seen.masters[spec.name];
      all.resize(to_size(spec.shape.numel()));
      std::copy_n(values.begin() + field.offset, field.numel, all.begin() + field.param_begin);
    }
  });
  return seen;
}

std::vector<Seen> on_ranks(int ranks, const ZeroPlusPlus& how, int near, DType dtype) {
  std::vector<Seen> seen(to_size(ranks));
  test::run_ranks(ranks, [&](Communicator& world) {
    nth(seen, world.rank()) = micro_step(world, how, near, dtype);
  });
  return seen;
}

TEST_CASE("gathered codes are the same weights on every rank, those of the reference",
          "[zero][device]") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [ranks, near] : {std::pair{2, 1}, std::pair{4, 2}}) {
      for (const bool secondary : {false, true}) {
        CAPTURE(static_cast<int>(dtype), ranks, near, secondary);
        const std::vector<Seen> plain = on_ranks(ranks, {}, 1, dtype);
        const std::vector<Seen> seen = on_ranks(
            ranks, {.quantized_weights = true, .secondary_weights = secondary}, near, dtype);
        const auto& first = seen.front();
        for (const Seen& one : seen) {
          CHECK((one.forward == first.forward));
          CHECK((one.backward == first.forward));
          CHECK((one.evaluated == first.forward));
        }
        for (const char* name : {"a", "b"}) {
          const std::vector<float>& exact = plain.front().forward.at(name);
          std::vector<float> expected = through_codes(exact, 8, kSlice);
          if (dtype == DType::kF32) CHECK((first.forward.at(name) == expected));
          float largest = 0, worst = 0;
          for (size_t i = 0; i < exact.size(); ++i) {
            largest = std::max(largest, std::abs(exact[i]));
            worst = std::max(worst, std::abs(exact[i] - first.forward.at(name)[i]));
          }
          CHECK(worst > 0);
          // One level at the top, and what bf16 rounds.
          CHECK(worst <= largest / 128 * (dtype == DType::kF32 ? 1.0001F : 1.5F));
        }
        CHECK((first.forward.at("small") == plain.front().forward.at("small")));
      }
    }
  }
}

TEST_CASE("with a secondary copy weights have the bits of those without", "[zero][device]") {
  for (const auto& [ranks, near] : {std::pair{2, 2}, std::pair{4, 2}, std::pair{4, 4}}) {
    CAPTURE(ranks, near);
    const std::vector<Seen> plain = on_ranks(ranks, {}, 1, DType::kBF16);
    const std::vector<Seen> seen = on_ranks(ranks, {.secondary_weights = true}, near, DType::kBF16);
    for (size_t rank = 0; rank < seen.size(); ++rank) {
      CHECK((seen[rank].forward == plain[rank].forward));
      CHECK((seen[rank].backward == plain[rank].forward));
      CHECK((seen[rank].masters == plain[rank].masters));
    }
  }
}

// M: bytes of the bf16 weights that are cut. Plain stage 3 moves 3 M between hosts, ZeRO++ 0.75 M,
// and one fp32 scale for a run of 1440 elements each.
TEST_CASE("what travels is what the formulas say: 3 M without, 0.75 M with all of it",
          "[zero][device]") {
  constexpr int kRanks = 4, kNear = 2, kFar = 2;
  const int64_t numel = 2 * kSlice * kRanks, m = 2 * numel;
  const int64_t scales = int64_t{24} * kRanks;  // of the two buckets, three runs in a slice
  const auto sent = [](const Seen& seen, const char* axis, const char* op) {
    const auto of = seen.traffic.find(axis);
    if (of == seen.traffic.end() || !of->second.contains(op)) return int64_t{0};
    return of->second.at(op).wire_bytes;
  };
  const int64_t small = int64_t{64} * kRanks;  // the gradient of what stays whole, a slice at least
  const std::vector<Seen> plain = on_ranks(kRanks, {}, 1, DType::kBF16);
  for (const Seen& seen : plain) {
    CHECK(sent(seen, "data", "all_gather") == 2 * to_others(kRanks, m));
    CHECK(sent(seen, "data", "reduce_scatter") == to_others(kRanks, m + small));
  }
  const std::vector<Seen> all = on_ranks(
      kRanks, {.quantized_weights = true, .quantized_gradients = true, .secondary_weights = true},
      kNear, DType::kBF16);
  const int64_t small_codes = int64_t{16} * kRanks, small_scales = int64_t{4} * kRanks;
  for (const Seen& seen : all) {
    // Over all ranks only the forward pass gathers, half of M: qwZ 0.5 M, hpZ 0.
    CHECK(sent(seen, "data", "all_gather") == to_others(kRanks, m / 2) + to_others(kRanks, scales));
    CHECK(sent(seen, "data", "reduce_scatter") == 0);
    CHECK(sent(seen, "shard", "all_gather") == to_others(kNear, m / 2) + to_others(kNear, scales));
    CHECK(sent(seen, "shard", "all_to_all") ==
          to_others(kNear, m / 4 + small_codes) + to_others(kNear, scales + small_scales));
    // Between neighbourhoods, of all that neighbours have together: qgZ 0.25 M.
    CHECK(kNear * sent(seen, "replica", "all_to_all") ==
          to_others(kFar, m / 4 + small_codes) + to_others(kFar, scales + small_scales));
  }
}

TEST_CASE("ZeRO++ is refused where it has no meaning", "[zero]") {
  const auto seal = [](Communicator& world, ZeroPolicy policy) {
    test::RankStream own(world);
    Mesh mesh = Mesh::over(world, {.data = 2, .shard = 2});
    ShardedStore store({.placement = {.policy = policy}}, mesh, {own.stream, own.stream},
                       world.memory());
    store.add({.name = "a", .shape = Shape({64})});
    store.seal();
  };
  const auto said = [&](const ZeroPolicy& policy) {
    std::string text;
    std::mutex mutex;
    test::run_ranks(2, [&](Communicator& world) {
      try {
        seal(world, policy);
      } catch (const Unsupported& error) {
        const std::lock_guard lock(mutex);
        text = error.what();
      }
    });
    return text;
  };
  ZeroPolicy stage2 = zero_policy(2);
  stage2.plus_plus.quantized_weights = true;
  CHECK_THAT(said(stage2), Catch::Contains("works at stage 3"));
  ZeroPolicy mics = zero_policy(3);
  mics.shard_over = Axis::kShard;
  mics.plus_plus.quantized_gradients = true;
  CHECK_THAT(said(mics), Catch::Contains("sharded over shard"));
  mics.plus_plus = {.quantized_weights = true};
  CHECK(said(mics).empty());
}

}  // namespace
}  // namespace ds
