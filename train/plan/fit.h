// The largest model of a family that a machine has room for, by the dry run: of models in the
// proportions of one that is given, wider and deeper, the last whose plan fits.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "train/plan/dry_run.h"

namespace ds {

struct MachineRoom {
  size_t device = 0;  // bytes, of each rank
  // All ranks share this; nothing: no rank offloads to it, and what copies take is not counted.
  std::optional<size_t> host{};
  size_t nvme = 0;  // likewise
};
bool has_room_for(const MachineRoom& room, const RunPlan& plan);
// Returns the bytes of a tier at the peak of the rank that needs most.
size_t most_bytes(const RunPlan& plan, Tier tier);

// A model like this one with so many heads (groups of heads that share keys) of the same size, and
// as many layers as its width then asks for: width over layers stays. The vocabulary stays.
ModelConfig with_heads(const ModelConfig& model, int64_t heads);
int64_t heads_of(const ModelConfig& model);

struct Fit {
  ModelConfig model;
  RunPlan plan;
};
// Nothing where not even one head fits. `guess`: heads to begin with.
std::optional<Fit> largest_fit(const EngineOptions& like, const MeshSizes& sizes,
                               const MachineRoom& room, const DeviceCeilings& ceilings,
                               int64_t guess);

// One way to train, as words behind a configuration (key=value), and what fits with it.
struct FitRow {
  std::vector<std::string> settings{};
  int64_t micro_batch = 1;
  std::optional<Fit> fit{};
  std::string refused{};  // why there is none: it is not for this build or this configuration
};
struct FitTable {
  MachineRoom room;
  int ranks = 1;
  std::vector<FitRow> rows;
  // Returns the row with the most parameters, and of several the fastest; null if nothing fits.
  const FitRow* largest() const;
};
std::string fit_json(const FitTable& table);
std::string fit_text(const FitTable& table);

}  // namespace ds
