#include "train/step/prefetching_source.h"

#include <atomic>
#include <semaphore>
#include <set>
#include <vector>

#include "core/memory/adaptors.h"
#include "core/status/error.h"
#include "kernels/embedding/embedding.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

constexpr int64_t kTokens = 6;
constexpr int kMicroSteps = 3;
constexpr int64_t kSteps = 4;

using Place = std::pair<int64_t, int>;  // step and micro-step

BatchSpec batch_spec() {
  return BatchSpec({{.name = "tokens", .shape = {kTokens}},
                    {.name = "token_order",
                     .shape = {2, kTokens},
                     .kind = BatchField::Kind::kOrder,
                     .from = "tokens"},
                    {.name = "targets", .shape = {kTokens}}});
}

int32_t number_of(int64_t step, int micro_step, size_t i) {
  return static_cast<int32_t>(100 * step + 10 * micro_step) + static_cast<int32_t>(i * 5 % 7);
}

void wait_until(std::atomic<int>& reaches, int count) {
  for (int now = reaches.load(); now < count; now = reaches.load()) reaches.wait(now);
}

void take_all(std::counting_semaphore<>& tickets) {
  while (tickets.try_acquire()) continue;
}

// Numbers that say where they belong; what it was asked for, and by whom.
class Told final : public BatchSource {
 public:
  void fill(int64_t step, int micro_step, const MicroBatch& batch) override {
    asked.fetch_add(1);
    asked.notify_all();
    tickets.acquire();
    {
      const std::lock_guard lock(mutex_);
      filled_.emplace_back(step, micro_step);
      if (bad_.contains({step, micro_step})) throw DataError("this one is torn");
    }
    const std::span<int32_t> tokens = batch.values<int32_t>("tokens");
    const std::span<int32_t> targets = batch.values<int32_t>("targets");
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = number_of(step, micro_step, i);
      targets[i] = tokens[i] + 1000;
    }
    done.fetch_add(1);
    done.notify_all();
  }
  int64_t first_sample(int micro_step) const override { return 7 * micro_step; }
  void on_use(int64_t step, int micro_step) override {
    CHECK(std::this_thread::get_id() == step_thread_);
    used.emplace_back(step, micro_step);
  }

  void make_bad(const Place& place, bool bad) {
    const std::lock_guard lock(mutex_);
    if (bad) {
      bad_.insert(place);
    } else {
      bad_.erase(place);
    }
  }
  std::vector<Place> filled() {
    const std::lock_guard lock(mutex_);
    return filled_;
  }

  std::vector<Place> used;
  std::atomic<int> asked = 0, done = 0;     // how often fill() began, and ended without an error
  std::counting_semaphore<> tickets{1000};  // each fill() needs one

 private:
  const std::thread::id step_thread_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::vector<Place> filled_;
  std::set<Place> bad_;
};

PrefetchingSource::Options options() {
  return {.largest = batch_spec(), .micro_steps = kMicroSteps, .steps = kSteps};
}

// As the step does it.
void use(PrefetchingSource& source, int64_t step, int micro_step) {
  const std::optional<MicroBatch> batch = source.take(step, micro_step);
  REQUIRE(batch);
  source.on_use(step, micro_step);
  std::vector<int32_t> order(2 * kTokens);
  const std::span<int32_t> tokens = batch->values<int32_t>("tokens");
  const std::span<int32_t> targets = batch->values<int32_t>("targets");
  kernels::sort_tokens(tokens, order);
  CHECK(std::ranges::equal(batch->values<int32_t>("token_order"), order));
  REQUIRE(tokens.size() == kTokens);
  for (size_t i = 0; i < kTokens; ++i) {
    CHECK(tokens[i] == number_of(step, micro_step, i));
    CHECK(targets[i] == tokens[i] + 1000);
  }
  source.give_back({});
}

std::vector<Place> all_from(int64_t first_step) {
  std::vector<Place> all;
  for (int64_t step = first_step; step < kSteps; ++step) {
    for (int micro = 0; micro < kMicroSteps; ++micro) all.emplace_back(step, micro);
  }
  return all;
}

TEST_CASE("every micro-batch is read once, in order, and none behind the run", "[train]") {
  for (const int64_t first : {0, 2}) {  // a restart begins where it likes
    Told told;
    {
      PrefetchingSource source(told, options());
      CHECK(source.first_sample(2) == 14);
      CHECK(told.filled().empty());
      for (const auto& [step, micro] : all_from(first)) use(source, step, micro);
      CHECK_THROWS_WITH(source.take(kSteps, 0), Catch::Contains("a run of 4 steps"));
    }
    CHECK(told.filled() == all_from(first));
    CHECK(told.used == all_from(first));
  }
}

TEST_CASE("it reads ahead over the end of a step as far as it has places", "[train]") {
  Told told;
  PrefetchingSource source(told, options());
  const std::optional<MicroBatch> first = source.take(0, 1);
  wait_until(told.done, PrefetchingSource::kPlaces);
  CHECK(told.filled() == std::vector<Place>{{0, 1}, {0, 2}, {1, 0}});
  CHECK(first->values<int32_t>("tokens")[0] == 10);  // and nothing is written over it
  CHECK(told.used.empty());
  source.give_back({});
  wait_until(told.done, PrefetchingSource::kPlaces + 1);
  CHECK(told.filled().back() == Place{1, 1});
}

TEST_CASE("an error is thrown where the step needs what could not be read", "[train]") {
  Told told;
  told.make_bad({0, 2}, true);
  PrefetchingSource source(told, options());
  use(source, 0, 0);
  use(source, 0, 1);
  CHECK_THROWS_WITH(source.take(0, 2), Catch::Contains("this one is torn"));
  CHECK_THROWS_AS(source.take(0, 2), DataError);  // it is tried again
  told.make_bad({0, 2}, false);
  use(source, 0, 2);
  use(source, 1, 0);
  CHECK(told.used == std::vector<Place>{{0, 0}, {0, 1}, {0, 2}, {1, 0}});
}

TEST_CASE("a step that is made again gets its own micro-batches", "[train]") {
  Told told;
  PrefetchingSource source(told, options());
  for (const auto& [step, micro] : std::vector<Place>{{0, 0}, {0, 1}, {0, 2}, {1, 0}}) {
    use(source, step, micro);
  }
  use(source, 1, 0);  // a bad step and one after it are forgotten
  use(source, 1, 1);
  use(source, 3, 2);
  CHECK(told.used.back() == Place{3, 2});
  const BatchSpec spec = batch_spec();
  const MicroBatch batch = host_batch(spec);
  source.fill(2, 1, batch);
  CHECK(batch.values<int32_t>("tokens")[0] == 210);
  CHECK(batch.values<int32_t>("targets")[0] == 1210);
}

TEST_CASE("who begins anew waits for what is being read, and forgets it", "[train]") {
  Told told;
  take_all(told.tickets);
  PrefetchingSource source(told, options());
  told.tickets.release();
  use(source, 0, 0);
  wait_until(told.asked, 2);
  const std::jthread opener([&] { told.tickets.release(1000); });
  use(source, 2, 0);
  use(source, 2, 1);
  CHECK(told.filled()[1] == Place{0, 1});
  CHECK(told.filled()[2] == Place{2, 0});
}

TEST_CASE("micro-batches of a short step are short, in the memory of the largest", "[train]") {
  Told told;
  const BatchSpec small({{.name = "tokens", .shape = {2}}, {.name = "targets", .shape = {2}}});
  const BatchSpec large = batch_spec();
  PrefetchingSource::Options with = options();
  with.spec_of = [&](int64_t step) -> const BatchSpec& { return step == 0 ? small : large; };
  PrefetchingSource source(told, with);
  for (int64_t step = 0; step < 3; ++step) {
    for (int micro_step = 0; micro_step < kMicroSteps; ++micro_step) {
      const std::optional<MicroBatch> batch = source.take(step, micro_step);
      REQUIRE(batch);
      const BatchSpec& spec = step == 0 ? small : large;
      CHECK(batch->block().bytes() == to_size(spec.bytes()));
      CHECK(batch->values<int32_t>("targets").size() == (step == 0 ? 2 : kTokens));
      CHECK(batch->values<int32_t>("targets")[1] == number_of(step, micro_step, 1) + 1000);
      source.give_back({});
    }
  }
}

TEST_CASE("it takes as much pinned memory as it says", "[train]") {
  HostMemory heap;
  MemoryAccount account;
  TrackingMemory pinned(heap, account);
  Told told;
  PrefetchingSource::Options given = options();
  given.pinned = &pinned;
  const PrefetchingSource source(told, given);
  CHECK(account.usage().bytes_now == PrefetchingSource::block_bytes(batch_spec()));
}

TEST_CASE("it ends while places are full, while it reads, and before it has begun", "[train]") {
  for (const bool full : {true, false}) {
    Told told;
    take_all(told.tickets);
    std::jthread opener;
    PrefetchingSource source(told, options());
    told.tickets.release(full ? 1000 : 1);
    use(source, 0, 0);
    if (full) {
      wait_until(told.done, PrefetchingSource::kPlaces + 1);
    } else {
      wait_until(told.asked, 2);
      opener = std::jthread([&] { told.tickets.release(); });
    }
  }
  Told told;
  { PrefetchingSource source(told, options()); }
  CHECK(told.filled().empty());
}

TEST_CASE("a micro-batch is given back before the next is taken", "[train]") {
  Told told;
  HostMemory host;
  MemoryAccount account;
  TrackingMemory pinned(host, account);
  PrefetchingSource::Options with = options();
  with.pinned = &pinned;
  PrefetchingSource source(told, with);
  CHECK(account.usage().bytes_now >= 3 * 16 * kTokens);
  CHECK_THROWS_WITH(source.give_back({}), Catch::Contains("no micro-batch has been taken"));
  REQUIRE(source.take(0, 0));
  CHECK_THROWS_WITH(source.take(0, 1), Catch::Contains("has not been given back"));
  with.largest = {};
  CHECK_THROWS_AS(PrefetchingSource(told, with), InternalError);
}

}  // namespace
}  // namespace ds
