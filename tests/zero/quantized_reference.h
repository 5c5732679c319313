// What quantized sums must give, by a reference that knows neither kernels nor buckets.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "comm/traced_comm.h"
#include "core/values/index.h"
#include "core/values/rng.h"

namespace ds::testing {

// x, run by run: levels of equal width up to the largest magnitude, the largest positive one lost.
inline std::vector<float> through_codes(std::vector<float> x, int bits, int64_t slice) {
  const int64_t runs = (slice + 2047) / 2048;
  const auto run = static_cast<size_t>(slice / runs);
  const float half = std::exp2(static_cast<float>(bits - 1));
  for (size_t begin = 0; begin < x.size(); begin += run) {
    float largest = 0;
    for (size_t i = begin; i < begin + run; ++i) largest = std::max(largest, std::abs(x[i]));
    if (largest == 0) continue;
    const float scale = half / largest;
    for (size_t i = begin; i < begin + run; ++i) {
      x[i] = std::min(std::nearbyint(x[i] * scale), half - 1) / scale;
    }
  }
  return x;
}

inline std::vector<float> sum_of(const std::vector<std::vector<float>>& all) {
  std::vector<float> sum = all.front();
  for (size_t i = 1; i < all.size(); ++i) {
    for (size_t j = 0; j < sum.size(); ++j) sum[j] += all[i][j];
  }
  return sum;
}

struct Hops {
  int near = 1, far = 1;
  int ranks() const { return near * far; }
};

// Neighbours one after the other: those near add up first, then their sums.
inline std::vector<float> reduced(const std::vector<std::vector<float>>& of_ranks, Hops hops,
                                  int64_t slice) {
  std::vector<std::vector<float>> far;
  for (int place = 0; place < hops.far; ++place) {
    std::vector<std::vector<float>> near;
    for (int i = 0; i < hops.near; ++i) {
      near.push_back(through_codes(nth(of_ranks, place * hops.near + i), 4, slice));
    }
    far.push_back(sum_of(near));
    if (hops.near > 1 && hops.far > 1) far.back() = through_codes(far.back(), 4, slice);
  }
  return sum_of(far);
}

inline std::vector<float> numbers(uint64_t seed, int64_t count) {
  const Rng rng(seed, "gradient");
  std::vector<float> values(to_size(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<int>(rng.bits(i) % 20001) - 10000) / 4096.0F;
  }
  return values;
}

inline Mesh traced_mesh(Communicator& world, const MeshSizes& sizes, CommVolume& volume) {
  return Mesh::over(world, sizes, [&](Axis axis, Communicator& group) {
    return std::make_unique<TracedComm>(group, std::string(to_string(axis)),
                                        TracedComm::Sinks{.volume = &volume});
  });
}

}  // namespace ds::testing
