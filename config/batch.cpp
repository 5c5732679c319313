// The batch triangle.
#include "config/batch.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "core/status/error.h"

namespace ds {

namespace {

void require_positive(std::string_view key, int64_t value) {
  if (value <= 0)
    throw ConfigError(fmt::format("{} is {}, it has to be greater than 0", key, value));
}

int64_t product(int64_t a, int64_t b, int64_t c) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result) || __builtin_mul_overflow(result, c, &result)) {
    throw ConfigError(fmt::format(
        "batch size {} * {} * {} does not fit 64 bits; use smaller batch sizes", a, b, c));
  }
  return result;
}

std::string data_ranks_text(int64_t world) {
  return fmt::format("{} data-parallel rank{}", world, world == 1 ? "" : "s");
}

// The numbers of ranks next to `world` that can share `samples` out equally: "2 or 4 ranks".
std::string fitting_ranks(int64_t samples, int64_t world) {
  constexpr int64_t kMostTried = 1 << 16;
  const auto divides = [&](int64_t ranks) { return samples % ranks == 0; };
  int64_t fewer = std::min({world - 1, samples, kMostTried});
  while (fewer > 0 && !divides(fewer)) --fewer;
  int64_t more = world + 1;
  const int64_t most = std::min(samples, world + kMostTried);
  while (more <= most && !divides(more)) ++more;
  std::string out;
  if (fewer > 0) out = std::to_string(fewer);
  if (more <= most) out += fmt::format("{}{}", out.empty() ? "" : " or ", more);
  return out.empty() ? out : out + (out == "1" ? " rank" : " ranks");
}

// A train_batch_size that the other numbers do not make up. The message names what was written and
// what would fit.
ConfigError disagreement(int64_t train, std::optional<int64_t> micro,
                         std::optional<int64_t> accumulation, int64_t world) {
  std::string factors;
  if (micro) factors += fmt::format("train_micro_batch_size_per_gpu {} * ", *micro);
  if (accumulation) factors += fmt::format("gradient_accumulation_steps {} * ", *accumulation);
  factors += data_ranks_text(world);
  const int64_t per_rank = product(micro.value_or(1), accumulation.value_or(1), 1);
  const int64_t step = product(per_rank, world, 1);
  if (micro || accumulation) factors += fmt::format(" = {}", step);
  const bool exact = micro && accumulation;
  std::string fits;
  if (exact) {
    fits = std::to_string(step);
  } else {
    const int64_t below = train / step * step;
    fits = below > 0 ? fmt::format("{} or {}", below, product(train / step + 1, step, 1))
                     : std::to_string(step);
  }
  std::string ranks;
  if (train % per_rank == 0) {
    ranks = exact ? data_ranks_text(train / per_rank) : fitting_ranks(train / per_rank, world);
  }
  return ConfigError(
      fmt::format("batch sizes do not agree: train_batch_size {} is {} {}; a train_batch_size of "
                  "{} would fit{}",
                  train, exact ? "not" : "no multiple of", factors, fits,
                  ranks.empty() ? "" : fmt::format(", or {}", ranks)));
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

  if (!train) {
    const int64_t steps = accumulation.value_or(1);
    return {.train = product(*micro, steps, world), .micro = *micro, .accumulation = steps};
  }
  const int64_t step = product(micro.value_or(1), accumulation.value_or(1), world);
  const bool agree = micro && accumulation ? *train == step : *train % step == 0;
  if (!agree) throw disagreement(*train, micro, accumulation, world);
  return {.train = *train,
          .micro = micro.value_or(*train / step),
          .accumulation = accumulation.value_or(micro ? *train / step : 1)};
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
