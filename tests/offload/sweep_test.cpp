// The search for the best setting, on surfaces that are known everywhere.
#include "offload/tuning/sweep.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "tests/support/catch.h"

namespace ds {
namespace {

using Surface = std::function<double(const IoSetting&)>;

struct Found {
  double best = 0;
  size_t trials = 0;
};

Found search(const SweepSpace& space, const Surface& surface, size_t budget) {
  std::vector<IoTrialScore> tried;
  Found found;
  while (const auto setting = next_setting(space, tried, budget)) {
    CHECK(std::ranges::find(tried, *setting, &IoTrialScore::setting) == tried.end());
    tried.push_back({*setting, surface(*setting)});
    found.best = std::max(found.best, tried.back().score);
  }
  found.trials = tried.size();
  return found;
}

double best_of(const SweepSpace& space, const Surface& surface) {
  double best = 0;
  for (const IoSetting& setting : all_settings(space)) best = std::max(best, surface(setting));
  return best;
}

// A disk whose speed grows with the bytes under way until it is full, with what each block and each
// thread costs the host, and with waits between batches that are not overlapped.
struct Disk {
  double peak = 6;                 // GB/s
  double enough_bytes = 16 << 20;  // under way for half of the peak
  double cost_per_block = 20e-6;   // s of a thread
  double cost_per_thread = 0.02;   // of the speed, for each
  double gap = 0.2;                // of the speed, where batches are not overlapped
  double single_cost = 10e-6;      // s for each block submitted singly
  double noise = 0;                // of the speed
  uint64_t seed = 0;

  double operator()(const IoSetting& s) const {
    const double under_way =
        static_cast<double>(s.block_size) * s.queue_depth * static_cast<double>(s.io_parallel);
    double speed = peak * under_way / (under_way + enough_bytes);
    const double cost = cost_per_block + (s.single_submit ? single_cost : 0);
    speed = std::min(speed, s.io_parallel * static_cast<double>(s.block_size) / cost / 1e9);
    speed *= 1 - cost_per_thread * s.io_parallel;
    if (!s.overlap_events) speed *= 1 - gap / s.queue_depth * 32;
    std::mt19937_64 random(seed ^ std::hash<std::string>()(to_text(s)));
    return speed * (1 + noise * std::uniform_real_distribution<>(-1, 1)(random));
  }
};

Disk random_disk(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto between = [&](double low, double high) {
    return low * std::pow(high / low, std::uniform_real_distribution<>(0, 1)(random));
  };
  return {.peak = between(0.1, 30),
          .enough_bytes = between(1 << 16, 1 << 29),
          .cost_per_block = between(1e-6, 5e-3),
          .cost_per_thread = between(1e-4, 0.1),
          .gap = between(0.01, 0.9),
          .single_cost = between(1e-7, 1e-3),
          .seed = seed};
}

const SweepSpace kFine{.block_sizes = {1 << 20, 1 << 17, 1 << 18, 1 << 22, 1 << 23, 1 << 24},
                       .queue_depths = {32, 4, 8, 16, 64, 128},
                       .io_parallels = {1, 2, 4, 8, 16}};

}  // namespace

TEST_CASE("the search comes to 0.97 of the best in a quarter of the trials", "[offload]") {
  for (const SweepSpace& space : {SweepSpace{}, kFine}) {
    int missed_by_noise = 0;
    for (uint64_t seed = 0; seed < 25; ++seed) {
      INFO("disk " << seed);
      Disk disk = random_disk(seed);
      const Found found = search(space, disk, trials_allowed(space));
      CHECK(found.trials * 4 <= settings_in(space));
      CHECK(found.best >= 0.97 * best_of(space, disk));
      // With a noise that may be all of the 0.03, nearly always.
      disk.noise = 0.015;
      const double noisy = search(space, disk, trials_allowed(space)).best;
      missed_by_noise += noisy < 0.97 * best_of(space, disk) ? 1 : 0;
    }
    CHECK(missed_by_noise <= 1);
  }
}

TEST_CASE("axes that matter only together are found by beginning again elsewhere", "[offload]") {
  // Two threads alone, or singly submitted blocks alone, gain nothing; together they are best.
  const Surface valley = [](const IoSetting& s) {
    const bool far = s.io_parallel == 8 && s.block_size > 1 << 20 && s.single_submit;
    return far ? 2.0 : 1.0 / (s.io_parallel + (s.single_submit ? 1 : 0));
  };
  const SweepSpace space;
  CHECK(search(space, valley, settings_in(space)).best == 2.0);
}

TEST_CASE("the search tries every setting where the budget lets it, each once", "[offload]") {
  const SweepSpace space{.io_parallels = {1, 3}};
  const Found found = search(space, Disk{}, 1000);
  CHECK(found.trials == settings_in(space));
  CHECK(found.best == best_of(space, Disk{}));
}

TEST_CASE("a small space gets one look along each axis", "[offload]") {
  const SweepSpace one{{1 << 20}, {32}, {true}, {false}, {1}};
  CHECK(trials_allowed(one) == 1);
  CHECK(search(one, Disk{}, trials_allowed(one)).trials == 1);
  const SweepSpace two{{1 << 20}, {32, 64}, {true}, {false}, {1, 2}};
  CHECK(trials_allowed(two) == 3);
  CHECK(trials_allowed(SweepSpace{}) == 16);
}

TEST_CASE("a setting is told in words", "[offload]") {
  CHECK(to_text({}) == "1 MiB blocks, depth 32, overlapped, batched, 1 thread");
  CHECK(to_text({8 << 20, 4, false, true, 2}) ==
        "8 MiB blocks, depth 4, sequential, submitted singly, 2 threads");
}

}  // namespace ds
