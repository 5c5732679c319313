// The dry run: the real engine for one step on meta tensors. It yields what the real run follows
// (the places of all tensors of a micro-step, the order of gathers) and what it will cost (memory
// by category, bytes per collective, floating-point operations, an estimate of time).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/memory/adaptors.h"
#include "train/engine.h"
#include "train/plan/costs.h"

namespace ds {

struct RunPlan {
  StepPlan step;
  int world_size = 1;
  MemoryUsage memory;                        // peak over construction, a step and an evaluation
  std::map<std::string, double> wire_bytes;  // collective -> bytes per step per rank
  double flops_per_step = 0;                 // of one rank
  double seconds_per_step = 0;               // estimate
  int64_t parameters = 0;                    // elements of the model
};

// What each of `world_size` ranks will do; all do the same.
RunPlan dry_run(const EngineOptions& options, int world_size, const DeviceCeilings& ceilings);

// The stable JSON of `dslaunch plan --json` and plan.json (docs/run-directory.md).
std::string plan_json(const RunPlan& plan);
// The same for a person.
std::string plan_text(const RunPlan& plan, const EngineOptions& options);

}  // namespace ds
