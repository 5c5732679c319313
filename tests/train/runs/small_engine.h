// A tiny model and its data for tests that train: what ranks are made of, and what a run can be
// told by.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "core/memory/adaptors.h"
#include "data/document_rows.h"
#include "model/families/zoo.h"
#include "model/parallel/sequence_rows.h"
#include "model/stores/plain_store.h"
#include "tests/support/cpu_stream.h"
#include "tests/train/runs/guarded_rank.h"
#include "train/engine.h"
#include "train/step/pace.h"
#include "train/step/swap.h"

namespace ds::testing {

// Sample k of the endless sequence is the same tokens for everyone. They are documents, which end
// with a token of their own and matter to who asks for what follows from them.
class CountingSource final : public BatchSource {
 public:
  static constexpr int32_t kEnd = 6;  // of a document

  // This rank has part `part` of `parts` of each sample.
  CountingSource(const EngineOptions& options, int rank, int ranks, int part = 0, int parts = 1,
                 int ring = 1)
      : options_(options), rank_(rank), ranks_(ranks), part_(part), parts_(parts), ring_(ring) {}
  CountingSource(const EngineOptions& options, const Mesh& mesh)
      : CountingSource(options, mesh.coordinate(Axis::kData), mesh.size(Axis::kData),
                       mesh.coordinate(Axis::kSequence), mesh.size(Axis::kSequence),
                       mesh.size(Axis::kRing)) {}

  void fill(int64_t step, int micro_step, const MicroBatch& out) override {
    const int64_t batch = options_.micro_batch * options_.micro_steps() * ranks_;
    const int64_t first = step * batch + first_sample(micro_step);
    for (int64_t row = 0; row < options_.micro_batch; ++row) fill_row(first + row, row, out);
  }
  int64_t first_sample(int micro_step) const override {
    return (micro_step * ranks_ + rank_) * options_.micro_batch;
  }

 private:
  void fill_row(int64_t sample, int64_t row, const MicroBatch& out) const {
    const auto length = to_size(whole_length(out));
    std::vector<int32_t> all(length + 1), positions(length), segments(length);
    std::vector<float> weights(length);
    for (size_t t = 0; t <= length; ++t) {
      const auto at = static_cast<int64_t>(t);
      all[t] = static_cast<int32_t>((sample * 31 + at * at * 7) % 29);
      if (t < length) segments[t] = static_cast<int32_t>((sample + at / 3) % 2);
      if (t < length) weights[t] = static_cast<float>((sample + at) % 5) / 4.0F;
    }
    const std::span<int32_t> tokens(all.data(), length);
    std::vector<int32_t> targets(all.begin() + 1, all.end());
    if (options_.content.is_uneven) ignore_targets_of_ends(tokens, kEnd, targets);
    write_document_positions(tokens, kEnd, positions);
    put(out, batch_field::kTokens, row, std::span<const int32_t>(tokens));
    put(out, batch_field::kTargets, row, std::span<const int32_t>(targets));
    put(out, batch_field::kPositions, row, std::span<const int32_t>(positions));
    put(out, batch_field::kSegments, row, std::span<const int32_t>(segments));
    put(out, batch_field::kWeights, row, std::span<const float>(weights));
    if (!out.has(batch_field::kKeyRanges)) return;
    write_document_ranges(tokens, kEnd,
                          out.values<int32_t>(batch_field::kKeyRanges)
                              .subspan(to_size(row) * 2 * length, 2 * length));
  }
  // A step may have the beginnings of samples alone.
  int64_t whole_length(const MicroBatch& out) const {
    if (out.has(batch_field::kKeyRanges)) return out.tensor(batch_field::kKeyRanges).shape()[1];
    const std::string_view any = out.has(batch_field::kTokens)    ? batch_field::kTokens
                                 : out.has(batch_field::kTargets) ? batch_field::kTargets
                                                                  : batch_field::kPositions;
    return out.tensor(any).numel() / options_.micro_batch * parts_;
  }
  // The part of a sample's values that is here.
  template <class T>
  void put(const MicroBatch& out, std::string_view name, int64_t row,
           std::span<const T> whole) const {
    if (!out.has(name)) return;
    const int64_t length = std::ssize(whole) / parts_;
    const Positions positions = positions_of_part(ring_, part_, parts_, length);
    for (const RowBlock& block : row_blocks(length, length, positions)) {
      std::ranges::copy(whole.subspan(to_size(block.first_position), to_size(block.length)),
                        out.values<T>(name).begin() + row * length + block.row);
    }
  }

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
  NvmeStateOptions rolling{.buffers = 1, .pinning = Pinning::kNone};
  bool update_ahead = false;
  // Makes the swap files of a rank, of its "state" or "parameters"; empty: the product's own.
  std::function<SwapOpener(const char* of, int rank)> swap_files = {};
  Masters masters = Masters::kFp32;
  std::optional<uint64_t> rounding_seed = std::nullopt;
  std::optional<ZenflowOptions> zenflow = std::nullopt;
  PipelineChoice pipeline{};
  bool shares_rows = false;  // between layers that ranks share
  int ring = 1;              // of `sequence`
  BatchContent content{};
  std::optional<CurriculumOptions> lengths = std::nullopt;
  std::set<std::string> frozen = {};
  int near = 1;  // neighbours among ranks with other samples
  std::optional<AdapterSpec> adapters = std::nullopt;
};

// What a rank reads of a micro-batch that has all layers and whole samples.
BatchSpec text_batches(const EngineOptions& options);

// This warms up to the rate of the optimizer itself.
SchedulerConfig warmup_of(int64_t steps);

Gpt2Config small_gpt2(double dropout);

ZeroPolicy policy_of(const Setting& s);

MeshSizes mesh_of(const Setting& s);

EngineOptions options_of(const Setting& s);

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

void collect(Engine& engine, Outcome& outcome, std::mutex& mutex);

// A step and its result.
StepResult train_step(Engine& engine, BatchSource& source, int64_t flags = 0);

// Trains as far ahead of the results as the engine's are late, and takes all of them.
std::vector<StepResult> train_until(Engine& engine, BatchSource& source, int64_t last);

// The first weight that this rank owns.
void set_first_weight(Engine& engine, float value);

}  // namespace ds::testing
