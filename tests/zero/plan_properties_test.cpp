// Layouts, gather plans, policies and estimates over many generated inputs: a plan is carried out
// against its own events, and every promise of the headers is checked on the way.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "core/status/error.h"
#include "core/values/rng.h"
#include "tests/support/catch.h"
#include "zero/estimate.h"
#include "zero/layout/bucket_layout.h"
#include "zero/layout/gather_plan.h"
#include "zero/layout/policy.h"

namespace ds {
namespace {

TEST_CASE("each stage shards what its number says, everything on the device", "[zero]") {
  const auto sharded = [](const Placement& placement) {
    CHECK(placement.tier == Tier::kDevice);
    return placement.sharding == Sharding::kSharded;
  };
  for (int stage = 0; stage <= 3; ++stage) {
    const ZeroPolicy policy = zero_policy(stage);
    CHECK(sharded(policy.state) == (stage >= 1));
    CHECK(sharded(policy.grads) == (stage >= 2));
    CHECK(sharded(policy.params) == (stage >= 3));
  }
  for (const int stage : {-1, 4, 100}) {
    CHECK_THROWS_AS(zero_policy(stage), ConfigError);
    CHECK_THROWS_WITH(zero_policy(stage), fmt::format("zero_optimization.stage: {}, expected 0, "
                                                      "1, 2 or 3",
                                                      stage));
  }
}

struct RandomLayout {
  std::vector<LayoutParam> params;
  LayoutOptions options;
  BucketLayout layout;
};

RandomLayout random_layout(uint64_t seed) {
  const Rng rng(seed, "layouts");
  RandomLayout made;
  const uint64_t count = 1 + rng.bits(0) % 20;
  int unit = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (rng.bits(100 + i) % 3 == 0) ++unit;
    made.params.push_back({.numel = 1 + rng.bits(200 + i) % 700, .unit = unit});
  }
  made.options = {.bucket_numel = 1 + rng.bits(1) % 1500,
                  .persistence_numel = rng.bits(2) % 200,
                  .group_size = 1 + static_cast<int>(rng.bits(3) % 7)};
  made.layout = BucketLayout::build(made.params, made.options);
  return made;
}

TEST_CASE("buckets are whole slices, within their size, and do not mix units or kinds", "[zero]") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const RandomLayout made = random_layout(seed);
    CAPTURE(seed);
    std::set<int> seen;
    int64_t numel = 0;
    for (size_t b = 0; b < made.layout.buckets().size(); ++b) {
      const Bucket& bucket = made.layout.buckets()[b];
      const int index = static_cast<int>(b);
      numel += bucket.numel;
      REQUIRE_FALSE(bucket.params.empty());
      REQUIRE(bucket.numel % (made.options.group_size * BucketLayout::kSliceAlignment) == 0);
      REQUIRE(made.layout.slice_numel(index) * made.options.group_size == bucket.numel);
      int64_t end = 0;
      std::set<int> units;
      for (const BucketParam& at : bucket.params) {
        const LayoutParam& param = made.params[static_cast<size_t>(at.param)];
        REQUIRE(seen.insert(at.param).second);
        REQUIRE(at.numel == param.numel);
        REQUIRE(at.offset % BucketLayout::kSliceAlignment == 0);
        REQUIRE(at.offset >= end);
        end = at.offset + at.numel;
        units.insert(param.unit);
        REQUIRE(bucket.persistent == (param.numel < made.options.persistence_numel));
        REQUIRE(made.layout.bucket_of(at.param) == index);
        REQUIRE(made.layout.offset_of(at.param) == at.offset);
      }
      if (!bucket.persistent) REQUIRE(units.size() == 1);
      // At most the asked size, or one parameter.
      REQUIRE((end <= made.options.bucket_numel || bucket.params.size() == 1));
    }
    CHECK(seen.size() == made.params.size());
    CHECK(made.layout.numel() == numel);
    CHECK(made.layout.group_size() == made.options.group_size);
  }
}

TEST_CASE("the fields of all ranks, end to end, are those of the whole bucket", "[zero]") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const RandomLayout made = random_layout(seed);
    for (int b = 0; b < static_cast<int>(made.layout.buckets().size()); ++b) {
      // (param, element of it) -> element of the bucket, once by the whole and once by the ranks.
      std::map<std::pair<int, int64_t>, int64_t> whole, parts;
      const auto note = [](auto& places, const ShardField& field, int64_t begin) {
        for (int64_t i = 0; i < field.numel; ++i) {
          REQUIRE(
              places
                  .emplace(std::pair{field.param, field.param_begin + i}, begin + field.offset + i)
                  .second);
        }
      };
      for (const ShardField& field : made.layout.fields(b, -1)) note(whole, field, 0);
      for (int rank = 0; rank < made.options.group_size; ++rank) {
        int64_t end = 0;
        for (const ShardField& field : made.layout.fields(b, rank)) {
          REQUIRE(field.offset >= end);  // ascending
          end = field.offset + field.numel;
          note(parts, field, rank * made.layout.slice_numel(b));
        }
      }
      REQUIRE(whole == parts);
    }
  }
}

TEST_CASE("a layout of nothing has no buckets, one of no ranks is refused", "[zero]") {
  const BucketLayout none = BucketLayout::build({}, {.group_size = 4});
  CHECK(none.buckets().empty());
  CHECK(none.numel() == 0);
  for (const int group : {0, -2}) {
    CHECK_THROWS_WITH(BucketLayout::build({}, {.group_size = group}),
                      Catch::Contains(fmt::format("group of {}", group)));
  }
}

// A model's run: units in order forward and in reverse backward, each bucket acquired and idle.
std::vector<GatherEvent> random_run(uint64_t seed, int buckets) {
  const Rng rng(seed, "run");
  using Kind = GatherEvent::Kind;
  std::vector<GatherEvent> events;
  for (int b = 0; b < buckets; ++b) {
    const bool nested = rng.bits(static_cast<uint64_t>(b)) % 3 == 0 && b + 1 < buckets;
    events.push_back({Kind::kAcquire, b});
    if (nested) {
      events.push_back({Kind::kAcquire, b + 1});
      events.push_back({Kind::kIdle, b + 1});
    }
    events.push_back({Kind::kIdle, b});
  }
  for (int b = buckets - 1; b >= 0; --b) {
    events.push_back({Kind::kAcquire, b});
    events.push_back({Kind::kIdle, b});
  }
  return events;
}

// Carries a plan out; true to its events, whatever the limits.
struct Played {
  int64_t gathered = 0;
  int64_t live_peak = 0;
  std::map<int, bool> live;  // bucket -> leased
};

Played play(const GatherPlan& plan, const std::vector<int64_t>& numel) {
  Played played;
  int64_t live_numel = 0;
  for (size_t i = 0; i < plan.events.size(); ++i) {
    const GatherEvent& event = plan.events[i];
    // An idle bucket is released by the event that makes it idle, at the earliest.
    if (event.kind == GatherEvent::Kind::kIdle) played.live[event.bucket] = false;
    for (const int bucket : plan.actions[i].release) {
      REQUIRE(played.live.contains(bucket));
      REQUIRE_FALSE(played.live[bucket]);  // nobody may be using it
      played.live.erase(bucket);
      live_numel -= numel[static_cast<size_t>(bucket)];
    }
    for (const int bucket : plan.actions[i].gather) {
      REQUIRE_FALSE(played.live.contains(bucket));
      played.live[bucket] = false;
      live_numel += numel[static_cast<size_t>(bucket)];
      played.gathered += numel[static_cast<size_t>(bucket)];
    }
    played.live_peak = std::max(played.live_peak, live_numel);
    if (event.kind == GatherEvent::Kind::kAcquire) {
      REQUIRE(played.live.contains(event.bucket));  // it is there when it is needed
      played.live[event.bucket] = true;
    }
  }
  return played;
}

TEST_CASE("a plan has every bucket there when it is needed and nothing left at the end", "[zero]") {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const Rng rng(seed, "limits");
    const int buckets = 1 + static_cast<int>(rng.bits(0) % 8);
    std::vector<int64_t> numel;
    for (int b = 0; b < buckets; ++b) {
      numel.push_back(32 * (1 + rng.bits(10 + static_cast<uint64_t>(b)) % 9));
    }
    const GatherLimits limits{.prefetch_numel = rng.bits(1) % 800,
                              .live_numel = rng.bits(2) % 1500,
                              .reuse_numel = rng.bits(3) % 800};
    const std::vector<GatherEvent> events = random_run(seed, buckets);
    const GatherPlan plan = plan_gathers(events, numel, limits);
    CAPTURE(seed, plan.to_string());
    REQUIRE(plan.events == events);
    REQUIRE(plan.actions.size() == events.size());
    const Played played = play(plan, numel);
    CHECK(played.live.empty());
    CHECK(played.gathered == plan.numel_gathered);
    CHECK(played.live_peak == plan.live_numel_peak);
  }
}

TEST_CASE("more than the limit is live only for what is leased at that moment", "[zero]") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Rng rng(seed, "live");
    const int buckets = 2 + static_cast<int>(rng.bits(0) % 6);
    const std::vector<int64_t> numel(static_cast<size_t>(buckets), 100);
    // Two buckets at most are leased at once, and one is always allowed.
    const int64_t live = 100 * (1 + rng.bits(1) % 5);
    const GatherPlan plan =
        plan_gathers(random_run(seed, buckets), numel,
                     {.prefetch_numel = 1000, .live_numel = live, .reuse_numel = 1000});
    CAPTURE(seed, live);
    CHECK(play(plan, numel).live_peak <= std::max<int64_t>(live, 200));
  }
}

TEST_CASE("without limits each bucket is gathered once, without room each time it is needed",
          "[zero]") {
  const std::vector<int64_t> numel{10, 20, 30};
  const std::vector<GatherEvent> events = random_run(3, 3);
  const int64_t most = int64_t{1} << 40;
  const GatherPlan once = plan_gathers(
      events, numel, {.prefetch_numel = most, .live_numel = most, .reuse_numel = most});
  CHECK(once.numel_gathered == 60);
  CHECK(once.live_numel_peak == 60);
  const GatherPlan each = plan_gathers(events, numel, {});
  int64_t acquired = 0;
  for (const GatherEvent& event : events) {
    if (event.kind == GatherEvent::Kind::kAcquire)
      acquired += numel[static_cast<size_t>(event.bucket)];
  }
  CHECK(each.numel_gathered == acquired);
  const GatherPlan nothing = plan_gathers({}, numel, {});
  CHECK(nothing.events.empty());
  CHECK(nothing.to_string() == "gathered 0 elements, at most 0 live\n");
}

TEST_CASE("more devices never need more memory each, and the host's share is per node", "[zero]") {
  constexpr int64_t kParams = 1'000'000'007, kLayer = 50'000'000;
  for (const OptimizerHome state : {OptimizerHome::kDevice, OptimizerHome::kHost}) {
    int64_t before2 = INT64_MAX, before3 = INT64_MAX;
    for (const int64_t devices : {1, 2, 4, 8, 64}) {
      const EstimateCluster cluster{.devices_per_node = devices};
      const MemoryEstimate two = estimate_stage2(kParams, state, cluster);
      const MemoryEstimate three = estimate_stage3(kParams, kLayer, state, ParameterHome::kDevice,
                                                   ModelInit::kWhole, cluster);
      CHECK(two.device_bytes <= before2);
      CHECK(three.device_bytes <= before3);
      CHECK(three.device_bytes >= three.largest_layer_bytes);
      CHECK(three.largest_layer_bytes == 4 * kLayer);
      CHECK(two.device_bytes >= 2 * kParams);
      before2 = two.device_bytes;
      before3 = three.device_bytes;
    }
  }
}

TEST_CASE("the factor for buffers is on host memory alone, in every case", "[zero]") {
  const auto with = [](double factor) {
    return EstimateCluster{.devices_per_node = 4, .nodes = 3, .buffer_factor = factor};
  };
  for (const OptimizerHome state : {OptimizerHome::kDevice, OptimizerHome::kHost}) {
    const MemoryEstimate plain = estimate_stage2(3000, state, with(1));
    const MemoryEstimate padded = estimate_stage2(3000, state, with(1.5));
    CHECK(padded.device_bytes == plain.device_bytes);
    CHECK(padded.host_bytes == plain.host_bytes * 3 / 2);
    for (const ModelInit init : {ModelInit::kPartitioned, ModelInit::kWhole}) {
      const auto three = [&](double factor, ParameterHome params) {
        return estimate_stage3(3000, 300, state, params, init, with(factor));
      };
      CHECK(three(1.5, ParameterHome::kDevice).host_bytes ==
            three(1, ParameterHome::kDevice).host_bytes * 3 / 2);
      CHECK(three(1.5, ParameterHome::kHost).device_bytes ==
            three(1, ParameterHome::kHost).device_bytes);
    }
  }
  // If the optimizer is on the device, the state store of parameters is not looked at.
  const auto on_device = [&](ParameterHome params) {
    return estimate_stage3(3000, 300, OptimizerHome::kDevice, params, ModelInit::kWhole, with(1));
  };
  CHECK(on_device(ParameterHome::kHost).device_bytes ==
        on_device(ParameterHome::kDevice).device_bytes);
  CHECK(on_device(ParameterHome::kHost).host_bytes == on_device(ParameterHome::kDevice).host_bytes);
}

TEST_CASE("an estimate of no parameters is nothing, one of no devices is refused", "[zero]") {
  CHECK(estimate_stage2(0, OptimizerHome::kHost, {}).host_bytes == 0);
  CHECK(estimate_stage3(0, 0, OptimizerHome::kDevice, ParameterHome::kDevice,
                        ModelInit::kPartitioned, {})
            .device_bytes == 0);
  CHECK_THROWS_WITH(estimate_stage2(5, OptimizerHome::kHost, {.devices_per_node = 0}),
                    Catch::Contains("5 parameters on 1 nodes with 0 devices"));
  CHECK_THROWS_AS(estimate_stage3(5, 1, OptimizerHome::kHost, ParameterHome::kHost,
                                  ModelInit::kWhole, {.nodes = 0}),
                  InternalError);
}

}  // namespace
}  // namespace ds
