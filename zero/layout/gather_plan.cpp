#include "zero/layout/gather_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "core/values/index.h"

namespace ds {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

class Planner {
 public:
  Planner(std::span<const GatherEvent> events, std::span<const int64_t> numel,
          const GatherLimits& limits, const std::vector<bool>& elsewhere,
          const std::vector<bool>& brief)
      : events_(events), numel_(numel), limits_(limits), elsewhere_(elsewhere), brief_(brief) {}

  GatherPlan run() {
    plan_.events.assign(events_.begin(), events_.end());
    plan_.actions.resize(events_.size());
    for (size_t at = 0; at < events_.size(); ++at) {
      if (events_[at].kind == GatherEvent::Kind::kAcquire) {
        acquire(at);
      } else {
        idle(at);
      }
    }
    if (!events_.empty()) {
      while (!live_.empty()) release(live_.begin()->first, plan_.actions.back());
    }
    if (!elsewhere_.empty()) plan_fetches();
    return std::move(plan_);
  }

 private:
  // Elements acquired between event `at` and the next acquire of `bucket`; kNever if there is none.
  int64_t distance(int bucket, size_t at) const {
    int64_t between = 0;
    for (size_t next = at + 1; next < events_.size(); ++next) {
      if (events_[next].kind != GatherEvent::Kind::kAcquire) continue;
      if (events_[next].bucket == bucket) return between;
      between += size(events_[next].bucket);
    }
    return kNever;
  }

  int64_t size(int bucket) const { return nth(numel_, bucket); }

  void gather(int bucket, GatherAction& action) {
    action.gather.push_back(bucket);
    live_[bucket] = 0;
    live_numel_ += size(bucket);
    plan_.numel_gathered += size(bucket);
    plan_.live_numel_peak = std::max(plan_.live_numel_peak, live_numel_);
  }

  void release(int bucket, GatherAction& action) {
    action.release.push_back(bucket);
    live_numel_ -= size(bucket);
    live_.erase(bucket);
  }

  // Frees what is idle and needed last, until `wanted` more elements fit or nothing is idle.
  void make_room(int64_t wanted, size_t at, GatherAction& action) {
    while (live_numel_ + wanted > limits_.live_numel) {
      int victim = -1;
      int64_t farthest = -1;
      for (const auto& [bucket, leases] : live_) {
        const int64_t next = distance(bucket, at);
        if (leases == 0 && next > farthest) {
          victim = bucket;
          farthest = next;
        }
      }
      if (victim < 0) return;
      release(victim, action);
    }
  }

  void acquire(size_t at) {
    const int bucket = events_[at].bucket;
    GatherAction& action = plan_.actions[at];
    if (!live_.contains(bucket)) {
      make_room(size(bucket), at, action);
      gather(bucket, action);
    }
    live_[bucket] = 1;
    int64_t ahead = 0;
    for (size_t next = at + 1; next < events_.size(); ++next) {
      const int candidate = events_[next].bucket;
      if (events_[next].kind != GatherEvent::Kind::kAcquire || live_.contains(candidate)) continue;
      ahead += size(candidate);
      if (ahead > limits_.prefetch_numel) break;
      if (live_numel_ + size(candidate) > limits_.live_numel) break;
      gather(candidate, action);
    }
  }

  void idle(size_t at) {
    const int bucket = events_[at].bucket;
    live_[bucket] = 0;
    const int64_t next = distance(bucket, at);
    const bool is_brief = !brief_.empty() && nth(brief_, bucket);
    const bool keep = !is_brief && next != kNever && next <= limits_.reuse_numel &&
                      live_numel_ <= limits_.live_numel;
    if (!keep) release(bucket, plan_.actions[at]);
  }

  // A gather, and the slice that it needs.
  struct Need {
    size_t at = 0;
    int bucket = 0;
    int64_t numel_before = 0;  // acquired before this event
  };
  std::vector<Need> needs() const {
    std::vector<Need> needs;
    int64_t acquired = 0;
    for (size_t at = 0; at < events_.size(); ++at) {
      for (const int bucket : plan_.actions[at].gather) {
        if (nth(elsewhere_, bucket)) needs.push_back({at, bucket, acquired});
      }
      if (events_[at].kind == GatherEvent::Kind::kAcquire) acquired += size(events_[at].bucket);
    }
    return needs;
  }

  // In the order of the gathers; a bucket that is gathered twice is not fetched for the second one
  // before the first. One whose turn comes when all buffers are full is fetched by its gather,
  // after those before it.
  void plan_fetches() {
    const std::vector<Need> all = needs();
    size_t next = 0;
    size_t gathered = 0;       // of the needs
    std::vector<int> fetched;  // and not gathered, in order
    int64_t acquired = 0;
    for (size_t at = 0; at < events_.size(); ++at) {
      for (; gathered < all.size() && all[gathered].at < at; ++gathered) {
        if (!fetched.empty() && fetched.front() == all[gathered].bucket) {
          fetched.erase(fetched.begin());
        }
      }
      for (; next < all.size(); ++next) {
        const bool due = all[next].at == at;
        if (!due && all[next].numel_before - acquired > limits_.fetch_numel) break;
        const bool has_place = std::cmp_less(fetched.size(), limits_.fetches) &&
                               std::ranges::find(fetched, all[next].bucket) == fetched.end();
        if (!has_place && !due) break;
        if (!has_place) continue;
        plan_.actions[at].fetch.push_back(all[next].bucket);
        fetched.push_back(all[next].bucket);
      }
      if (events_[at].kind == GatherEvent::Kind::kAcquire) acquired += size(events_[at].bucket);
    }
    for (const Need& need : all) plan_.numel_fetched += size(need.bucket);
  }

  const std::span<const GatherEvent> events_;
  const std::span<const int64_t> numel_;
  const GatherLimits limits_;
  const std::vector<bool>& elsewhere_;
  const std::vector<bool>& brief_;
  GatherPlan plan_;
  std::map<int, int> live_;  // bucket -> 1 while leased, 0 while idle
  int64_t live_numel_ = 0;
};

}  // namespace

GatherPlan plan_gathers(std::span<const GatherEvent> events, std::span<const int64_t> bucket_numel,
                        const GatherLimits& limits, const std::vector<bool>& elsewhere,
                        const std::vector<bool>& brief) {
  return Planner(events, bucket_numel, limits, elsewhere, brief).run();
}

std::string GatherPlan::to_string() const {
  std::string text;
  for (size_t i = 0; i < events.size(); ++i) {
    text += fmt::format("{} {}", events[i].kind == GatherEvent::Kind::kAcquire ? "acquire" : "idle",
                        events[i].bucket);
    if (!actions[i].release.empty())
      text += fmt::format(" release {}", fmt::join(actions[i].release, " "));
    if (!actions[i].fetch.empty())
      text += fmt::format(" fetch {}", fmt::join(actions[i].fetch, " "));
    if (!actions[i].gather.empty())
      text += fmt::format(" gather {}", fmt::join(actions[i].gather, " "));
    text += '\n';
  }
  text += fmt::format("gathered {} elements, at most {} live\n", numel_gathered, live_numel_peak);
  if (numel_fetched > 0) text += fmt::format("fetched slices of {} elements\n", numel_fetched);
  return text;
}

}  // namespace ds
