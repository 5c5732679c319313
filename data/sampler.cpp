#include "data/sampler.h"

#include <bit>

#include "core/status/error.h"
#include "core/values/rng.h"

namespace ds {
namespace {

// Four rounds make a pseudo-random permutation of a wide block; narrow ones get a few more.
constexpr uint32_t kRounds = 7;

}  // namespace

Permutation::Permutation(int64_t size, uint64_t key) : size_(size), key_(key) {
  DS_CHECK(size > 0, "permutation of {} elements", size);
  const auto bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(size - 1)));
  half_bits_ = (bits + 1) / 2;
}

uint64_t Permutation::encrypt(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const auto words =
        philox4x32({static_cast<uint32_t>(right), static_cast<uint32_t>(right >> 32), round, 0},
                   {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
    const uint64_t drawn = uint64_t{words[1]} << 32 | words[0];
    const uint64_t next = left ^ (drawn & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

int64_t Permutation::operator()(int64_t index) const {
  DS_CHECK(index >= 0 && index < size_, "permutation: index {} of {}", index, size_);
  if (half_bits_ == 0) return 0;
  auto value = static_cast<uint64_t>(index);
  do {
    value = encrypt(value);
  } while (value >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(value);
}

Sampler::Sampler(int64_t samples, SampleOrder order, uint64_t seed, int64_t taken)
    : samples_(samples), order_(order), seed_(seed), taken_(taken) {
  DS_CHECK(taken > 0 && taken <= samples, "sampler: {} of {} samples", taken, samples);
}

int64_t Sampler::sample_at(int64_t position) const {
  DS_CHECK(position >= 0, "sampler: position {}", position);
  const int64_t index = position % taken_;
  if (order_ == SampleOrder::kSequential) return index;
  const Rng rng = Rng(seed_, "sample order").derive(static_cast<uint64_t>(epoch_of(position)));
  return Permutation(samples_, rng.key())(index);
}

}  // namespace ds
