// Whole numbers drawn for generated cases, the same for a seed on every machine.
#pragma once

#include <cstdint>
#include <random>

namespace ds::test {

class Draws {
 public:
  explicit Draws(uint32_t seed) : random_(seed) {}
  // Between them, both included.
  int64_t pick(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace ds::test
