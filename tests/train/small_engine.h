// A tiny model and its data for tests that train: what ranks are made of, and what a run can be
// told by.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "core/memory/adaptors.h"
#include "model/parallel/sequence_rows.h"
#include "tests/train/guarded_rank.h"
#include "train/engine.h"
#include "train/step/pace.h"
#include "train/step/swap.h"

namespace ds::testing {

// Sample k of the endless sequence is the same tokens for everyone.
class CountingSource final : public BatchSource {
 public:
  // This rank has part `part` of `parts` of each sample.
  CountingSource(const EngineOptions& options, int rank, int ranks, int part = 0, int parts = 1,
                 int ring = 1)
      : options_(options), rank_(rank), ranks_(ranks), part_(part), parts_(parts), ring_(ring) {}
  CountingSource(const EngineOptions& options, const Mesh& mesh)
      : CountingSource(options, mesh.coordinate(Axis::kData), mesh.size(Axis::kData),
                       mesh.coordinate(Axis::kSequence), mesh.size(Axis::kSequence),
                       mesh.size(Axis::kRing)) {}

  void fill(int64_t step, int micro_step, std::span<int32_t> tokens,
            std::span<int32_t> targets) override {
    const int64_t batch = options_.micro_batch * options_.micro_steps() * ranks_;
    const int64_t first = first_sample(micro_step);
    const int64_t length = options_.length / parts_;
    const Positions positions = positions_of_part(ring_, part_, parts_, length);
    for (const RowBlock& block : row_blocks(options_.micro_batch * length, length, positions)) {
      for (int64_t i = 0; i < block.rows; ++i) {
        const int64_t t = block.first_position + i % block.length;
        const int64_t sample = step * batch + first + (block.row + i) / length;
        const auto at = static_cast<size_t>(block.row + i);
        tokens[at] = static_cast<int32_t>((sample * 31 + t * t * 7) % 29);
        targets[at] = static_cast<int32_t>((sample * 31 + (t + 1) * (t + 1) * 7) % 29);
      }
    }
  }
  int64_t first_sample(int micro_step) const override {
    return (micro_step * ranks_ + rank_) * options_.micro_batch;
  }

 private:
  const EngineOptions& options_;
  const int rank_;
  const int ranks_;
  const int part_;
  const int parts_;
  const int ring_;
};

struct Setting {
  int ranks = 1;
  int sequence = 1;  // of them share each sample
  int tensor = 1;    // of them share each layer
  int pipe = 1;      // stages that they have
  int stage = 0;
  DType dtype = DType::kF32;
  int micro_steps = 1;
  int64_t global_batch = 12;
  OptimizerConfig optimizer = {.adam = {.lr = 0.01, .weight_decay = 0.1}};
  int results_late = 0;  // of the engine's resources
  HostAccess host_access = HostAccess::kAlways;
  Devices devices = Devices::kShared;
  bool cuda_graphs = true;
  bool allow_tf32 = false;
  double dropout = 0;
  RecomputedBlocks recomputed{};
  LossScaleRule loss_scale = {};
  Operands operands = std::nullopt;
  std::optional<DType> wire = std::nullopt;  // of gradients
  std::vector<ModuleKind> wire_modules = {};
  double gradient_factor = 1;
  bool offload_activations = false;
  Tier params = Tier::kDevice;  // at stage 3
  int64_t host_numel = 6000;    // of weights on NVMe, those that stay on the host
  double clipping = 1.0;
  // These say where optimizer state is, which share of it, and how it is cut and swapped.
  Tier state = Tier::kDevice;
  double offload_ratio = 1;
  int64_t sub_group_numel = INT64_MAX;
  RollingHomeOptions rolling{.buffers = 1, .pinning = Pinning::kNone};
  bool update_ahead = false;
  // Makes the swap files of a rank, of its "state" or "parameters"; empty: the product's own.
  std::function<SwapOpener(const char* of, int rank)> swap_files = {};
  Masters masters = Masters::kFp32;
  std::optional<uint64_t> rounding_seed = std::nullopt;
  std::optional<ZenflowOptions> zenflow = std::nullopt;
  PipelineChoice pipeline{};
  bool shares_rows = false;  // between layers that ranks share
  int ring = 1;              // of `sequence`
};

// This warms up to the rate of the optimizer itself.
inline SchedulerConfig warmup_of(int64_t steps) {
  return {.type = SchedulerType::kWarmupLR, .warmup = {.warmup_num_steps = steps}};
}

inline Gpt2Config small_gpt2(double dropout) {
  return {.n_layer = 2,
          .n_head = 2,
          .n_embd = 32,
          .n_positions = 16,
          .vocab_size = 29,
          .resid_pdrop = dropout,
          .embd_pdrop = dropout,
          .attn_pdrop = dropout};
}

inline ZeroPolicy policy_of(const Setting& s) {
  ZeroPolicy policy = zero_policy(s.stage);
  policy.state.tier = policy.grads.tier = s.state;
  policy.params.tier = s.params;
  return policy;
}

inline MeshSizes mesh_of(const Setting& s) {
  return {.pipe = s.pipe,
          .data = s.ranks / s.pipe / s.sequence / s.tensor,
          .sequence = s.sequence,
          .tensor = s.tensor,
          .ring = s.ring};
}

inline EngineOptions options_of(const Setting& s) {
  const bool nvme = s.params == Tier::kNvme;
  return {.model = small_gpt2(s.dropout),
          .dtype = s.dtype,
          .operands = s.operands,
          .zero = {.policy = policy_of(s),
                   .bucket_numel = 5000,
                   .persistence_numel = 64,
                   .gather = {.prefetch_numel = 4000,
                              .live_numel = 12000,
                              .reuse_numel = 3000,
                              .fetch_numel = 4000,
                              .fetches = 3},
                   .grad_slice_dtype =
                       s.micro_steps > 1 && s.masters == Masters::kFp32 ? DType::kF32 : s.dtype,
                   .grad_wire_dtype = s.wire,
                   .wire_modules = s.wire_modules,
                   .micro_steps = s.micro_steps,
                   .offload = {.host_numel = nvme ? s.host_numel : INT64_MAX, .buffers = 3},
                   .slots = {},
                   .masters = s.masters,
                   .rounding_seed = s.rounding_seed,
                   .sub_group_numel = s.sub_group_numel,
                   .update_ahead = s.update_ahead,
                   .zenflow = s.zenflow,
                   .offload_ratio = s.offload_ratio,
                   .rolling = s.rolling},
          .optimizer = s.optimizer,
          .schedule = warmup_of(4),
          .gradient_clipping = s.clipping,
          .loss_scale = s.loss_scale,
          .gradient_factor = s.gradient_factor,
          .micro_batch = s.global_batch / mesh_of(s).data / s.micro_steps,
          .length = 16,
          .shares_rows = s.shares_rows,
          .pipeline = s.pipeline,
          .seed = 5,
          .recomputed = s.recomputed,
          .cuda_graphs = s.cuda_graphs,
          .matmul = {.allow_tf32 = s.allow_tf32},
          .offload_activations = s.offload_activations};
}

// Everything a run can be told apart by: every element of weights and optimizer state, and the
// losses.
struct Outcome {
  std::map<std::string, std::vector<float>> state;
  std::vector<double> losses;
  std::vector<double> scales = {};   // of fp16: that of each step
  std::vector<double> skipped = {};  // likewise: steps until then
  MemoryUsage memory;                // of the device
  TierUsage tiers{};
  int64_t wire_bytes = 0;  // of the last step
  double validation_loss = 0;
};

inline void collect(Engine& engine, Outcome& outcome, std::mutex& mutex) {
  const std::lock_guard lock(mutex);
  engine.store().visit_owned(Visit::kSave, [&](OwnedPart& part) {
    for (const ShardField& field : part.fields) {
      const ParamSpec& spec = engine.store().spec(field.param);
      const auto copy = [&](const std::string& slot, const Tensor& from) {
        std::vector<float>& into = outcome.state[spec.name + "/" + slot];
        into.resize(static_cast<size_t>(spec.logical_shape().numel()));
        const Region region = spec.region(field.param_begin, field.param_begin + field.numel);
        for (const Run& run : runs_of(region, spec.logical_shape())) {
          const Tensor range = from.narrow(field.offset + run.inside, run.numel);
          engine.stream().copy(range.address(), into.data() + run.first, range.bytes());
        }
      };
      copy("weight", part.master);
      for (size_t i = 0; i < part.specs.size(); ++i) copy(part.specs[i].name, part.slots[i]);
    }
  });
}

// A step and its result.
inline StepResult train_step(Engine& engine, BatchSource& source, int64_t flags = 0) {
  engine.begin_step(source, flags);
  return engine.next_result(Wait::kYes).value();
}

// Trains as far ahead of the results as the engine's are late, and takes all of them.
inline std::vector<StepResult> train_until(Engine& engine, BatchSource& source, int64_t last) {
  std::vector<StepResult> results;
  for (;;) {
    switch (next_move({.begun = engine.begun(),
                       .known = engine.step(),
                       .last = last,
                       .late = engine.results_late()},
                      Edge::kPassed)) {
      case StepMove::kBegin:
        engine.begin_step(source, 0);
        break;
      case StepMove::kTakeResult:
        results.push_back(engine.next_result(Wait::kYes).value());
        break;
      case StepMove::kEnd:
        return results;
    }
  }
}

// The first weight that this rank owns.
inline void set_first_weight(Engine& engine, float value) {
  bool first = true;
  engine.store().visit_owned(Visit::kRestore, [&](OwnedPart& part) {
    if (std::exchange(first, false)) {
      const Tensor first_of_all = part.master.narrow(part.fields.front().offset, 1);
      engine.stream().copy(&value, first_of_all.address(), sizeof value);
    }
  });
}

}  // namespace ds::testing
