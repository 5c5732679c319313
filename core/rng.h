// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). A number is a pure function of (seed, stream name, index), so results depend
// on neither thread, rank nor call order.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace ds {

// One block of four 32-bit numbers.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

class Rng {
 public:
  // Streams of different names under one seed are independent.
  Rng(uint64_t seed, std::string_view stream_name);
  // Derives a sub-stream, e.g. one per step or layer.
  Rng derive(uint64_t index) const;

  uint32_t bits(uint64_t index) const;  // uniform 32-bit word
  float uniform(uint64_t index) const;  // in [0, 1), 24 bits
  float normal(uint64_t index) const;   // mean 0, variance 1 (Box-Muller)
  // out[i] = normal(first + i), several times faster than one by one: four share a block.
  void normals(uint64_t first, std::span<float> out) const;
  std::array<uint32_t, 4> block(uint64_t index) const;  // words 4*index .. 4*index+3
  uint64_t key() const { return key_; }

 private:
  explicit Rng(uint64_t key) : key_(key) {}
  uint64_t key_;
};

}  // namespace ds
