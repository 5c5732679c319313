// The batch triangle.
#include "config/batch.h"

#include <string_view>

#include "core/error.h"

namespace ds {

namespace {

void require_positive(std::string_view key, int64_t value) {
  if (value <= 0)
    throw ConfigError(fmt::format("{} is {}, it has to be greater than 0", key, value));
}

void require_positive(const BatchSizes& sizes) {
  require_positive("train_batch_size", sizes.train);
  require_positive("train_micro_batch_size_per_gpu", sizes.micro);
  require_positive("gradient_accumulation_steps", sizes.accumulation);
}

int64_t product(int64_t a, int64_t b, int64_t c) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result) || __builtin_mul_overflow(result, c, &result)) {
    throw ConfigError(fmt::format(
        "batch size {} * {} * {} does not fit 64 bits; use smaller batch sizes", a, b, c));
  }
  return result;
}

}  // namespace

BatchSizes resolve_batch(std::optional<int64_t> train, std::optional<int64_t> micro,
                         std::optional<int64_t> accumulation, int64_t world) {
  DS_CHECK(world >= 1, "resolve_batch: data-parallel size is {}, expected 1 or more", world);
  if (!train && !micro) {
    throw ConfigError(
        "batch size: give train_batch_size or train_micro_batch_size_per_gpu (neither is set)");
  }
  // What is given is checked before it divides anything.
  if (train) require_positive("train_batch_size", *train);
  if (micro) require_positive("train_micro_batch_size_per_gpu", *micro);
  if (accumulation) require_positive("gradient_accumulation_steps", *accumulation);

  BatchSizes sizes;
  if (!train) {
    sizes.micro = *micro;
    sizes.accumulation = accumulation.value_or(1);
    sizes.train = product(sizes.micro, sizes.accumulation, world);
  } else if (!micro) {
    sizes.train = *train;
    sizes.accumulation = accumulation.value_or(1);
    sizes.micro = *train / world / sizes.accumulation;
  } else {
    sizes.train = *train;
    sizes.micro = *micro;
    sizes.accumulation = accumulation ? *accumulation : *train / *micro / world;
  }
  require_positive(sizes);
  if (sizes.train != product(sizes.micro, sizes.accumulation, world)) {
    throw ConfigError(
        fmt::format("batch sizes do not agree: train_batch_size != train_micro_batch_size_per_gpu "
                    "* gradient_accumulation_steps * "
                    "data-parallel size: {} != {} * {} * {}",
                    sizes.train, sizes.micro, sizes.accumulation, world));
  }
  return sizes;
}

int64_t data_parallel_size(int64_t world, int64_t model_ranks, std::optional<int64_t> of_mesh) {
  if (model_ranks < 1)
    throw ConfigError(
        fmt::format("parallel sizes multiply to {}, expected 1 or more", model_ranks));
  if (world < 1 || world % model_ranks != 0) {
    throw ConfigError(fmt::format(
        "{} ranks cannot be split among pipeline, tensor and sequence sizes that multiply to "
        "{}; choose a number of ranks that it divides",
        world, model_ranks));
  }
  const int64_t ranks = world / model_ranks;
  if (of_mesh && ranks != *of_mesh) {
    throw ConfigError(fmt::format(
        "data_parallel_size {} and {} ranks for each sample are a mesh of {} ranks, and there are "
        "{}; use as many, or leave data_parallel_size out",
        *of_mesh, model_ranks, *of_mesh * model_ranks, world));
  }
  return ranks;
}

}  // namespace ds
