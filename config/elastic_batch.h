// Elastic batches (pure): one global batch size that many device counts can divide, so that a job
// may shrink and grow without touching convergence. Version 0.1 counts devices, version 0.2 whole
// nodes with model parallelism inside a node. Also the table behind `dslaunch elastic`: what
// happens to the batch when nodes are lost.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/batch.h"
#include "core/status/error.h"

namespace ds {

// The elasticity section. Lists keep the user's order: version 0.2 picks the first fitting micro
// batch.
struct ElasticOptions {
  int64_t max_train_batch_size = 2000;
  std::vector<int64_t> micro_batch_sizes{2, 4, 6};
  int64_t min_gpus = 1;
  int64_t max_gpus = 10000;
  int64_t num_gpus_per_node = 1;
  int64_t model_parallel_size = 1;
  double min_time = 0;  // minutes
  double version = 0.2;
  bool prefer_larger_batch = true;
  bool ignore_non_elastic_batch_info = false;
};

enum class ElasticProblem {
  kConfig,             // missing, disabled or malformed section
  kUnavailable,        // version or shape of the cluster that the rules cannot serve
  kIncompatibleWorld,  // the world size is not among the valid ones
};
std::string_view to_string(ElasticProblem problem);

class ElasticError : public ConfigError {
 public:
  ElasticError(ElasticProblem problem, const std::string& message)
      : ConfigError(message), problem_(problem) {}
  ElasticProblem problem() const noexcept { return problem_; }

 private:
  ElasticProblem problem_;
};

// What a computation decided. valid_counts: ascending data-parallel sizes (version 0.1: device
// counts); nothing when no candidate batch was better than the smallest micro batch, which then is
// the batch.
struct ElasticBatch {
  int64_t train_batch_size = 0;
  std::optional<std::vector<int64_t>> valid_counts = std::nullopt;
  std::optional<int64_t> micro_batch_size = std::nullopt;
};

// The current size. given: data-parallel size, 0 = not known. fallback: devices of the job as the
// launcher's environment says (WORLD_SIZE); version 0.2 needs one of the two.
struct ElasticWorld {
  int64_t given = 0;
  std::optional<int64_t> fallback = std::nullopt;
};

// Checks the section by itself; throws ElasticError(kConfig). A version below 0.2 that is unknown
// passes here and is refused by elastic_batch.
void validate(const ElasticOptions& options);

// validate, then the rules of the section's version. Throws ElasticError; with a given world also
// when that is not a valid count or when no micro batch divides its share. micro_batch_size is set
// when the world is given, and in version 0.2 also otherwise (the choice for the fallback's device
// count; nothing if none divides).
ElasticBatch elastic_batch(const ElasticOptions& options, const ElasticWorld& world);

// Whether the file also sets any corner of the batch triangle, which elasticity takes over.
enum class BatchKeys { kAbsent, kPresent };

// The batch triangle under elasticity for a data-parallel size. Throws ElasticError(kConfig) when
// the file sets batch keys and the section does not say ignore_non_elastic_batch_info.
BatchSizes elastic_batch_sizes(const ElasticOptions& options, int64_t world, BatchKeys keys);

// Throws ElasticError(kConfig) when the scheduler that started the job was told other numbers than
// the run.
void require_same_elasticity(const ElasticOptions& scheduler, const ElasticOptions& run);

// Throws ElasticError(kUnavailable) for DeepSpeed versions that know no elasticity (before 0.3.8).
void require_elastic_version(std::string_view target_version);

// --- the steps of version 0.1, each with its rule
// ------------------------------------------------------------

// For each base (every micro batch and their least common multiple) up to `bound`, the base times
// the largest listed highly composite number that keeps it within the bound; ascending, without
// duplicates.
std::vector<int64_t> candidate_batches(std::span<const int64_t> micro_batches, int64_t bound);

// Device counts n in [low, high] such that some micro batch m divides the batch and n divides batch
// / m.
std::vector<int64_t> valid_device_counts(int64_t batch, std::span<const int64_t> micro_batches,
                                         int64_t low, int64_t high);

// --- what losing nodes does
// ----------------------------------------------------------------------------------

struct ElasticRow {
  int64_t nodes_lost = 0;
  int64_t nodes = 0;
  int64_t devices = 0;  // left on those nodes
  // Used: the largest valid count within `devices`; 0 when none fits.
  int64_t data_parallel_size = 0;
  int64_t idle_devices = 0;
  BatchSizes batch = {};  // zeros when none fits
};

// Rows for 0 .. max_lost nodes lost out of `nodes`. The global batch stays; micro batch and
// accumulation move.
std::vector<ElasticRow> elastic_losses(const ElasticOptions& options, int64_t nodes,
                                       int64_t devices_per_node, int64_t max_lost);

// The same as text: the batch, the valid counts, and one line per row.
std::string elastic_table(const ElasticOptions& options, int64_t nodes, int64_t devices_per_node,
                          int64_t max_lost);

}  // namespace ds
