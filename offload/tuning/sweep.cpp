#include "offload/tuning/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/status/error.h"
#include "core/values/index.h"
#include "core/values/number_text.h"

namespace ds {
namespace {

constexpr size_t kAxes = 5;
using Place = std::array<size_t, kAxes>;  // an index into each axis

// From what changes speeds most to what changes them least.
Place sizes_of(const SweepSpace& space) {
  return {space.io_parallels.size(), space.block_sizes.size(), space.queue_depths.size(),
          space.overlap_events.size(), space.single_submits.size()};
}

IoSetting setting_at(const SweepSpace& space, const Place& place) {
  return {.block_size = space.block_sizes[place[1]],
          .queue_depth = space.queue_depths[place[2]],
          .overlap_events = space.overlap_events[place[3]],
          .single_submit = space.single_submits[place[4]],
          .io_parallel = space.io_parallels[place[0]]};
}

std::vector<Place> all_places(const SweepSpace& space) {
  const Place sizes = sizes_of(space);
  std::vector<Place> places;
  for (size_t i = 0; i < settings_in(space); ++i) {
    Place place{};
    size_t rest = i;
    for (size_t axis = kAxes; axis-- > 0; rest /= sizes[axis]) place[axis] = rest % sizes[axis];
    places.push_back(place);
  }
  return places;
}

size_t differences(const Place& a, const Place& b) {
  size_t count = 0;
  for (size_t axis = 0; axis < kAxes; ++axis) count += a[axis] != b[axis] ? 1 : 0;
  return count;
}

// Goes through the search again with the scores that are known, up to the first that is not.
class Replay {
 public:
  Replay(const SweepSpace& space, const std::vector<IoTrialScore>& tried)
      : sizes_(sizes_of(space)), places_(all_places(space)) {
    for (const Place& place : places_) {
      const IoSetting setting = setting_at(space, place);
      const auto found = std::ranges::find(tried, setting, &IoTrialScore::setting);
      if (found != tried.end()) scores_.emplace(place, found->score);
    }
  }

  // Nothing when every place has been visited.
  std::optional<Place> first_unknown() {
    Place start{};
    while (true) {
      if (const auto unknown = descend_from(start)) return unknown;
      const auto next = farthest();
      if (!next) return std::nullopt;
      start = *next;
    }
  }

 private:
  bool visit(const Place& place) {
    visited_.emplace(place, true);
    return scores_.contains(place);
  }

  std::optional<Place> descend_from(Place at) {
    if (!visit(at)) return at;
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t axis = 0; axis < kAxes; ++axis) {
        Place best = at;
        for (Place place = at; const size_t value : order_from(at[axis], sizes_[axis])) {
          place[axis] = value;
          if (!visit(place)) return place;
          if (scores_.at(place) > scores_.at(best)) best = place;
        }
        moved = moved || best != at;
        at = best;
      }
    }
    return std::nullopt;
  }

  static std::vector<size_t> order_from(size_t here, size_t size) {
    std::vector<size_t> order;
    for (size_t value = 0; value < size; ++value) {
      if (value != here) order.push_back(value);
    }
    return order;
  }

  // The first of those whose nearest visited place is farthest.
  std::optional<Place> farthest() const {
    std::optional<Place> best;
    size_t most = 0;
    for (const Place& place : places_) {
      size_t nearest = kAxes;
      for (const auto& [other, was_here] : visited_)
        nearest = std::min(nearest, differences(place, other));
      if (nearest > most) {
        most = nearest;
        best = place;
      }
    }
    return best;
  }

  const Place sizes_;
  const std::vector<Place> places_;
  std::map<Place, double> scores_;
  std::map<Place, bool> visited_;
};

}  // namespace

size_t settings_in(const SweepSpace& space) {
  size_t count = 1;
  for (const size_t size : sizes_of(space)) count *= size;
  return count;
}

std::vector<IoSetting> all_settings(const SweepSpace& space) {
  std::vector<IoSetting> settings;
  for (const Place& place : all_places(space)) settings.push_back(setting_at(space, place));
  return settings;
}

size_t trials_allowed(const SweepSpace& space) {
  size_t along_axes = 1;
  for (const size_t size : sizes_of(space)) along_axes += size - 1;
  const size_t all = settings_in(space);
  return std::min(all, std::max(all / 4, along_axes));
}

std::optional<IoSetting> next_setting(const SweepSpace& space,
                                      const std::vector<IoTrialScore>& tried, size_t budget) {
  DS_CHECK(settings_in(space) > 0, "sweep: an axis has no value");
  if (tried.size() >= budget) return std::nullopt;
  const auto place = Replay(space, tried).first_unknown();
  return place ? std::optional(setting_at(space, *place)) : std::nullopt;
}

std::string to_text(const IoSetting& setting) {
  const ScaledBytes block = scale_bytes(static_cast<double>(setting.block_size));
  return fmt::format("{:.4g} {} blocks, depth {}, {}, {}, {} thread{}", block.value, block.unit,
                     setting.queue_depth, setting.overlap_events ? "overlapped" : "sequential",
                     setting.single_submit ? "submitted singly" : "batched", setting.io_parallel,
                     setting.io_parallel == 1 ? "" : "s");
}

}  // namespace ds
