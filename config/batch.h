// The batch triangle (pure): train_batch_size = train_micro_batch_size_per_gpu *
// gradient_accumulation_steps * data-parallel size. Derives whichever corners are absent and
// refuses numbers that do not agree. It knows nothing of elasticity (config/elastic_batch.h) and
// reads no JSON.
#pragma once

#include <cstdint>
#include <optional>

namespace ds {

// Samples per optimizer update over all ranks, samples per rank and micro-step, micro-steps per
// update.
struct BatchSizes {
  int64_t train = 0;
  int64_t micro = 0;
  int64_t accumulation = 0;
  friend bool operator==(const BatchSizes&, const BatchSizes&) = default;
};

// Completes the triangle.
//   train, micro        -> accumulation = train / micro / world
//   train, accumulation -> micro = train / world / accumulation
//   micro, accumulation -> train = micro * accumulation * world
//   train               -> accumulation = 1, micro = train / world
//   micro               -> accumulation = 1, train = micro * world
// `world` is the data-parallel size. Throws ConfigError when neither train nor micro is given, when
// a number is not positive, or when the product does not hold; the message names what was given and
// what would fit.
BatchSizes resolve_batch(std::optional<int64_t> train, std::optional<int64_t> micro,
                         std::optional<int64_t> accumulation, int64_t world);

// Ranks that see different samples: world / model_ranks, where model_ranks is the number of ranks
// that share one sample (pipeline * tensor * sequence sizes). Throws ConfigError when it does not
// divide, or when the mesh that is asked for has another number of them.
int64_t data_parallel_size(int64_t world, int64_t model_ranks,
                           std::optional<int64_t> of_mesh = std::nullopt);

}  // namespace ds
