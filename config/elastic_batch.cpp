// Elastic batches.
#include "config/elastic_batch.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace ds {

namespace {

// The smallest highly composite numbers: more divisors than any smaller number, hence many valid
// counts.
constexpr std::array<int64_t, 38> kHighlyComposite = {
    1,      2,      4,      6,      12,     24,     36,     48,    60,    120,
    180,    240,    360,    720,    840,    1260,   1680,   2520,  5040,  7560,
    10080,  15120,  20160,  25200,  27720,  45360,  50400,  55440, 83160, 110880,
    166320, 221760, 277200, 332640, 498960, 554400, 665280, 720720};

[[noreturn]] void refuse(ElasticProblem problem, const std::string& message) {
  throw ElasticError(problem, "elasticity: " + message);
}

void require_at_least(std::string_view key, int64_t value, int64_t least) {
  if (value < least) {
    refuse(ElasticProblem::kConfig,
           fmt::format("{} is {}, expected {} or more", key, value, least));
  }
}

int64_t least_common_multiple(std::span<const int64_t> values, int64_t bound) {
  int64_t lcm = 1;
  for (const int64_t value : values) {
    const int64_t factor = value / std::gcd(lcm, value);
    // Beyond the bound the multiple is dropped anyway; stop before it overflows.
    if (factor > bound / lcm) return bound + 1;
    lcm *= factor;
  }
  return lcm;
}

struct Choice {
  int64_t batch = 0;
  std::optional<std::vector<int64_t>> counts;
};

// Most valid counts wins; among equals the larger batch, or the smaller one.
Choice best_candidate(std::span<const int64_t> candidates, std::span<const int64_t> micros,
                      int64_t low, int64_t high, bool prefer_larger) {
  Choice best{.batch = *std::ranges::min_element(micros), .counts = std::nullopt};
  for (const int64_t batch : candidates) {
    std::vector<int64_t> counts = valid_device_counts(batch, micros, low, high);
    const size_t leading = best.counts ? best.counts->size() : 0;
    const bool preferred = prefer_larger ? batch > best.batch : batch < best.batch;
    if (counts.size() > leading || (counts.size() == leading && preferred)) {
      best = {.batch = batch, .counts = std::move(counts)};
    }
  }
  return best;
}

Choice choose_by_count(std::span<const int64_t> micros, int64_t bound, int64_t low, int64_t high,
                       bool prefer_larger) {
  for (const int64_t micro : micros) {
    if (micro > bound) {
      refuse(ElasticProblem::kConfig,
             fmt::format("micro batch {} is larger than the batch bound {}", micro, bound));
    }
  }
  const int64_t smallest = *std::ranges::min_element(micros);
  const std::vector<int64_t> candidates = candidate_batches(micros, bound);
  return best_candidate(candidates, micros, low == 0 ? 1 : low, high == 0 ? bound / smallest : high,
                        prefer_larger);
}

// The first micro batch that divides one device's share, or the largest such.
std::optional<int64_t> micro_for_devices(const ElasticOptions& options, double batch,
                                         int64_t devices) {
  std::optional<int64_t> chosen;
  const double share = std::floor(batch / static_cast<double>(devices));
  for (const int64_t micro : options.micro_batch_sizes) {
    if (std::fmod(share, static_cast<double>(micro)) != 0) continue;
    if (!chosen || (options.prefer_larger_batch && *chosen < micro)) chosen = micro;
  }
  return chosen;
}

ElasticBatch by_nodes(const ElasticOptions& options, int64_t devices) {
  const int64_t per_node = options.num_gpus_per_node;
  if (per_node % options.model_parallel_size != 0) {
    refuse(ElasticProblem::kUnavailable,
           fmt::format("num_gpus_per_node {} is not a multiple of model_parallel_size {}", per_node,
                       options.model_parallel_size));
  }
  const int64_t ranks_per_node = per_node / options.model_parallel_size;
  const Choice nodes = choose_by_count(
      options.micro_batch_sizes, options.max_train_batch_size / ranks_per_node,
      options.min_gpus / per_node, options.max_gpus / per_node, options.prefer_larger_batch);
  if (!nodes.counts) {
    refuse(ElasticProblem::kConfig,
           fmt::format("no batch up to {} fits any node count from {} to {} devices",
                       options.max_train_batch_size, options.min_gpus, options.max_gpus));
  }
  ElasticBatch result{.train_batch_size = nodes.batch * ranks_per_node,
                      .valid_counts = nodes.counts};
  for (int64_t& count : *result.valid_counts) count *= ranks_per_node;
  if (std::ranges::binary_search(*result.valid_counts, devices / options.model_parallel_size)) {
    result.micro_batch_size =
        micro_for_devices(options, static_cast<double>(result.train_batch_size), devices);
    return result;
  }
  // The present size is none of the good ones: serve it alone, with the batch nearest to the bound.
  // Whole nodes are not required here, so the data-parallel size may be a fraction, as in the
  // reference.
  const double ranks = static_cast<double>(devices) / static_cast<double>(per_node) *
                       static_cast<double>(ranks_per_node);
  std::vector<double> batches;
  for (const int64_t micro : options.micro_batch_sizes) {
    const double least = static_cast<double>(micro) * ranks;
    batches.push_back(std::floor(static_cast<double>(options.max_train_batch_size) / least) *
                      least);
  }
  const auto [low, high] = std::ranges::minmax_element(batches);
  const double batch = options.prefer_larger_batch ? *high : *low;
  result.micro_batch_size = micro_for_devices(options, batch, devices);
  result.train_batch_size = static_cast<int64_t>(batch);
  result.valid_counts = std::vector<int64_t>{static_cast<int64_t>(ranks)};
  return result;
}

// The largest micro batch that divides the share of each of `world` ranks.
int64_t micro_for_world(const ElasticOptions& options, int64_t batch, int64_t world) {
  int64_t chosen = 0;
  for (const int64_t micro : options.micro_batch_sizes) {
    if (batch / world % micro == 0) chosen = std::max(chosen, micro);
  }
  if (chosen == 0) {
    refuse(ElasticProblem::kIncompatibleWorld,
           fmt::format("none of the micro batches [{}] divides {} / {}",
                       fmt::join(options.micro_batch_sizes, ", "), batch, world));
  }
  return chosen;
}

// DeepSpeed's rules come to a batch of nothing where even the smallest micro batch is too much.
void require_batch(const ElasticBatch& batch, const ElasticOptions& options, int64_t devices) {
  if (batch.train_batch_size >= 1) return;
  refuse(ElasticProblem::kUnavailable,
         fmt::format("no micro batch fits {} devices within the batch bound {}", devices,
                     options.max_train_batch_size));
}

}  // namespace

std::string_view to_string(ElasticProblem problem) {
  switch (problem) {
    case ElasticProblem::kConfig:
      return "ElasticityConfigError";
    case ElasticProblem::kUnavailable:
      return "ElasticityError";
    case ElasticProblem::kIncompatibleWorld:
      return "ElasticityIncompatibleWorldSize";
  }
  return "ElasticityError";
}

void validate(const ElasticOptions& o) {
  for (const int64_t micro : o.micro_batch_sizes)
    require_at_least("micro_batch_sizes entry", micro, 1);
  require_at_least("min_gpus", o.min_gpus, 1);
  require_at_least("max_gpus", o.max_gpus, 1);
  if (o.max_gpus < o.min_gpus) {
    refuse(ElasticProblem::kConfig,
           fmt::format("min_gpus {} exceeds max_gpus {}", o.min_gpus, o.max_gpus));
  }
  require_at_least("model_parallel_size", o.model_parallel_size, 1);
  require_at_least("num_gpus_per_node", o.num_gpus_per_node, 1);
  if (!(o.min_time >= 0)) {
    refuse(ElasticProblem::kConfig, fmt::format("min_time is {}, expected 0 or more", o.min_time));
  }
  if (o.model_parallel_size > 1 && o.version != 0.2) {
    refuse(ElasticProblem::kConfig,
           fmt::format(
               "version {} knows no model parallelism (model_parallel_size {}); use version 0.2",
               o.version, o.model_parallel_size));
  }
  if (o.version > 0.2) {
    refuse(ElasticProblem::kConfig,
           fmt::format("version {} is newer than 0.2, the newest known", o.version));
  }
}

ElasticBatch elastic_batch(const ElasticOptions& options, const ElasticWorld& world) {
  validate(options);
  if (options.micro_batch_sizes.empty())
    refuse(ElasticProblem::kConfig, "micro_batch_sizes is empty");
  ElasticBatch result;
  if (options.version == 0.1) {
    Choice choice =
        choose_by_count(options.micro_batch_sizes, options.max_train_batch_size, options.min_gpus,
                        options.max_gpus, options.prefer_larger_batch);
    result = {.train_batch_size = choice.batch, .valid_counts = std::move(choice.counts)};
  } else if (options.version == 0.2) {
    const int64_t devices = world.given != 0 ? world.given : world.fallback.value_or(0);
    if (devices <= 0) {
      refuse(ElasticProblem::kConfig, "version 0.2 needs the number of devices (WORLD_SIZE)");
    }
    result = by_nodes(options, devices);
  } else {
    refuse(ElasticProblem::kConfig,
           fmt::format("version {} is unknown, expected 0.1 or 0.2", options.version));
  }
  if (world.given == 0) return result;
  if (!result.valid_counts || !std::ranges::binary_search(*result.valid_counts, world.given)) {
    const std::vector<int64_t> none;
    refuse(ElasticProblem::kIncompatibleWorld,
           fmt::format("{} is not a valid data-parallel size, expected one of [{}]", world.given,
                       fmt::join(result.valid_counts ? *result.valid_counts : none, ", ")));
  }
  result.micro_batch_size = micro_for_world(options, result.train_batch_size, world.given);
  return result;
}

BatchSizes elastic_batch_sizes(const ElasticOptions& options, int64_t world, BatchKeys keys) {
  const ElasticBatch batch = elastic_batch(options, {.given = world, .fallback = std::nullopt});
  require_batch(batch, options, world);
  if (keys == BatchKeys::kPresent && !options.ignore_non_elastic_batch_info) {
    refuse(ElasticProblem::kConfig,
           "decides the batch, but train_batch_size, train_micro_batch_size_per_gpu or "
           "gradient_accumulation_steps "
           "is set as well; remove it, or set elasticity.ignore_non_elastic_batch_info");
  }
  const int64_t micro = *batch.micro_batch_size;
  return resolve_batch(batch.train_batch_size, micro, batch.train_batch_size / (micro * world),
                       world);
}

void require_same_elasticity(const ElasticOptions& scheduler, const ElasticOptions& run) {
  const auto differ = [](std::string_view key, const auto& theirs, const auto& ours) {
    if (theirs != ours) {
      refuse(ElasticProblem::kConfig,
             fmt::format("{} is {} for the scheduler, but {} for this run", key, theirs, ours));
    }
  };
  const auto text = [](const std::vector<int64_t>& list) {
    return fmt::format("[{}]", fmt::join(list, ", "));
  };
  differ("max_train_batch_size", scheduler.max_train_batch_size, run.max_train_batch_size);
  differ("micro_batch_sizes", text(scheduler.micro_batch_sizes), text(run.micro_batch_sizes));
  differ("version", scheduler.version, run.version);
}

namespace {

// "rc1", ".dev0", "a2", "-beta": what comes before the release of the same number.
bool is_pre_release(std::string_view suffix) {
  while (!suffix.empty() && (suffix[0] == '.' || suffix[0] == '-' || suffix[0] == '_')) {
    suffix.remove_prefix(1);
  }
  for (const std::string_view word : {"dev", "a", "b", "c", "rc", "pre"}) {
    if (suffix.starts_with(word)) return true;
  }
  return false;
}

}  // namespace

void require_elastic_version(std::string_view target_version) {
  constexpr std::array<int64_t, 3> kMinimum = {0, 3, 8};
  std::array<int64_t, 3> parts = {0, 0, 0};
  size_t part = 0;
  bool digits = false;
  // Reads as many leading numbers as there are; a suffix such as ".dev0" ends the comparison.
  size_t read = 0;
  for (; read < target_version.size(); ++read) {
    const char c = target_version[read];
    if (c >= '0' && c <= '9' && parts[part] < 1'000'000) {
      parts[part] = parts[part] * 10 + (c - '0');
      digits = true;
    } else if (c == '.' && digits && part + 1 < parts.size()) {
      ++part;
      digits = false;
    } else {
      break;
    }
  }
  if (parts < kMinimum || (parts == kMinimum && is_pre_release(target_version.substr(read)))) {
    refuse(ElasticProblem::kUnavailable,
           fmt::format("target version {} is older than 0.3.8, the first with elasticity",
                       target_version));
  }
}

std::vector<int64_t> candidate_batches(std::span<const int64_t> micro_batches, int64_t bound) {
  std::vector<int64_t> bases(micro_batches.begin(), micro_batches.end());
  bases.push_back(least_common_multiple(micro_batches, bound));
  std::vector<int64_t> candidates;
  for (const int64_t base : bases) {
    if (base > bound) continue;
    const auto beyond = std::ranges::upper_bound(kHighlyComposite, bound / base);
    candidates.push_back(*std::prev(beyond) * base);
  }
  std::ranges::sort(candidates);
  const auto first = std::unique(candidates.begin(), candidates.end());
  candidates.erase(first, candidates.end());
  return candidates;
}

std::vector<int64_t> valid_device_counts(int64_t batch, std::span<const int64_t> micro_batches,
                                         int64_t low, int64_t high) {
  std::vector<int64_t> counts;
  for (const int64_t micro : micro_batches) {
    if (batch % micro != 0) continue;
    const int64_t whole = batch / micro;
    const auto keep = [&](int64_t count) {
      if (low <= count && count <= high) counts.push_back(count);
    };
    for (int64_t i = 1; i <= whole / i; ++i) {
      if (whole % i != 0) continue;
      keep(i);
      keep(whole / i);
    }
  }
  std::ranges::sort(counts);
  const auto first = std::unique(counts.begin(), counts.end());
  counts.erase(first, counts.end());
  return counts;
}

std::vector<ElasticRow> elastic_losses(const ElasticOptions& options, int64_t nodes,
                                       int64_t devices_per_node, int64_t max_lost) {
  DS_CHECK(nodes >= 1 && devices_per_node >= 1,
           "elastic: {} nodes with {} devices, expected 1 or more of each", nodes,
           devices_per_node);
  const int64_t model_parallel = options.model_parallel_size;
  // The batch must not depend on who is left: it is decided once, for the whole cluster.
  const ElasticBatch whole =
      elastic_batch(options, {.given = 0, .fallback = nodes * devices_per_node});
  require_batch(whole, options, nodes * devices_per_node);
  const std::vector<int64_t> counts = whole.valid_counts.value_or(std::vector<int64_t>{});
  std::vector<ElasticRow> rows;
  for (int64_t lost = 0; lost <= std::min(max_lost, nodes - 1); ++lost) {
    ElasticRow row{
        .nodes_lost = lost, .nodes = nodes - lost, .devices = (nodes - lost) * devices_per_node};
    row.idle_devices = row.devices;
    const auto beyond = std::ranges::upper_bound(counts, row.devices / model_parallel);
    if (beyond != counts.begin()) {
      row.data_parallel_size = *std::prev(beyond);
      row.idle_devices = row.devices - row.data_parallel_size * model_parallel;
      row.batch.train = whole.train_batch_size;
      row.batch.micro = micro_for_world(options, whole.train_batch_size, row.data_parallel_size);
      row.batch.accumulation = whole.train_batch_size / (row.batch.micro * row.data_parallel_size);
    }
    rows.push_back(row);
  }
  return rows;
}

std::string elastic_table(const ElasticOptions& options, int64_t nodes, int64_t devices_per_node,
                          int64_t max_lost) {
  const ElasticBatch whole =
      elastic_batch(options, {.given = 0, .fallback = nodes * devices_per_node});
  std::string text = fmt::format("train_batch_size {}\n", whole.train_batch_size);
  const std::vector<int64_t> counts = whole.valid_counts.value_or(std::vector<int64_t>{});
  text +=
      fmt::format("valid data-parallel sizes ({}): {}\n", counts.size(), fmt::join(counts, " "));
  text += "lost  nodes  devices  used  idle  micro batch  accumulation\n";
  for (const ElasticRow& row : elastic_losses(options, nodes, devices_per_node, max_lost)) {
    if (row.data_parallel_size == 0) {
      text += fmt::format("{:>4}  {:>5}  {:>7}  cannot go on: no valid size is this small\n",
                          row.nodes_lost, row.nodes, row.devices);
      continue;
    }
    text += fmt::format("{:>4}  {:>5}  {:>7}  {:>4}  {:>4}  {:>11}  {:>12}\n", row.nodes_lost,
                        row.nodes, row.devices, row.devices - row.idle_devices, row.idle_devices,
                        row.batch.micro, row.batch.accumulation);
  }
  return text;
}

}  // namespace ds
