// The random numbers of core/values/rng.h on the device: those of the CPU, to the bit.
#pragma once

#include <array>

#include "core/values/rng.h"
#include "kernels/cuda/launch.cuh"

namespace ds::cuda {

// Numbers of neighbouring indices: a block of the generator is made once for its four words.
class Uniforms {
 public:
  __device__ Uniforms(const Rng& rng, uint64_t index) : rng_(rng), at_(index / 4) {
    words_ = rng_.block(at_);
  }
  __device__ float at(uint64_t index) {
    if (index / 4 != at_) {
      at_ = index / 4;
      words_ = rng_.block(at_);
    }
    // Chosen, not indexed: an index that is not known before would move the words into memory.
    const uint32_t low = index % 2 == 0 ? words_[0] : words_[1];
    const uint32_t high = index % 2 == 0 ? words_[2] : words_[3];
    return uniform_of(index % 4 < 2 ? low : high);
  }

 private:
  const Rng& rng_;
  uint64_t at_;
  std::array<uint32_t, 4> words_{};
};

}  // namespace ds::cuda
