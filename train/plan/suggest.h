// The meshes that so many ranks can make, ranked by the time of a step that the dry run predicts:
// which there are, how each makes the same batch, and how the answer is told (all pure).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/batch.h"
#include "train/plan/dry_run.h"

namespace ds {

// Every way in which so many ranks can share samples and layers, and the ranks of a sequence rings
// and trades of heads; what that leaves over sees different samples. Those that share least come
// first.
std::vector<MeshSizes> meshes_of(int ranks);

// The same samples of a step for other numbers of ranks that see different ones: micro-batches as
// large as `micro` or, where these do not divide a rank's part, as the largest below that do.
// ConfigError where ranks cannot have equally many samples.
BatchSizes batch_over(int64_t samples, int64_t ranks, int64_t micro);

// One of them, as words behind a configuration (key=value), and what it would come to.
struct MeshRow {
  MeshSizes mesh{};
  std::vector<std::string> settings{};
  int64_t zero_stage = 0;
  int64_t micro_batch = 0;
  int64_t micro_steps = 0;
  std::optional<RunPlan> plan{};  // nothing where there is none, of those ruled out
  std::string ruled_out{};        // by what; empty: by nothing
};

struct MeshTable {
  int ranks = 1;
  int hosts = 1;
  std::vector<MeshRow> rows{};

  // The fastest first; of those that take equally long the one that needs less memory; and what is
  // ruled out behind them, as it came.
  void sort();
  const MeshRow* best() const;  // once they are sorted; null where all are ruled out
};

// The stable JSON of `dslaunch plan --suggest --json` (docs/json.md).
std::string suggestions_json(const MeshTable& table);
// The same for a person.
std::string suggestions_text(const MeshTable& table);

}  // namespace ds
