// The conformance suite of ParameterStore: a model cannot tell the plain store from the sharded one
// at any stage. Same weights from the same seed, same gradients from the same contributions, same
// refusals.
#include <cmath>
#include <functional>
#include <memory>

#include "kernels/elementwise/elementwise.h"
#include "model/stores/plain_store.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/zero/device_rank.h"
#include "zero/sharded_store.h"

namespace ds {
namespace {

using Floats = std::vector<float>;
using test::require;
using testing::DeviceRank;
using testing::floats_of;

// A store with what surrounds it: how a micro-step is framed, and where gradients are seen.
struct Subject {
  std::string name;
  std::unique_ptr<ParameterStore> store;
  std::function<void()> begin = [] {};
  std::function<void()> end = [] {};
  std::function<void(uint64_t)> initialize = [](uint64_t) {};
  std::function<Floats(ParamId)> gradient;
};

constexpr uint64_t kSeed = 99;

Subject plain(Stream& stream) {
  auto store = std::make_unique<PlainStore>(stream, kSeed);
  PlainStore& whole = *store;
  return {.name = "plain", .store = std::move(store), .gradient = [&whole](ParamId id) {
            return floats_of(whole.gradient(id));
          }};
}

// Alone in its group, so that its shards hold every gradient.
Subject sharded(int stage, Mesh& mesh, Stream& stream, MemoryResource* host = nullptr) {
  ZeroPolicy policy = zero_policy(stage);
  if (host != nullptr) policy.params.tier = Tier::kHost;
  ZeroOptions options{.layout = {.bucket_numel = 150, .persistence_numel = 10},
                      .placement = {.policy = policy}};
  auto store = std::make_unique<ShardedStore>(options, mesh, StoreStreams{stream, stream},
                                              mesh.group(Axis::kData).memory(),
                                              OffloadPlaces{.weights = {.host = host}});
  ShardedStore& zero = *store;
  return {.name = fmt::format("stage {}{}", stage, host != nullptr ? ", weights on the host" : ""),
          .store = std::move(store),
          .begin =
              [&zero] {
                zero.step().begin();
                zero.begin_micro_step();
              },
          .end =
              [&zero] {
                zero.end_micro_step();
                zero.reduce_gradients();
              },
          .initialize = [&zero](uint64_t seed) { zero.state().initialize(seed); },
          .gradient =
              [&zero](ParamId id) {
                Floats out(static_cast<size_t>(zero.spec(id).shape.numel()));
                for (const Shard& shard : zero.groups().front()->shards()) {
                  const Floats all = floats_of(shard.grad);
                  for (const ShardField& field : shard.fields) {
                    if (field.param != id) continue;
                    std::copy_n(all.begin() + field.offset, field.numel,
                                out.begin() + field.param_begin);
                  }
                }
                return out;
              }};
}

constexpr int kTied = 1;

void add_params(ParameterStore& store) {
  const std::vector<std::pair<Shape, int>> params{
      {Shape{37, 5}, 0}, {Shape{64}, 1}, {Shape{3}, 1}, {Shape{200}, 1}, {Shape{11, 11}, 2}};
  for (size_t i = 0; i < params.size(); ++i) {
    const ParamId id = store.add({.name = fmt::format("p{}", i),
                                  .shape = params[i].first,
                                  .init = {.kind = Initializer::Kind::kNormal, .extent = 0.5F},
                                  .unit = params[i].second});
    require(id == static_cast<ParamId>(i), "id {} for parameter {}", id, i);
  }
  store.expect_uses(kTied, 2);
  store.seal();
}

// One contribution: a function of the weight, so that a wrong weight shows in the gradient.
void contribute(ParameterStore& store, Stream& stream, ParamId id, float times) {
  const Lease lease = store.acquire(id);
  GradSlot slot = store.grad_slot(id);
  Floats values = floats_of(lease.weight());
  for (float& value : values) value = times * std::sin(3 * value);
  const Tensor grad = testing::upload(values, lease.weight().shape(), stream);
  require(slot.grad.shape() == store.spec(id).shape, "the slot of {} has another shape", id);
  if (slot.write == kernels::Write::kOverwrite) {
    kernels::cast(stream, grad, slot.grad);
  } else {
    kernels::accumulate(stream, grad, slot.grad);
  }
  store.grad_ready(id);
}

struct Seen {
  std::vector<Floats> weights;
  std::vector<Floats> gradients;
};

Seen one_backward(Subject& subject, Stream& stream) {
  ParameterStore& store = *subject.store;
  add_params(store);
  subject.initialize(kSeed);
  Seen seen;
  subject.begin();
  for (ParamId id = 0; id < store.count(); ++id) {
    seen.weights.push_back(floats_of(store.acquire(id).weight()));
  }
  contribute(store, stream, kTied, 0.25F);
  for (ParamId id = store.count() - 1; id >= 0; --id) contribute(store, stream, id, 1);
  subject.end();
  for (ParamId id = 0; id < store.count(); ++id) seen.gradients.push_back(subject.gradient(id));
  return seen;
}

// host: outlives them.
std::vector<Subject> subjects(Mesh& mesh, Stream& stream, MemoryResource& host) {
  std::vector<Subject> out;
  out.push_back(plain(stream));
  for (const int stage : {0, 1, 2, 3}) out.push_back(sharded(stage, mesh, stream));
  out.push_back(sharded(3, mesh, stream, &host));
  return out;
}

void must_refuse(const std::string& who, const char* what, const std::function<void()>& mistake) {
  try {
    mistake();
  } catch (const InternalError&) {
    return;
  }
  throw InternalError(fmt::format("{}: {} went through", who, what));
}

TEST_CASE("a model sees the same weights and leaves the same gradients in every store",
          "[zero][device]") {
  test::run_ranks(1, [](Communicator& world) {
    DeviceRank rank(world);
    Mesh mesh = Mesh::over(rank.comm(), {});
    HostMemory host;
    std::vector<Subject> all = subjects(mesh, rank.stream(), host);
    const Seen expected = one_backward(all.front(), rank.stream());
    for (size_t i = 1; i < all.size(); ++i) {
      const Seen seen = one_backward(all[i], rank.stream());
      require(seen.weights == expected.weights, "{}: other weights", all[i].name);
      require(seen.gradients == expected.gradients, "{}: other gradients", all[i].name);
    }
  });
}

TEST_CASE("weights start from the same bits at every stage and number of ranks", "[zero][device]") {
  for (const int ranks : {2, 3}) {
    test::run_ranks(ranks, [](Communicator& world) {
      DeviceRank rank(world);
      Mesh mesh = Mesh::over(rank.comm(), {.data = world.size()});
      Subject whole = plain(rank.stream());
      add_params(*whole.store);
      HostMemory host;
      for (const int stage : {0, 1, 2, 3, 4}) {  // 4: stage 3 with weights on the host
        Subject zero = stage == 4 ? sharded(3, mesh, rank.stream(), &host)
                                  : sharded(stage, mesh, rank.stream());
        add_params(*zero.store);
        zero.initialize(kSeed);
        for (ParamId id = 0; id < zero.store->count(); ++id) {
          const Lease mine = zero.store->acquire(id);
          const Lease theirs = whole.store->acquire(id);
          require(floats_of(mine.weight()) == floats_of(theirs.weight()),
                  "stage {}: parameter {} differs", stage, id);
        }
      }
    });
  }
}

TEST_CASE("every store refuses the same mistakes", "[zero][device]") {
  test::run_ranks(1, [](Communicator& world) {
    DeviceRank rank(world);
    Mesh mesh = Mesh::over(rank.comm(), {});
    HostMemory host;
    for (Subject& subject : subjects(mesh, rank.stream(), host)) {
      ParameterStore& store = *subject.store;
      const ParamSpec spec{.name = "w", .shape = {4, 2}};
      const ParamId id = store.add(spec);
      must_refuse(subject.name, "a second parameter of one name", [&] { store.add(spec); });
      must_refuse(subject.name, "no use at all", [&] { store.expect_uses(id, 0); });
      must_refuse(subject.name, "a lease before seal()", [&] { store.acquire(id); });
      store.seal();
      must_refuse(subject.name, "a parameter after seal()",
                  [&] { store.add({.name = "late", .shape = {1}}); });
      must_refuse(subject.name, "uses after seal()", [&] { store.expect_uses(id, 2); });
      for (const ParamId strange : {-1, 1}) {
        must_refuse(subject.name, "an unknown parameter", [&] { store.acquire(strange); });
        must_refuse(subject.name, "the spec of none", [&] { (void)store.spec(strange); });
      }
      subject.begin();
      must_refuse(subject.name, "ready without a slot", [&] { store.grad_ready(id); });
    }
  });
}

}  // namespace
}  // namespace ds
