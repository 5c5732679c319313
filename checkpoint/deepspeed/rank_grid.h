// Ranks as a grid of named axes (pure): which coordinates a rank has, which ranks differ in one
// axis only, which match given coordinates, and how a rank is spelt in file names. The first axis
// varies slowest. It creates no group; comm/mesh_layout.h gives the product's own axes their
// meaning.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

using RankList = std::vector<int>;
using Coordinates = std::map<std::string, int, std::less<>>;

class RankGrid {
 public:
  // Throws ConfigError for an axis without a name, a repeated axis, a size below 1, or more than
  // 2^31 - 1 ranks.
  RankGrid(std::vector<std::string> axes, std::vector<int> sizes);

  int world_size() const { return world_size_; }
  const std::vector<std::string>& axes() const { return axes_; }
  int size(std::string_view axis) const;  // 0 for an unknown axis

  // In axis order. All of these throw ConfigError for a rank outside the grid and for an unknown
  // axis.
  std::vector<int> coordinates(int rank) const;
  int coordinate(int rank, std::string_view axis) const;

  // Needs exactly one coordinate per axis, each inside its axis; throws ConfigError otherwise.
  int rank(const Coordinates& coordinates) const;

  // This rank with one or more coordinates replaced.
  int moved(int rank, const Coordinates& to) const;

  // Ascending ranks whose coordinates equal all given ones; a coordinate outside its axis matches
  // none.
  RankList matching(const Coordinates& wanted) const;

  // The groups of ranks that differ only in `axis`, ordered by the other coordinates; none for an
  // unknown axis.
  std::vector<RankList> groups(std::string_view axis) const;
  RankList group_of(int rank, std::string_view axis) const;

  // "<axis><inner><index, at least two digits>" joined by `outer`, without the axes in `omit`.
  std::string label(int rank, std::span<const std::string> omit, std::string_view inner = "_",
                    std::string_view outer = "-") const;

 private:
  size_t index_of(std::string_view axis) const;  // throws for an unknown axis

  std::vector<std::string> axes_;
  std::vector<int> sizes_;
  std::vector<int> strides_;
  int world_size_ = 1;
};

// Ascending prime factors of n >= 1; throws ConfigError below.
std::vector<int> prime_factors(int n);

// The grid of a job that names none: prime factors in turn to pipe and data.
RankGrid default_pipeline_grid(int world_size);

// For every rank the pair {rank, the same place in the next stage}; the last stage's next is the
// first.
std::vector<RankList> next_stage_pairs(const RankGrid& grid, std::string_view pipe_axis = "pipe");

}  // namespace ds
