// The dry run: the real engine for one step on meta tensors. It yields what the real run follows
// (the places of all tensors of a micro-step, the order of gathers) and what it will cost (memory
// by tier and category, bytes per axis and collective, floating-point operations, an estimate of
// time).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/mesh_layout.h"
#include "core/memory/adaptors.h"
#include "data/tokens/text_memory.h"
#include "train/engine.h"
#include "train/plan/costs.h"
#include "train/plan/pipeline_plan.h"
#include "train/workspace.h"

namespace ds {

// What each rank of a class does: they have the same layers and as much of everything else.
struct RankPlan {
  std::vector<int> ranks;
  StepPlan step;
  TierUsage memory{};   // peak over construction, a step and an evaluation
  BlockSizes blocks{};  // that all of it fits into, on a device that is no CPU
  // Axis -> collective -> bytes per step.
  std::map<std::string, std::map<std::string, double>> wire_bytes;
  std::array<double, kLinks> link_bytes{};  // between tiers, per step
  double flops_per_step = 0;
  double seconds_per_step = 0;  // estimate
  BusySeconds busy{};           // of them; on a CPU all that it does is kCompute, but for peers
  Busy bound() const;           // what is busy longest
  WorkSeconds work{};           // of seconds_per_step, where there are stages
  int64_t parameters = 0;       // elements of the model that these ranks share out
  int64_t frozen = 0;           // of them, those that do not train
  int64_t packed = 0;           // of these, those that are kept as codes
  int64_t teacher = 0;          // elements of the second model, which are none of them
  // The shapes of steps, the longest first, which all else is said of; memory is the peak of all.
  std::vector<StepRules::FirstStep> shapes{};
};

struct RunPlan {
  MeshSizes mesh;
  Device device = Device::cpu();  // what it is a plan for
  std::vector<RankPlan> classes;
  bool excludes_frozen = false;  // checkpoints do not have what is frozen
  bool calibrated = false;       // time is by operations measured on this machine
  std::optional<PipelinePlan> pipeline = std::nullopt;  // where ranks lie along pipe
  std::optional<TextMemory> texts = std::nullopt;       // where somebody has looked at them
  // The checkpoint that training goes on from, in words; nothing: it begins.
  std::optional<std::string> begins_with = std::nullopt;

  int world_size() const { return MeshLayout(mesh).world_size(); }
  const RankPlan& of_rank(int rank) const;
  int64_t parameters() const { return sum_of(&RankPlan::parameters); }  // elements of the model
  int64_t frozen() const { return sum_of(&RankPlan::frozen); }          // those that do not train
  int64_t packed() const { return sum_of(&RankPlan::packed); }          // as codes
  int64_t teacher() const { return sum_of(&RankPlan::teacher); }
  int64_t sum_of(int64_t RankPlan::*elements) const;
  double seconds_per_step() const;  // of the slowest, or of stages that wait for each other
};

// Ranks that do the same, by ascending rank (pure): those of one stage of the pipeline, with as
// much of each layer.
std::vector<std::vector<int>> rank_classes(const EngineOptions& options, const MeshSizes& sizes);

// The plan's mesh has what of its axes follows from the model alone (mesh_for()).
RunPlan dry_run(const EngineOptions& options, const MeshSizes& of_job,
                const DeviceCeilings& ceilings);

// The stable JSON of `dslaunch plan --json` and plan.json (docs/run-directory.md).
std::string plan_json(const RunPlan& plan);
// The same for a person.
std::string plan_text(const RunPlan& plan, const EngineOptions& options);

}  // namespace ds
