// Ranks as a grid of named axes.
#include "checkpoint/deepspeed/rank_grid.h"

#include <algorithm>
#include <limits>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

RankGrid::RankGrid(std::vector<std::string> axes, std::vector<int> sizes)
    : axes_(std::move(axes)), sizes_(std::move(sizes)), strides_(sizes_.size()) {
  if (axes_.size() != sizes_.size()) {
    throw ConfigError(fmt::format("grid: {} axes, but {} sizes", axes_.size(), sizes_.size()));
  }
  for (size_t i = axes_.size(); i-- > 0;) {
    if (axes_[i].empty() || std::ranges::count(axes_, axes_[i]) != 1) {
      throw ConfigError(fmt::format("grid: axis '{}' needs a name of its own", axes_[i]));
    }
    if (sizes_[i] < 1 || sizes_[i] > std::numeric_limits<int>::max() / world_size_) {
      throw ConfigError(fmt::format(
          "grid: axis {} has size {}, expected 1 or more and at most 2^31 - 1 ranks in all",
          axes_[i], sizes_[i]));
    }
    strides_[i] = world_size_;
    world_size_ *= sizes_[i];
  }
}

size_t RankGrid::index_of(std::string_view axis) const {
  const auto found = std::ranges::find(axes_, axis);
  if (found == axes_.end()) {
    throw ConfigError(
        fmt::format("grid: no axis {}, expected one of {}", axis, fmt::join(axes_, ", ")));
  }
  return to_size(found - axes_.begin());
}

int RankGrid::size(std::string_view axis) const {
  return std::ranges::find(axes_, axis) == axes_.end() ? 0 : sizes_[index_of(axis)];
}

std::vector<int> RankGrid::coordinates(int rank) const {
  if (rank < 0 || rank >= world_size_) {
    throw ConfigError(fmt::format("grid: rank {} is outside 0..{}", rank, world_size_ - 1));
  }
  std::vector<int> result;
  for (size_t i = 0; i < axes_.size(); ++i) result.push_back(rank / strides_[i] % sizes_[i]);
  return result;
}

int RankGrid::coordinate(int rank, std::string_view axis) const {
  return coordinates(rank)[index_of(axis)];
}

int RankGrid::rank(const Coordinates& coordinates) const {
  if (coordinates.size() != axes_.size()) {
    throw ConfigError(fmt::format("grid: {} coordinates given, expected one for each of {}",
                                  coordinates.size(), fmt::join(axes_, ", ")));
  }
  int rank = 0;
  for (const auto& [axis, at] : coordinates) {
    const size_t i = index_of(axis);
    if (at < 0 || at >= sizes_[i]) {
      throw ConfigError(fmt::format("grid: {} {} is outside 0..{}", axis, at, sizes_[i] - 1));
    }
    rank += at * strides_[i];
  }
  return rank;
}

int RankGrid::moved(int rank, const Coordinates& to) const {
  const std::vector<int> here = coordinates(rank);
  Coordinates target;
  for (size_t i = 0; i < axes_.size(); ++i) target[axes_[i]] = here[i];
  for (const auto& [axis, at] : to) target[axes_[index_of(axis)]] = at;
  return this->rank(target);
}

RankList RankGrid::matching(const Coordinates& wanted) const {
  std::vector<std::pair<size_t, int>> checks;
  for (const auto& [axis, at] : wanted) checks.emplace_back(index_of(axis), at);
  RankList result;
  for (int rank = 0; rank < world_size_; ++rank) {
    const bool all = std::ranges::all_of(checks, [&](const auto& check) {
      return rank / strides_[check.first] % sizes_[check.first] == check.second;
    });
    if (all) result.push_back(rank);
  }
  return result;
}

std::vector<RankList> RankGrid::groups(std::string_view axis) const {
  std::vector<RankList> result;
  if (size(axis) == 0) return result;
  // Ascending first members visit the other coordinates in axis order.
  for (const int first : matching({{std::string(axis), 0}}))
    result.push_back(group_of(first, axis));
  return result;
}

RankList RankGrid::group_of(int rank, std::string_view axis) const {
  const size_t i = index_of(axis);
  const int first = rank - coordinates(rank)[i] * strides_[i];
  RankList result;
  for (int at = 0; at < sizes_[i]; ++at) result.push_back(first + at * strides_[i]);
  return result;
}

std::string RankGrid::label(int rank, std::span<const std::string> omit, std::string_view inner,
                            std::string_view outer) const {
  const std::vector<int> here = coordinates(rank);
  std::vector<std::string> parts;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (std::ranges::find(omit, axes_[i]) != omit.end()) continue;
    parts.push_back(fmt::format("{}{}{:02d}", axes_[i], inner, here[i]));
  }
  return fmt::format("{}", fmt::join(parts, outer));
}

std::vector<int> prime_factors(int n) {
  if (n < 1) throw ConfigError(fmt::format("prime factors of {}: expected 1 or more", n));
  std::vector<int> factors;
  for (int candidate = 2; candidate <= n / candidate; ++candidate) {
    for (; n % candidate == 0; n /= candidate) factors.push_back(candidate);
  }
  if (n > 1) factors.push_back(n);
  return factors;
}

RankGrid default_pipeline_grid(int world_size) {
  int sizes[2] = {1, 1};
  size_t turn = 0;
  for (const int prime : prime_factors(world_size)) sizes[turn++ % 2] *= prime;
  return RankGrid({"pipe", "data"}, {sizes[0], sizes[1]});
}

std::vector<RankList> next_stage_pairs(const RankGrid& grid, std::string_view pipe_axis) {
  const int stages = grid.size(pipe_axis);
  std::vector<RankList> pairs;
  for (int rank = 0; rank < grid.world_size(); ++rank) {
    const int next = (grid.coordinate(rank, pipe_axis) + 1) % stages;
    pairs.push_back({rank, grid.moved(rank, {{std::string(pipe_axis), next}})});
  }
  return pairs;
}

}  // namespace ds
