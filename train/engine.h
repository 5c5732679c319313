// Engine: one rank's training loop body. It wires model, store, optimizer and schedule together and
// has four verbs: train a global batch, evaluate, and (through checkpointing.h) save and load.
// Training has two halves, because on a device that computes while the host goes on, a step is
// begun long before its loss is known.
// Policy lives elsewhere: sharding in zero/, update rules in optim/, order of samples in data/. The
// same engine runs on meta tensors for the dry run.
#pragma once

#include <memory>
#include <optional>

#include "core/tasks/clock.h"
#include "core/values/step_metrics.h"
#include "model/activations/host_saves.h"
#include "model/activations/recompute.h"
#include "model/pass/kv_cache.h"
#include "train/settings/engine_options.h"
#include "train/settings/step_settings.h"
#include "train/step/batches.h"
#include "train/step/graphs.h"
#include "train/step/memories.h"
#include "train/step/rank_resources.h"
#include "train/step/results.h"
#include "train/step/scaling_state.h"
#include "train/step/step_plan.h"
#include "train/step/step_runner.h"
#include "zero/sharded_store.h"

namespace ds {

class StepObserver;  // train/settings/observers.h

// Loss or gradient norm of a step is not finite, by the sums of all ranks, so that each of them
// throws it.
class NotFinite : public ValidationError {
 public:
  using ValidationError::ValidationError;
};

struct StepResult {
  int64_t step = 0;      // 1 for the first
  Metrics metrics;       // what the engine knows of the step: loss, grad_norm, lr, loss_scale ...
  int64_t flags = 0;     // the largest `flags` of any rank
  bool skipped = false;  // it changed no weight, because gradients overflowed
};

class Engine {
 public:
  // With a plan, micro-steps allocate from an arena and stage 3 follows the gather plan; without,
  // both happen on demand (as the dry run does it).
  Engine(const EngineOptions& options, const RankResources& resources,
         std::optional<StepPlan> plan);

  // Gives the stream all of one optimizer step over the global batch; returns its number. `flags`
  // travels to every rank with the step's one small collective: ranks agree on stopping or saving
  // at no extra cost. `observer` is told of every micro-step before it begins. InternalError where
  // StepResults::kMost steps are under way.
  // `shape`: for dry runs, which have no other samples; else that of the step's number.
  int64_t begin_step(BatchSource& source, int64_t flags, StepObserver* observer = nullptr,
                     const std::optional<StepShape>& shape = std::nullopt);
  // The results of begun steps, in order; nothing where no step is under way. kYes waits. kNo takes
  // what is there, but none of the results_late newest, lest ranks differ by chance.
  // NotFinite when the loss of that step is not finite, or the gradient norm, with a loss scale
  // only where no smaller one may follow (kernels/step/loss_scale.h). Weights and optimizer state
  // are then those of step(): the update was skipped, and so were those of all steps begun after
  // it, which are forgotten. The next step to begin has the number of the bad one. Another step
  // that a loss scale skips is a step without an update, and the next ones are what they would be
  // in its place.
  std::optional<StepResult> next_result(Wait wait);
  // Collective, after NotFinite: makes that step once more up to its sums, with the same batch and
  // the same random numbers, and somebody who looks at all of it. Returns whether the sums were
  // finite this time. Weights, state and numbers of steps stay as they are; on a device it waits
  // where `numbers` does.
  bool replay_step(BatchSource& source, NumberWatch& numbers, StepObserver& observer);
  // Forward and backward of a micro-step (of step + 1, whose dropout it has) by the weights of
  // another store over this one's, and into its gradients: those of the mean loss over the tokens
  // that all ranks have in that micro-step. Nothing of the run changes. Between steps only, and
  // where store() keeps gradients whole.
  void probe_micro_step(BatchSource& source, int64_t step, int micro_step, ParameterStore& store);
  // Forward and backward passes without an update, as the dry run records them: of the first
  // micro-step, which all others are like, or of all that a pipeline has under way in turn.
  void recorded_micro_steps(BatchSource& source, const StepShape& shape);
  // Mean loss over `batches` micro-batches per rank of the validation source. InternalError while
  // steps are under way. scores: hears those of classes on the ranks that count losses; may be
  // null. figures: gets means of what is summed beside the loss; may be null, too.
  double evaluate(
      BatchSource& source, int64_t batches,
      const std::function<void(int64_t done)>& on_batch = [](int64_t) {},
      ScoreObserver* scores = nullptr, Metrics* figures = nullptr);

  // Room for the keys and values of a sample of text; nobody reads those of its last token.
  KvCache sample_cache();
  // Collective: scores of the tokens that may come after `token`, which follows those of the cache;
  // fp32 [1, vocabulary]. With the weights as they are; InternalError while steps are under way,
  // and on a rank that has not the whole model.
  Tensor next_logits(int32_t token, KvCache& cache);

  void initialize() { store_.state().initialize(options_.seed); }
  ShardedStore& store() { return store_; }
  StepMemories& memories() { return memories_; }
  const StepProgram& training() const { return programs_.training; }
  const StepProgram& evaluation() const { return programs_.evaluation; }
  const EngineOptions& options() const { return options_; }
  const Optimizer& optimizer() const { return *optimizer_; }
  Stream& stream() { return resources_.stream; }
  Device device() const { return resources_.stream.device(); }
  MemoryResource* pinned() const { return resources_.pinned; }
  HostExchange& host() { return resources_.peers.host; }
  const Mesh& mesh() const { return resources_.peers.mesh; }
  Communicator& token_group() const { return resources_.peers.tokens(); }  // who see other tokens
  const StepBatches& batches() const { return batches_; }  // what a source has to fill here
  int64_t step() const { return step_; }  // steps done, their results taken and good
  // Returns the scaling state after these steps and those of runs that this one goes on from.
  const ScalingState& scaling() const { return scaling_; }
  // Whether the last of them changed no weight, because gradients overflowed.
  bool skipped_last() const { return skipped_last_; }
  int64_t updates() const { return step_ - scaling_.skipped; }  // steps that were not skipped
  int64_t begun() const { return step_ + results_.count(); }
  int results_late() const { return results_late_; }
  // InternalError, in the words of `purpose`, while steps are under way: weights and optimizer
  // state are then not those of step().
  void require_at_edge(std::string_view purpose) const;
  void restore_step(int64_t step);
  // As it was saved; a scale that does not follow overflows here stays the configured one. Nothing:
  // as at the start.
  void restore_scaling(const std::optional<ScalingState>& saved);

 private:
  bool scales() const { return options_.loss_scale.kind != LossScaling::kNone; }
  StepSettings next_settings() const;
  void upload(const StepSettings& settings, int64_t flags);
  StepInputs inputs_of(const StepSettings& settings) const;
  ExpectedUpdate expected_update(const StepSettings& settings) const;
  [[noreturn]] void refuse(int64_t step, const StepOutcome& outcome);
  Metrics metrics_of(const StepOutcome& outcome, double lr) const;
  // What is summed beside the loss, by the names of its metrics.
  std::vector<std::string_view> figures_of_loss() const {
    if (options_.distillation) return options_.distillation->figures();
    return options_.content.preference ? preference_figures() : loss_parts(options_.model);
  }
  StepInput input_of(BatchSource& source, const StepSettings& settings);
  void prepare_graphs();
  RecomputedBlocks recomputed_blocks();
  std::vector<std::unique_ptr<const PipelineStage>> make_chunks();
  StepShape full_shape() const { return {.length = options_.length}; }
  int64_t length_here(const StepShape& shape) const;
  BatchSpec batch_of(const StepShape& shape, RunMode mode) const;
  double planned_weight(double weight) const { return options_.content.is_uneven ? weight : 0; }
  double weight_of_step(const StepShape& shape) const;
  StepResources place_on(ParameterStore& store, NumberWatch* numbers, const StepShape& shape);
  StepGraphs* graphs_for(const StepShape& shape);
  void log_recompute_times(int64_t step);
  void update(const StepSettings& settings);
  void update_weights(const StepSettings& settings);
  void reduce_sums(const FinishRule& rule);

  const EngineOptions options_;
  const RankResources resources_;
  std::unique_ptr<Optimizer> optimizer_;
  const StepRules rules_;
  const int results_late_;
  ShardedStore store_;
  StepScalars scalars_;
  const struct Programs { StepProgram training, evaluation; } programs_;
  SegmentTimes recompute_times_;
  const std::vector<std::unique_ptr<const PipelineStage>> chunks_;  // this rank's layers
  const StepBatches batches_;
  StepUploads uploads_;
  const std::unique_ptr<HostSaves> saves_;  // null: activations stay on the device
  StepMemories memories_;
  bool records_ = false;  // whether steps are recorded into graphs
  // Recorded work is that of steps of one shape; for others it is made anew, since lengths grow and
  // do not come back.
  struct Recorded {
    Recorded(const StepShape& of, const RankResources& rank, ShardedStore& store)
        : shape(of), graphs(rank.streams(), store.step(), rank.groups(), rank.recorded) {}
    StepShape shape;
    StepGraphs graphs;
  };
  std::optional<Recorded> recorded_;
  int64_t step_ = 0;
  bool skipped_last_ = false;
  ScalingState scaling_;
  StepResults results_;
};

}  // namespace ds
