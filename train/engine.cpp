#include "train/engine.h"

#include <spdlog/spdlog.h>

#include <cmath>
#include <utility>

#include "core/device/device_flags.h"
#include "core/status/failpoint.h"
#include "core/values/index.h"
#include "kernels/attention/attention_choice.h"
#include "kernels/matmul/matmul.h"
#include "model/stores/watched_store.h"
#include "optim/loss_scaler.h"
#include "train/step/pipeline.h"

namespace ds {
namespace {

// Weights are shared out over all that see other tokens, unless the policy says over fewer. A
// pipeline has several micro-batches under way, whose gradients add up until the step ends.
ZeroOptions with_state_of(ZeroOptions zero, Optimizer& optimizer, const MeshLayout& mesh) {
  zero.state.optimizer = &optimizer;
  if (zero.placement.policy.shard_over == Axis::kData)
    zero.placement.policy.shard_over = mesh.token_axis();
  if (optimizer.is_staged()) zero.wire.reduce = Reduce::kIfAsked;
  if (mesh.size(Axis::kPipe) == 1) return zero;
  if (optimizer.is_staged()) {
    throw Unsupported(
        "engine: 1-bit optimizers exchange what they need themselves, and no stage of a pipeline "
        "has all of it");
  }
  zero.wire.reduce = Reduce::kStepEnd;
  return zero;
}

// Before anything is made of them. Groups of GPUs whose calls the stream carries out alone wait for
// the receiver of what they send, which only 1F1B's messages are in order for.
const RankResources& known(const RankResources& resources, const EngineOptions& options) {
  resources.require_known_mesh();
  if (options.module) require_module(options, resources.peers.mesh.layout());
  const bool waits = resources.pipe() != nullptr && resources.pipe()->is_recordable();
  if (waits && options.pipeline.schedule != PipelineKind::k1F1B) {
    throw Unsupported(fmt::format(
        "pipeline.schedule: {} sends before its peer receives, which NCCL waits for; take 1f1b, or "
        "communication.backend shm or tcp",
        to_string(options.pipeline.schedule)));
  }
  return resources;
}

PipelinePlace pipeline_place(const Mesh& mesh) {
  return {.stage = mesh.coordinate(Axis::kPipe), .stages = mesh.size(Axis::kPipe)};
}

TensorPlace tensor_place(const EngineOptions& options, const Mesh& mesh) {
  if (options.module) return {};
  const int replicas = key_replicas(dimensions(options.model), mesh.size(Axis::kTensor));
  DS_CHECK(mesh.size(Axis::kKeyReplica) == replicas,
           "engine: a mesh for {} ranks with the same keys, and the model has {}",
           mesh.size(Axis::kKeyReplica), replicas);
  return {.rank = mesh.coordinate(Axis::kTensor),
          .ranks = mesh.size(Axis::kTensor),
          .grain = options.shared_layers.grain,
          .shares_rows = options.shared_layers.rows};
}

std::unique_ptr<HostSaves> saves_of(const EngineOptions& options, const RankResources& resources) {
  if (!options.offload_activations) return nullptr;
  return std::make_unique<HostSaves>(
      resources.stream, resources.saves != nullptr ? *resources.saves : resources.stream,
      resources.host_memory());
}

}  // namespace

Engine::Engine(const EngineOptions& options, const RankResources& resources,
               std::optional<StepPlan> plan)
    : options_(options),
      resources_(known(resources, options)),
      optimizer_(make_optimizer(options.optimizer)),
      rules_({.base_lr = learning_rate(options.optimizer),
              .schedule = options.schedule,
              .momentum = optimizer_->momentum_support(),
              .seed = options.seed,
              .length = options.length,
              .lengths = options.lengths,
              .distilled = options.distillation ? options.distillation->last_step : 0}),
      // What a staged update does follows from how many there were before it.
      results_late_(optimizer_->is_staged() ? 0 : resources.results_late),
      store_(with_state_of(options.zero, *optimizer_, resources.peers.mesh.layout()),
             resources.peers.mesh, resources.streams(), resources.comm_memory,
             OffloadPlaces{resources.weight_places(), resources.state_place()}),
      scalars_(resources.peers.sums().size(), resources.stream, resources.pinned),
      programs_{.training = training_program(options, pipeline_place(resources.peers.mesh)),
                .evaluation = evaluation_program(options, pipeline_place(resources.peers.mesh))},
      chunks_(make_chunks()),
      batches_(rules_, options.last_step, full_shape(),
               [this](const StepShape& shape, RunMode mode) { return batch_of(shape, mode); }),
      uploads_(
          {.buffers = std::max(programs_.training.buffers, programs_.evaluation.buffers),
           .batch_bytes = std::max(batches_.largest().bytes(), batches_.of_evaluation().bytes()),
           .pinned = resources.pinned,
           .copies = resources.copies},
          resources.stream),
      saves_(saves_of(options, resources)),
      results_(results_late_, resources.pinned) {
  kernels::set_matmul_rules(resources.stream, options.gpu.matmul);
  kernels::set_attention_rules(resources.stream, options.gpu.attention);
  // What is made once and stays has no place among what comes and goes.
  kernels::reserve_matmul_scratch(resources.stream);
  const DeviceFlags flags(resources.stream);
  restore_scaling(std::nullopt);
  if (resources.pipe() != nullptr) {
    store_.know_model(specs_of_layers(options, tensor_place(options, resources.peers.mesh)));
  }
  store_.seal();
  if (!plan) return;
  memories_.follow(plan->train, plan->evaluate, resources_.stream);
  store_.gathers().follow(std::move(plan->gathers));
  store_.gathers().slots().follow(std::move(plan->buckets), resources_.stream);
  prepare_graphs();
}

std::vector<std::unique_ptr<const PipelineStage>> Engine::make_chunks() {
  const Mesh& mesh = resources_.peers.mesh;
  std::vector<std::unique_ptr<const PipelineStage>> chunks;
  for (const LayerRange& layers : layers_of_chunks(options_, pipeline_place(mesh))) {
    chunks.push_back(
        make_chunk(options_, store_, layers, recomputed_blocks(), tensor_place(options_, mesh)));
  }
  return chunks;
}

StepResources Engine::place_on(ParameterStore& store, NumberWatch* numbers,
                               const StepShape& shape) {
  Mesh& mesh = resources_.peers.mesh;
  StepResources place{.stream = resources_.stream,
                      .store = store,
                      .uploads = uploads_,
                      .loss = scalars_.loss(),
                      .weights = scalars_.weights(),
                      .operands = options_.operands,
                      .distills = shape.distills,
                      .gradient_factor = options_.gradient_factor,
                      .loss_scale = scales() ? scalars_.loss_scale() : nullptr,
                      .saves = saves_.get(),
                      .numbers = numbers,
                      .chunks = {},
                      .micro_batch = options_.micro_batch,
                      .length = length_here(shape),
                      .parallel = resources_.parallel(options_.shared_layers.rows),
                      .activations = resources_.pipe(),
                      .gradients = mesh.pipe_gradients(),
                      .ends = mesh.pipe_ends(),
                      .shares_activations = options_.pipeline.shares_activations,
                      .shares_gradients = options_.pipeline.shares_gradients};
  for (const auto& chunk : chunks_) place.chunks.push_back(chunk.get());
  for (const std::string_view part : figures_of_loss()) {
    place.loss_parts.emplace_back(part, scalars_.loss_part(std::ssize(place.loss_parts)));
  }
  return place;
}

int64_t Engine::length_here(const StepShape& shape) const {
  const int parts = resources_.peers.mesh.size(Axis::kSequence);
  DS_CHECK(shape.length % parts == 0, "engine: samples of {} tokens, which {} ranks cannot share",
           shape.length, parts);
  return shape.length / parts;
}

BatchSpec Engine::batch_of(const StepShape& shape, RunMode mode) const {
  BatchSpec spec;
  for (const auto& chunk : chunks_) {
    spec.add(chunk->batch_spec({.samples = options_.micro_batch,
                                .length = length_here(shape),
                                .whole_length = shape.length,
                                .content = options_.content,
                                .mode = mode}));
  }
  return spec;
}

double Engine::weight_of_step(const StepShape& shape) const {
  return static_cast<double>(options_.micro_batch) *
         static_cast<double>(options_.losses_per_sample(shape)) * options_.micro_steps() *
         resources_.peers.mesh.size(Axis::kData);
}

void Engine::reduce_sums(const FinishRule& rule) {
  Tensor gathered = scalars_.gathered();
  resources_.peers.sums().all_gather(scalars_.sums(), gathered, resources_.stream);
  kernels::finish_step(resources_.stream, gathered, rule, scalars_);
}

StepInput Engine::input_of(BatchSource& source, const StepSettings& settings) {
  return {.source = source,
          .batch = batches_.of(settings.shape),
          .all_chunks_read = options_.content.is_for_all_layers(),
          .step = begun(),
          .weight = weight_of_step(settings.shape),
          .dropout = settings.dropout,
          .memory = memories_.train(settings.shape)};
}

RecomputedBlocks Engine::recomputed_blocks() {
  RecomputedBlocks recomputed = options_.recomputed;
  // Micro-batches of a pipeline are under way together, and what lies on the host comes back later.
  recomputed.keeps_last = resources_.pipe() == nullptr && !options_.offload_activations;
  if (recomputed.is_timed) recomputed.recompute.times = &recompute_times_;
  return recomputed;
}

void Engine::log_recompute_times(int64_t step) {
  for (const auto& [place, seconds] : std::exchange(recompute_times_.places, {})) {
    spdlog::info("step {}: checkpoint {}: forward {:.2f} ms, backward {:.2f} ms", step, place,
                 seconds.forward * 1e3, seconds.backward * 1e3);
  }
}

// Only what has places of its own can be done again where it was recorded, and only what the host
// does not wait for. Stages take turns with each other, not with themselves.
void Engine::prepare_graphs() {
  if (resources_.pipe() != nullptr) return;
  const bool on_device = device().kind == Device::Kind::kCuda;
  const bool waits = options_.recomputed.recompute.synchronize || options_.recomputed.is_timed;
  if (!options_.gpu.graphs || waits || !on_device || !resources_.are_recordable()) return;
  if (!store_.step().is_recordable() || optimizer_->is_staged()) return;
  records_ = true;
}

StepGraphs* Engine::graphs_for(const StepShape& shape) {
  if (!records_) return nullptr;
  if (!recorded_ || recorded_->shape != shape) {
    resources_.stream.synchronize();  // recorded work of the shape before may be under way
    recorded_.reset();
    recorded_.emplace(shape, resources_, store_);
  }
  return &recorded_->graphs;
}

void Engine::recorded_micro_steps(BatchSource& source, const StepShape& shape) {
  StepSettings settings = next_settings();
  settings.shape = shape;
  StepInput input = input_of(source, settings);
  store_.step().begin();
  StepProgram program = programs_.training;
  if (resources_.pipe() == nullptr) {
    program = step_program(PipelineKind::kDataParallel, {.micro_batches = 1}, 0);
  }
  std::erase_if(program.instructions, [](const PipelineInstruction& instruction) {
    return instruction.op >= PipelineOp::kReduceTiedGrads;  // what follows the last micro-step
  });
  const StepResources place = place_on(store_, nullptr, settings.shape);
  StepRunner(place, input).run(program);
}

// As if the steps under way all had updates.
StepSettings Engine::next_settings() const {
  return rules_.settings_at(begun() + 1, begun() + 1 - scaling_.skipped);
}

StepInputs Engine::inputs_of(const StepSettings& settings) const {
  return optimizer_->inputs({.lr = settings.lr, .betas = settings.betas}, settings.update);
}

void Engine::upload(const StepSettings& settings, int64_t flags) {
  static_assert(StepResults::kMost == 2, "of one step at most it is open whether it is skipped");
  const bool open = scales() && results_.count() > 0;
  scalars_.upload(inputs_of(settings), flags,
                  open ? inputs_of(rules_.settings_at(settings.step, settings.update - 1))
                       : StepInputs{.step = 0});
}

// That of gradients that are finite, and no longer than they may be.
ExpectedUpdate Engine::expected_update(const StepSettings& settings) const {
  const double loss_scale = scales() ? scaling_.scaler.scale : 1.0;
  return {.inputs = inputs_of(settings),
          .grad_scale = static_cast<float>(1.0F / (options_.gradient_factor * loss_scale))};
}

int64_t Engine::begin_step(BatchSource& source, int64_t flags, StepObserver* observer,
                           const std::optional<StepShape>& shape) {
  results_.require_room();
  StepSettings settings = next_settings();
  settings.shape = shape.value_or(settings.shape);
  StepInput input = input_of(source, settings);
  input.observer = observer;
  input.optimizer_step = [&] { update(settings); };
  upload(settings, flags);
  store_.step().begin(optimizer_->gradients_at(settings.update), settings.step);
  if (store_.step().updates_ahead()) store_.step().expect(expected_update(settings));
  input.graphs = graphs_for(settings.shape);
  const StepResources place = place_on(store_, nullptr, settings.shape);
  StepRunner(place, input).run(programs_.training);
  if (recorded_) recorded_->graphs.end_first_step();
  log_recompute_times(settings.step);
  return settings.step;
}

bool Engine::replay_step(BatchSource& source, NumberWatch& numbers, StepObserver& observer) {
  require_at_edge("make a step once more");
  const StepSettings settings = next_settings();
  WatchedStore store(store_, numbers);
  const StepResources place = place_on(store, &numbers, settings.shape);
  StepInput input = input_of(source, settings);
  input.observer = &observer;
  StepProgram program = programs_.training;
  std::erase_if(program.instructions, [](const PipelineInstruction& instruction) {
    return instruction.op == PipelineOp::kOptimizerStep;
  });
  upload(settings, 0);
  store_.step().begin(optimizer_->gradients_at(settings.update), settings.step);
  StepRunner(place, input).run(program);
  store_.step().add_sum_of_squares(scalars_.squares());
  reduce_sums(
      {.is_update = false, .planned_weight = planned_weight(weight_of_step(settings.shape))});
  const StepOutcome again = scalars_.read_back();
  scalars_.clear_skip();
  return std::isfinite(again.sums.loss) && std::isfinite(again.norm);
}

void Engine::probe_micro_step(BatchSource& source, int64_t step, int micro_step,
                              ParameterStore& store) {
  require_at_edge("probe a micro-step");
  const StepSettings settings = rules_.settings_at(step + 1);
  StepResources place = place_on(store, nullptr, settings.shape);
  place.loss = Tensor::zeros({1}, DType::kF64, resources_.stream, MemoryTag::kScratch);
  place.weights = Tensor::zeros({1}, DType::kF64, resources_.stream, MemoryTag::kScratch);
  place.loss_parts.clear();
  place.gradient_factor = 1;
  place.loss_scale = nullptr;
  StepInput input = input_of(source, settings);
  input.step = step;
  input.weight /= options_.micro_steps();
  StepProgram one = programs_.training;
  std::erase_if(one.instructions, [&](const PipelineInstruction& instruction) {
    return instruction.micro_batch != micro_step;
  });
  store_.step().begin();
  StepRunner(place, input).run(one);
  recompute_times_.places.clear();  // which are those of steps
}

void Engine::update(const StepSettings& settings) {
  const Span span(resources_.stream, "optimizer step");
  const auto all = [&] { update_weights(settings); };
  recorded_ ? recorded_->graphs.update(all) : all();
  DS_FAILPOINT("engine.published");
  results_.add(settings.step, scalars_);
}

void Engine::update_weights(const StepSettings& settings) {
  DS_FAILPOINT("engine.before_norm");
  store_.step().add_sum_of_squares(scalars_.squares());
  DS_FAILPOINT("engine.before_sums");
  reduce_sums({.max_norm = options_.gradient_clipping,
               .loss_scale = options_.loss_scale,
               .gradient_factor = options_.gradient_factor,
               .own_gradients = optimizer_->gradients_at(settings.update) == GradientsOf::kOwnRank,
               .planned_weight = planned_weight(weight_of_step(settings.shape))});
  DS_FAILPOINT("engine.sums_reduced");
  store_.step().update(*optimizer_, scalars_,
                       {.update = settings.update,
                        .rate = [this](int64_t update) { return rules_.settings_at(update).lr; }});
  DS_FAILPOINT("engine.shards_updated");
  DS_FAILPOINT("engine.before_publish");
  store_.step().publish();
}

std::optional<StepResult> Engine::next_result(Wait wait) {
  const std::optional<StepResults::Entry> taken = results_.take(wait);
  if (!taken) return std::nullopt;
  resources_.peers.mesh.check();  // a group of GPUs fails after its calls have returned
  const StepOutcome& outcome = taken->outcome;
  if (outcome.is_skipped(Skip::kBad) || outcome.is_skipped(Skip::kExhausted)) {
    refuse(taken->step, outcome);
  }
  step_ = taken->step;
  const double lr = rules_.settings_at(step_, step_ - scaling_.skipped).lr;
  skipped_last_ = outcome.is_skipped(Skip::kOverflow);
  if (skipped_last_) ++scaling_.skipped;
  if (scales()) scaling_.scaler = outcome.scaler;
  return StepResult{.step = taken->step,
                    .metrics = metrics_of(outcome, lr),
                    .flags = static_cast<int64_t>(outcome.sums.flags),
                    .skipped = skipped_last_};
}

void Engine::refuse(int64_t step, const StepOutcome& outcome) {
  results_.drop_all();
  scalars_.clear_skip();
  require_none_found(fmt::format("step {}", step), outcome.found);
  if (outcome.is_skipped(Skip::kExhausted)) {
    throw NotFinite(fmt::format("step {}: {}; the weights are those of step {}", step,
                                exhausted_text(options_.loss_scale, outcome.loss_scale), step_));
  }
  throw NotFinite(fmt::format(
      "step {}: loss {} and gradient norm {} are not both finite; the weights are those of step "
      "{}; lower the learning rate or set gradient_clipping",
      step, outcome.sums.loss, outcome.norm, step_));
}

Metrics Engine::metrics_of(const StepOutcome& outcome, double lr) const {
  Metrics out{{"loss", outcome.sums.loss},
              {"grad_norm", outcome.norm},
              {"lr", lr},
              {"loss_scale", outcome.loss_scale}};
  const StepShape shape = rules_.settings_at(step_).shape;
  for (int64_t part = 0; const std::string_view name : figures_of_loss()) {
    const double sum = outcome.sums.parts[part++];
    if (!options_.distillation || shape.distills) out.set(name, sum);
  }
  if (scales()) out.set("skipped_steps", static_cast<double>(scaling_.skipped));
  if (options_.lengths) {
    out.set("sequence_length", static_cast<double>(shape.length));
  }
  return out;
}

void Engine::require_at_edge(std::string_view purpose) const {
  DS_CHECK(results_.count() == 0, "{}: {} steps are under way, take their results first", purpose,
           results_.count());
}

void Engine::restore_step(int64_t step) {
  require_at_edge("restore the step");
  step_ = step;
  skipped_last_ = false;
  scalars_.write({.updates = step_ - scaling_.skipped, .scaler = scaling_.scaler});
}

void Engine::restore_scaling(const std::optional<ScalingState>& saved) {
  require_at_edge("restore the loss scale");
  scaling_ = saved.value_or(ScalingState{});
  if (!saved || options_.loss_scale.kind != LossScaling::kDynamic) {
    scaling_.scaler = first_state(options_.loss_scale);
  }
  restore_step(step_);
}

double Engine::evaluate(BatchSource& source, int64_t batches,
                        const std::function<void(int64_t done)>& on_batch, ScoreObserver* scores,
                        Metrics* figures) {
  require_at_edge("evaluate");
  scalars_.upload({}, 0);
  const StepResources place = place_on(store_, nullptr, full_shape());
  // The first one of ranks that share layers does.
  const bool counts_losses = mesh().coordinate(Axis::kTensor) == 0;
  for (int64_t batch = 0; batch < batches; ++batch) {
    const StepInput input{.source = source,
                          .batch = batches_.of_evaluation(),
                          .all_chunks_read = options_.content.is_for_all_layers(),
                          .step = batch,
                          .mode = RunMode::kEval,
                          .memory = memories_.evaluate(),
                          .scores = counts_losses ? scores : nullptr};
    store_.gathers().slots().begin(BucketRound::kEvaluation);
    StepRunner(place, input).run(programs_.evaluation);
    store_.gathers().slots().end();
    on_batch(batch + 1);
  }
  const double tokens =
      static_cast<double>(options_.micro_batch * options_.losses_per_sample(full_shape())) *
      static_cast<double>(batches) * resources_.peers.mesh.size(Axis::kData);
  reduce_sums({.is_update = false, .planned_weight = planned_weight(tokens)});
  const StepOutcome outcome = scalars_.read_back();
  scalars_.clear_skip();  // a loss that is not finite here is no reason to skip the next update
  require_none_found("evaluation", outcome.found);
  if (figures != nullptr && !options_.distillation) {  // evaluations ask no teacher
    for (int64_t part = 0; const std::string_view name : figures_of_loss()) {
      figures->set(name, outcome.sums.parts[part++] / tokens);
    }
  }
  return outcome.sums.loss / tokens;
}

KvCache Engine::sample_cache() {
  return {resources_.stream, dimensions(options_.model), options_.dtype,
          KvCache::Room{.batch = 1, .capacity = options_.sample_length - 1}};
}

// Ranks that share sequences compute all of it alike.
Tensor Engine::next_logits(int32_t token, KvCache& cache) {
  require_at_edge("continue a text");
  const PipelineStage& whole = *chunks_.front();
  DS_CHECK(whole.is_first() && whole.is_last() && mesh().size(Axis::kTensor) == 1,
           "engine: a rank that has a part of the model continues no text");
  Stream& stream = resources_.stream;
  Tensor tokens = Tensor::empty({1}, DType::kI32, stream);
  stream.copy(&token, tokens.address(), tokens.bytes());
  StageInput input{.rows = {.batch = 1, .length = 1, .positions = cache.length()}};
  input.batch.add(batch_field::kTokens, std::move(tokens));
  Context context{.stream = stream,
                  .store = &store_,
                  .pass = {.mode = RunMode::kEval, .operands = options_.operands},
                  .cache = &cache};
  store_.gathers().slots().begin(BucketRound::kEvaluation);
  Tensor logits = whole.next_logits(context, std::move(input));
  store_.gathers().slots().end();
  return logits;
}

}  // namespace ds
