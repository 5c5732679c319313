#include "train/engine.h"

#include "core/cuda/device_flags.h"
#include "core/failpoint.h"
#include "core/index.h"
#include "kernels/gemm/matmul.h"
#include "model/families/zoo.h"

namespace ds {
namespace {

ZeroOptions with_slots(ZeroOptions zero, const Optimizer& optimizer) {
  zero.slots = optimizer.slots();
  return zero;
}

}  // namespace

Engine::Engine(const EngineOptions& options, const RankResources& resources,
               std::optional<StepPlan> plan)
    : options_(options),
      resources_(resources),
      optimizer_(make_optimizer(options.optimizer)),
      rules_({.base_lr = learning_rate(options.optimizer),
              .schedule = options.schedule,
              .momentum = optimizer_->momentum_support(),
              .seed = options.seed}),
      store_(with_slots(options.zero, *optimizer_), resources.peers.mesh, resources.streams(),
             resources.comm_memory, resources.offload()),
      scalars_(resources.peers.data().size(), resources.stream, resources.pinned),
      training_(
          step_program(PipelineKind::kDataParallel, {.micro_batches = options.micro_steps()}, 0)),
      evaluation_(step_program(PipelineKind::kInference, {.micro_batches = 1}, 0)),
      uploads_({.buffers = std::max(training_.buffers, evaluation_.buffers),
                .tokens = options.micro_batch * options.length,
                .pinned = resources.pinned,
                .copies = resources.copies},
               resources.stream),
      model_(make_stage(options.model, options.dtype, store_, all_layers(options.model))),
      place_{.stream = resources.stream,
             .store = store_,
             .uploads = uploads_,
             .loss = scalars_.loss(),
             .chunks = {model_.get()},
             .micro_batch = options.micro_batch,
             .length = options.length},
      results_(resources.results_late, resources.pinned) {
  resources.require_data_only();
  // What is made once and stays has no place among what comes and goes.
  kernels::reserve_matmul_scratch(resources.stream);
  const DeviceFlags flags(resources.stream);
  store_.seal();
  if (!plan) return;
  memories_.follow(plan->train, plan->evaluate, resources_.stream);
  store_.follow(std::move(plan->gathers));
  store_.slots().follow(std::move(plan->buckets), resources_.stream);
  prepare_graphs();
}

void Engine::reduce_sums(double max_norm) {
  Tensor gathered = scalars_.gathered();
  resources_.peers.data().all_gather(scalars_.sums(), gathered, resources_.stream);
  kernels::finish_step(resources_.stream, gathered, max_norm, scalars_);
}

StepInput Engine::input_of(BatchSource& source, const StepSettings& settings) {
  const double tokens = static_cast<double>(options_.micro_batch) *
                        static_cast<double>(options_.length) * options_.micro_steps() *
                        resources_.peers.data().size();
  return {.source = source,
          .step = begun(),
          .tokens = tokens,
          .dropout = settings.dropout,
          .memory = memories_.train()};
}

// Only what has places of its own can be done again where it was recorded.
void Engine::prepare_graphs() {
  const bool on_device = device().kind == Device::Kind::kCuda;
  if (!options_.cuda_graphs || !on_device || !resources_.peers.data().is_recordable()) return;
  if (options_.zero.offloads_state()) return;  // the host has a part in every step
  graphs_.emplace(resources_.streams(), store_, resources_.peers.data(), resources_.recorded);
}

void Engine::first_micro_step(BatchSource& source) {
  StepInput input = input_of(source, rules_.settings_at(begun() + 1));
  store_.begin_step();
  StepProgram one = step_program(PipelineKind::kDataParallel, {.micro_batches = 1}, 0);
  std::erase_if(one.instructions, [](const PipelineInstruction& instruction) {
    return instruction.op >= PipelineOp::kReduceTiedGrads;  // what follows the last micro-step
  });
  StepRunner(place_, input).run(one);
}

int64_t Engine::begin_step(BatchSource& source, int64_t flags, StepObserver* observer) {
  results_.require_room();
  const StepSettings settings = rules_.settings_at(begun() + 1);
  StepInput input = input_of(source, settings);
  input.observer = observer;
  input.optimizer_step = [&] { update(settings); };
  scalars_.upload(optimizer_->inputs({.lr = settings.lr, .betas = settings.betas}, settings.step),
                  flags);
  store_.begin_step();
  input.graphs = graphs_ ? &*graphs_ : nullptr;
  StepRunner(place_, input).run(training_);
  if (graphs_) graphs_->end_first_step();
  return settings.step;
}

void Engine::update(const StepSettings& settings) {
  const Span span(resources_.stream, "optimizer step");
  const auto all = [this] { update_weights(); };
  graphs_ ? graphs_->update(all) : all();
  DS_FAILPOINT("engine.published");
  results_.add(settings.step, settings.lr, scalars_);
}

void Engine::update_weights() {
  DS_FAILPOINT("engine.before_norm");
  store_.add_sum_of_squares(scalars_.squares());
  DS_FAILPOINT("engine.before_sums");
  reduce_sums(options_.gradient_clipping);
  DS_FAILPOINT("engine.sums_reduced");
  store_.update(*optimizer_, scalars_);
  DS_FAILPOINT("engine.shards_updated");
  DS_FAILPOINT("engine.before_publish");
  store_.publish();
}

std::optional<StepResult> Engine::next_result(Wait wait) {
  const std::optional<StepResults::Entry> taken = results_.take(wait);
  if (!taken) return std::nullopt;
  resources_.peers.data().check();  // a group of GPUs fails after its calls have returned
  const StepOutcome& outcome = taken->outcome;
  if (outcome.skip != 0) {
    results_.drop_all();
    scalars_.clear_skip();
    require_none_found(fmt::format("step {}", taken->step), outcome.found);
    throw ValidationError(fmt::format(
        "step {}: loss {} and gradient norm {} are not both finite; the weights are those of step "
        "{}; lower the learning rate or set gradient_clipping",
        taken->step, outcome.sums.loss, outcome.norm, step_));
  }
  step_ = taken->step;
  return StepResult{.step = taken->step,
                    .metrics = {{"loss", outcome.sums.loss},
                                {"grad_norm", outcome.norm},
                                {"lr", taken->lr},
                                {"loss_scale", outcome.loss_scale}},
                    .flags = static_cast<int64_t>(outcome.sums.flags)};
}

void Engine::require_at_edge(std::string_view purpose) const {
  DS_CHECK(results_.count() == 0, "{}: {} steps are under way, take their results first", purpose,
           results_.count());
}

void Engine::restore_step(int64_t step) {
  require_at_edge("restore the step");
  step_ = step;
}

double Engine::evaluate(BatchSource& source, int64_t batches) {
  require_at_edge("evaluate");
  scalars_.upload({}, 0);
  for (int64_t batch = 0; batch < batches; ++batch) {
    const StepInput input{
        .source = source, .step = batch, .mode = RunMode::kEval, .memory = memories_.evaluate()};
    store_.slots().begin(BucketRound::kEvaluation);
    StepRunner(place_, input).run(evaluation_);
    store_.slots().end();
  }
  const double tokens = static_cast<double>(options_.micro_batch * options_.length) *
                        static_cast<double>(batches) * resources_.peers.data().size();
  reduce_sums(0);
  const StepOutcome outcome = scalars_.read_back();
  scalars_.clear_skip();  // a loss that is not finite here is no reason to skip the next update
  require_none_found("evaluation", outcome.found);
  return outcome.sums.loss / tokens;
}

}  // namespace ds
