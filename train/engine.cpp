#include "train/engine.h"

#include <algorithm>

#include "core/failpoint.h"
#include "core/index.h"
#include "kernels/reduce.h"
#include "train/observers.h"

namespace ds {
namespace {

ZeroOptions with_slots(ZeroOptions zero, const Optimizer& optimizer) {
  zero.slots = optimizer.slots();
  return zero;
}

MemoryResource& arena_or_own(Stream& stream, ReplayArena* arena) {
  return arena != nullptr ? static_cast<MemoryResource&>(*arena) : stream.memory();
}

struct MicroBatch {
  Tensor tokens, targets;  // int32 [m, T]
  int64_t first_sample = 0;
};

MicroBatch load(const EngineOptions& options, Stream& stream, BatchSource& source, int64_t step,
                int micro_step) {
  const Shape shape{options.micro_batch, options.length};
  MicroBatch batch{.tokens = Tensor::empty(shape, DType::kI32, stream),
                   .targets = Tensor::empty(shape, DType::kI32, stream)};
  if (!stream.device().is_meta()) {
    const auto numel = to_size(shape.numel());
    batch.first_sample = source.fill(step, micro_step, {batch.tokens.data<int32_t>(), numel},
                                     {batch.targets.data<int32_t>(), numel});
  }
  return batch;
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
      store_(with_slots(options.zero, *optimizer_), resources.peers.data(), resources.stream,
             resources.comm_memory),
      scalars_(resources.peers.data().size(), resources.stream),
      model_(make_model(options.model, options.dtype, store_)) {
  store_.seal();
  if (!plan) return;
  const size_t bytes = std::max(plan->train.bytes_total, plan->evaluate.bytes_total);
  arena_block_ = Tensor::empty({static_cast<int64_t>(bytes)}, DType::kU8, resources_.stream,
                               MemoryTag::kActivations);
  void* block = arena_block_.address();
  train_arena_ = std::make_unique<ReplayArena>(std::move(plan->train), block);
  evaluate_arena_ = std::make_unique<ReplayArena>(std::move(plan->evaluate), block);
  store_.follow(std::move(plan->gathers));
}

Engine::~Engine() = default;

void Engine::add_losses(const Tensor& losses, double divisor) {
  kernels::sum_into(resources_.stream, losses, divisor, kernels::Write::kAccumulate,
                    scalars_.loss());
}

void Engine::run_micro_step(BatchSource& source, int micro_step, const StepSettings& settings) {
  {
    const MemoryScope scope(resources_.stream, arena_or_own(resources_.stream, train_arena_.get()));
    const MicroBatch batch = load(options_, resources_.stream, source, step_, micro_step);
    DS_FAILPOINT("engine.batch_loaded");
    store_.begin_micro_step();
    Tape tape;
    Context context{.stream = resources_.stream,
                    .store = store_,
                    .mode = RunMode::kTrain,
                    .tape = &tape,
                    .dropout = settings.dropout,
                    .first_sample = batch.first_sample};
    const double tokens = static_cast<double>(options_.micro_batch) *
                          static_cast<double>(options_.length) * options_.micro_steps() *
                          resources_.peers.data().size();
    const Tensor losses =
        model_->loss(context, batch.tokens, batch.targets, static_cast<float>(1.0 / tokens));
    DS_FAILPOINT("engine.forward_done");
    add_losses(losses, tokens);
    model_->backward(context);
    DS_FAILPOINT("engine.backward_done");
    store_.end_micro_step();
    DS_FAILPOINT("engine.reduced");
  }
  if (train_arena_) train_arena_->rewind();
}

void Engine::reduce_sums(double max_norm) {
  Tensor gathered = scalars_.gathered();
  resources_.peers.data().all_gather(scalars_.sums(), gathered, resources_.stream);
  kernels::finish_step(resources_.stream, gathered, max_norm, scalars_);
}

void Engine::first_micro_step(BatchSource& source) {
  store_.begin_step();
  run_micro_step(source, 0, rules_.settings_at(step_ + 1));
}

StepResult Engine::train_batch(BatchSource& source, int64_t flags, StepObserver* observer) {
  const StepSettings settings = rules_.settings_at(step_ + 1);
  scalars_.upload(optimizer_->inputs({.lr = settings.lr, .betas = settings.betas}, settings.step),
                  flags);
  store_.begin_step();
  for (int micro_step = 0; micro_step < options_.micro_steps(); ++micro_step) {
    if (observer != nullptr) observer->before_micro_step(step_, micro_step);
    run_micro_step(source, micro_step, settings);
  }
  const Span span(resources_.stream, "optimizer step");
  DS_FAILPOINT("engine.before_norm");
  store_.add_sum_of_squares(scalars_.squares());
  DS_FAILPOINT("engine.before_sums");
  reduce_sums(options_.gradient_clipping);
  DS_FAILPOINT("engine.sums_reduced");
  optimizer_->step(store_.shards(), scalars_, resources_.peers.data(), resources_.stream);
  DS_FAILPOINT("engine.shards_updated");
  DS_FAILPOINT("engine.before_publish");
  store_.publish();
  DS_FAILPOINT("engine.published");
  const StepOutcome outcome = scalars_.read_back();
  if (outcome.skip != 0) {
    throw ValidationError(fmt::format(
        "step {}: loss {} and gradient norm {} are not both finite; the weights are those of step "
        "{}; lower the learning rate or set gradient_clipping",
        settings.step, outcome.sums.loss, outcome.norm, step_));
  }
  ++step_;
  return {.metrics = {{"loss", outcome.sums.loss},
                      {"grad_norm", outcome.norm},
                      {"lr", settings.lr},
                      {"loss_scale", outcome.loss_scale}},
          .flags = static_cast<int64_t>(outcome.sums.flags)};
}

void Engine::forward_only(BatchSource& source, int64_t batch) {
  {
    const MemoryScope scope(resources_.stream,
                            arena_or_own(resources_.stream, evaluate_arena_.get()));
    const MicroBatch micro = load(options_, resources_.stream, source, batch, 0);
    Context context{.stream = resources_.stream, .store = store_, .mode = RunMode::kEval};
    add_losses(model_->loss(context, micro.tokens, micro.targets, 1.0F), 1.0);
  }
  if (evaluate_arena_) evaluate_arena_->rewind();
}

double Engine::evaluate(BatchSource& source, int64_t batches) {
  scalars_.upload({}, 0);
  for (int64_t batch = 0; batch < batches; ++batch) forward_only(source, batch);
  const double tokens = static_cast<double>(options_.micro_batch * options_.length) *
                        static_cast<double>(batches) * resources_.peers.data().size();
  reduce_sums(0);
  return scalars_.read_back().sums.loss / tokens;
}

}  // namespace ds
