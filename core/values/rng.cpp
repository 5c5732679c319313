#include "core/values/rng.h"

#include <cmath>
#include <numbers>

namespace ds {
namespace {

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

Rng::Rng(uint64_t seed, std::string_view stream_name)
    : key_(spread(spread(seed) ^ hash_name(stream_name))) {}

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
