// Which sample comes when (pure): a function of the seed and the position alone, never of the
// ranks, so that a run may stop, change its number of ranks, and go on with the samples it would
// have seen.
#pragma once

#include <cstdint>

namespace ds {

// A bijection of [0, size) drawn from a key, in constant memory and expected constant time per
// index: a Feistel network on the smallest even number of bits that holds the range (Luby and
// Rackoff 1988), its rounds taken from Philox; results outside the range are encrypted again until
// they fall inside (cycle walking; Black and Rogaway 2002).
class Permutation {
 public:
  Permutation(int64_t size, uint64_t key);
  int64_t operator()(int64_t index) const;

 private:
  uint64_t encrypt(uint64_t value) const;
  int64_t size_;
  uint64_t key_;
  int half_bits_;
};

enum class SampleOrder {
  kSequential,  // position p is sample p mod size
  kShuffled,    // each epoch is a permutation of its own
};

class Sampler {
 public:
  Sampler(int64_t samples, SampleOrder order, uint64_t seed)
      : Sampler(samples, order, seed, samples) {}
  // Takes the first `taken` samples of each epoch, in its own order; the others are left out.
  Sampler(int64_t samples, SampleOrder order, uint64_t seed, int64_t taken);
  // The sample at a position of the endless sequence of epochs; position = step * global batch +
  // index.
  int64_t sample_at(int64_t position) const;
  int64_t epoch_of(int64_t position) const { return position / taken_; }

 private:
  int64_t samples_;
  SampleOrder order_;
  uint64_t seed_;
  int64_t taken_;
};

// How a global batch is spread: micro-step after micro-step, rank after rank. Only data-parallel
// ranks count here.
struct BatchShape {
  int64_t micro_batch = 1;   // samples per rank and micro-step
  int64_t accumulation = 1;  // micro-steps per step
  int64_t ranks = 1;
  int64_t global_batch() const { return micro_batch * accumulation * ranks; }
  // The index in the global batch of the first sample of a rank's micro-step; its samples follow
  // on.
  int64_t first_index(int64_t micro_step, int64_t rank) const {
    return (micro_step * ranks + rank) * micro_batch;
  }
};

}  // namespace ds
