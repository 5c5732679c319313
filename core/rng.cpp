#include "core/rng.h"

#include <cmath>
#include <numbers>

namespace ds {
namespace {

// SplitMix64 finaliser (Steele et al., 2014): spreads names and indices over the key space.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

uint64_t hash_name(std::string_view name) {  // FNV-1a
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  }
  return hash;
}

// Two independent normals from two uniform words (Box and Muller, 1958).
std::array<float, 2> box_muller(uint32_t radius_word, uint32_t angle_word) {
  const double u = (static_cast<double>(radius_word) + 1.0) * 0x1p-32;
  const double angle = 2.0 * std::numbers::pi * (static_cast<double>(angle_word) * 0x1p-32);
  const double radius = std::sqrt(-2.0 * std::log(u));
  return {static_cast<float>(radius * std::cos(angle)),
          static_cast<float>(radius * std::sin(angle))};
}

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
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

Rng::Rng(uint64_t seed, std::string_view stream_name)
    : key_(mix(mix(seed) ^ hash_name(stream_name))) {}

Rng Rng::derive(uint64_t index) const { return Rng(mix(key_ ^ mix(index + 1))); }

std::array<uint32_t, 4> Rng::block(uint64_t index) const {
  return philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0},
                    {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
}

uint32_t Rng::bits(uint64_t index) const { return block(index / 4)[index % 4]; }

float Rng::uniform(uint64_t index) const { return static_cast<float>(bits(index) >> 8) * 0x1p-24F; }

float Rng::normal(uint64_t index) const {
  const auto words = block(index / 4);
  const size_t pair = index % 4 / 2 * 2;
  return box_muller(words[pair], words[pair + 1])[index % 2];
}

void Rng::normals(uint64_t first, std::span<float> out) const {
  size_t i = 0;
  for (; i < out.size() && (first + i) % 4 != 0; ++i) out[i] = normal(first + i);
  for (; i + 4 <= out.size(); i += 4) {
    const auto words = block((first + i) / 4);
    const auto low = box_muller(words[0], words[1]);
    const auto high = box_muller(words[2], words[3]);
    out[i] = low[0];
    out[i + 1] = low[1];
    out[i + 2] = high[0];
    out[i + 3] = high[1];
  }
  for (; i < out.size(); ++i) out[i] = normal(first + i);
}

}  // namespace ds
