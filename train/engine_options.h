// What is trained and how: everything that an engine is told before it knows where it runs.
#pragma once

#include <cstdint>

#include "config/sections/model_families.h"
#include "optim/rule_optimizer.h"
#include "zero/shard_group.h"

namespace ds {

struct EngineOptions {
  ModelConfig model;
  DType dtype = DType::kF32;
  ZeroOptions zero;  // the engine names its optimizer there
  OptimizerConfig optimizer;
  SchedulerConfig schedule;      // without a type: none
  double gradient_clipping = 0;  // 0: off
  int64_t micro_batch = 1;       // samples per rank and micro-step
  int64_t length = 0;            // tokens per sample
  uint64_t seed = 1234;
  // On CUDA devices, where the data group can be recorded: steps are recorded and replayed.
  bool cuda_graphs = true;

  int micro_steps() const { return zero.micro_steps; }
};

}  // namespace ds
