// Work on parts ahead of their visit: what it changes is kept or undone to the bit, whatever stops
// it, and a state store that has it comes to the bits of one that has not.
#include <cstring>
#include <latch>

#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"
#include "tests/support/catch.h"
#include "tests/support/test_stream.h"
#include "zero/state/optimizer_state_store.h"

namespace ds {
namespace {

using testing::floats_of;
using Values = std::vector<int>;
using Verdict = SpeculativeUpdate::Verdict;

constexpr int64_t kNumel = 96;

// Parts with a slot in fp32 and one in 8 bits, and who works on them.
struct Place {
  HostMemory heap;
  MemoryAccount account;
  TrackingMemory memory{heap, account};
  ThreadPool pool{1}, updater_pool{2};
  Stream host{{.device = Device::cpu(), .memory = &heap, .pool = &pool}};
  Stream updater{{.device = Device::cpu(), .memory = &memory, .pool = &updater_pool}};
  std::vector<Shard> parts;

  Place() {
    for (int part = 0; part < 3; ++part) {
      Shard& shard = parts.emplace_back();
      shard.master = Tensor::zeros({kNumel}, DType::kF32, host);
      shard.slots = {Tensor::zeros({kNumel}, DType::kF32, host),
                     Tensor::zeros({kNumel}, DType::kU8, host)};
      shard.scales = {Tensor(), Tensor::zeros({kNumel / kWeightsPerScale}, DType::kU8, host)};
      write(part, 1);
    }
  }
  static std::vector<Tensor> tensors_of(const Shard& shard) {
    return {shard.master, shard.slots[0], shard.slots[1], shard.scales[1]};
  }
  void write(int part, int value) const {
    for (const Tensor& tensor : tensors_of(nth(parts, part))) {
      std::memset(tensor.address(), value, tensor.bytes());
    }
  }
  // Returns what each part was written with; 0: not all of it with one value.
  Values values() const {
    Values values;
    for (const Shard& shard : parts) {
      int value = static_cast<const uint8_t*>(shard.master.address())[0];
      for (const Tensor& tensor : tensors_of(shard)) {
        const auto* const bytes = static_cast<const uint8_t*>(tensor.address());
        if (!std::all_of(bytes, bytes + tensor.bytes(), [&](uint8_t b) { return b == value; })) {
          value = 0;
        }
      }
      values.push_back(value);
    }
    return values;
  }
};

TEST_CASE("work ahead is kept, and says so once, or undone to the bit", "[zero]") {
  Place place;
  KeptParts kept(place.parts, place.updater);
  SpeculativeUpdate ahead(kept, place.updater);
  const auto write = [&](int value) {
    ahead.begin([&place, value](int part, Stream&) { place.write(part, value); });
  };
  write(2);
  for (const int part : {2, 0}) ahead.add(part, {});
  ahead.end(Verdict::kKeep);
  CHECK(place.values() == Values{2, 1, 2});
  CHECK(ahead.take_done(0));
  CHECK_FALSE(ahead.take_done(0));
  CHECK_FALSE(ahead.take_done(1));
  write(3);
  CHECK_FALSE(ahead.take_done(2));  // that was of the step before
  for (const int part : {0, 1, 2}) ahead.add(part, {});
  ahead.end(Verdict::kUndo);
  CHECK(place.values() == Values{2, 1, 2});
  for (const int part : {0, 1, 2}) CHECK_FALSE(ahead.take_done(part));
  CHECK(place.account.usage().bytes_now == 3 * (kNumel * (4 + 4 + 1) + kNumel / kWeightsPerScale));
}

TEST_CASE("an error of work ahead is thrown at the end, when all is as it was", "[zero]") {
  Place place;
  KeptParts kept(place.parts, place.updater);
  SpeculativeUpdate ahead(kept, place.updater);
  const auto fail_at = [&](int bad) {
    ahead.begin([&place, bad](int part, Stream&) {
      place.write(part, 2);
      if (part == bad) throw ValidationError("it is not what it should be");
    });
    for (const int part : {0, 1, 2}) ahead.add(part, {});
  };
  for (const int bad : {0, 1, 2}) {
    fail_at(bad);
    CHECK_THROWS_AS(ahead.end(Verdict::kKeep), ValidationError);
    CHECK(place.values() == Values{1, 1, 1});
    fail_at(bad);
    ahead.end(Verdict::kUndo);  // what failed is undone, and done again by others
    CHECK(place.values() == Values{1, 1, 1});
  }
  ahead.begin([&place](int part, Stream&) { place.write(part, 3); });
  ahead.add(1, {});
  ahead.end(Verdict::kKeep);
  CHECK(place.values() == Values{1, 3, 1});
}

// The first part is under way until somebody lets it go on.
TEST_CASE("what is undone is not begun first", "[zero]") {
  Place place;
  std::latch is_under_way(1), may_go_on(1);
  {
    KeptParts kept(place.parts, place.updater);
    SpeculativeUpdate ahead(kept, place.updater);
    ahead.begin([&](int part, Stream&) {
      REQUIRE(part == 0);
      is_under_way.count_down();
      may_go_on.wait();
      place.write(part, 2);
    });
    for (const int part : {0, 1, 2}) ahead.add(part, {});
    is_under_way.wait();
    may_go_on.count_down();
    ahead.end(Verdict::kUndo);
    CHECK(place.values() == Values{1, 1, 1});
  }
  std::latch again_under_way(1);
  KeptParts kept(place.parts, place.updater);
  SpeculativeUpdate gone_early(kept, place.updater);
  gone_early.begin([&](int, Stream&) { again_under_way.count_down(); });
  gone_early.add(0, {});
  again_under_way.wait();  // and the destructor waits for the thread
}

// Slices of a bucket in bf16, whose weights others compute with until the visit.
TEST_CASE("a state store that works ahead leaves the weights alone until the visit", "[zero]") {
  Place place;
  const Tensor weights = Tensor::zeros({64}, DType::kBF16, place.host);
  const std::vector<StateSlice> slices{{.weights = weights}};
  const StateOptions options{.slots = {{.name = "m"}, {.name = "v"}}, .part_numel = 32};
  const auto state =
      make_host_state(options, slices, place.host,
                      {.stream = place.host, .pinned = nullptr, .updater = &place.updater});
  state->visit(PartAccess::kFill, [](OpenPart&) {});
  const Tensor gradient = Tensor::zeros({64}, DType::kF32, place.host);
  int works = 0;
  const auto step = [&](Verdict verdict) {
    state->begin_ahead([&](OpenPart& open) {
      REQUIRE_FALSE(open.shard.copy.defined());
      for (int64_t i = 0; i < 32; ++i) open.shard.master.data<float>()[i] += 1;
    });
    state->store_final_gradient(0, gradient, place.host);
    state->hand_over_ahead();
    state->end_ahead(verdict);
    CHECK(floats_of(weights) == std::vector<float>(64, static_cast<float>(works)));
    int done = 0;
    state->visit(PartAccess::kUpdate, [&](OpenPart& open) {
      done += open.is_ahead ? 1 : 0;
      kernels::cast(open.stream, open.shard.master, open.shard.copy);
    });
    return done;
  };
  CHECK(step(Verdict::kKeep) == 2);
  CHECK(floats_of(weights) == std::vector<float>(64, 1));
  works = 1;
  CHECK(step(Verdict::kUndo) == 0);
  CHECK(floats_of(weights) == std::vector<float>(64, 1));
  // A visit of another kind undoes what nobody has ended.
  state->begin_ahead([](OpenPart& open) { open.shard.master.data<float>()[0] = 7; });
  state->store_final_gradient(0, gradient, place.host);
  state->visit(PartAccess::kRead,
               [](OpenPart& open) { CHECK(open.shard.master.data<float>()[0] == 1); });
}

}  // namespace
}  // namespace ds
