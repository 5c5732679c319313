// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). A number is a pure function of (seed, stream name, index), so results depend
// on neither thread, rank nor call order.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace ds {

// One block of four 32-bit numbers. In the header, for kernels of a GPU to compute the same ones.
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53U} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

// In [0, 1), of the upper 24 bits of a word.
constexpr float uniform_of(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24F; }

// SplitMix64 finaliser (Steele et al., 2014): spreads names and indices over the key space.
constexpr uint64_t spread(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

class Rng {
 public:
  // Streams of different names under one seed are independent.
  Rng(uint64_t seed, std::string_view stream_name);
  // Derives a sub-stream, e.g. one per step or layer.
  constexpr Rng derive(uint64_t index) const { return Rng(spread(key_ ^ spread(index + 1))); }

  // A uniform 32-bit word.
  constexpr uint32_t bits(uint64_t index) const { return block(index / 4)[index % 4]; }
  constexpr float uniform(uint64_t index) const { return uniform_of(bits(index)); }
  float normal(uint64_t index) const;  // mean 0, variance 1 (Box-Muller)
  // out[i] = normal(first + i), several times faster than one by one: four share a block.
  void normals(uint64_t first, std::span<float> out) const;
  // Words 4*index .. 4*index+3.
  constexpr std::array<uint32_t, 4> block(uint64_t index) const {
    return philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0},
                      {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
  }
  constexpr uint64_t key() const { return key_; }
  static constexpr Rng from_key(uint64_t key) { return Rng(key); }  // that key() told

 private:
  constexpr explicit Rng(uint64_t key) : key_(key) {}
  uint64_t key_;
};

}  // namespace ds
