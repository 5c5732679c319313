#include "train/plan/dry_run.h"

#include <algorithm>
#include <list>
#include <span>

#include "comm/peers.h"
#include "core/values/index.h"
#include "model/exchange/tensor.h"
#include "train/batches/no_data.h"
#include "train/eigenvalue/block_eigenvalues.h"
#include "train/settings/observers.h"
#include "train/step/prefetching_source.h"
#include "train/workspace.h"

namespace ds {
namespace {

int updater_threads(const EngineOptions& options) {
  const std::optional<ZenflowOptions>& zenflow = options.zero.state.zenflow;
  return options.zero.state.update_ahead || (zenflow && zenflow->overlaps) ? 1 : 0;
}

// First pass: on demand, recording. What the micro-step and the evaluation allocate beside the
// state; every micro-step allocates alike. A second micro-step follows the plan of gathers and
// tells when buckets are taken and given back.
StepPlan record(const EngineOptions& options, const MeshSizes& sizes, int rank,
                const DeviceCeilings& ceilings) {
  Connections nobody = Connections::meta(rank, sizes);
  Workspace workspace({.device = Device::meta(),
                       .stands_for = ceilings.device,
                       .updater_threads = updater_threads(options),
                       .overlaps_communication = ceilings.overlaps_communication},
                      nobody.peers());
  Engine engine(options, workspace.resources(), std::nullopt);
  NoData nothing;
  StepPlan plan;
  std::list<StepRecorder> trainings;  // of which each is worked in until there is another one
  StepRecorder evaluation(workspace.heap());
  const auto record_steps = [&](const StepShape& shape) {
    StepRecorder& training = trainings.emplace_back(workspace.heap());
    engine.memories().record(training, evaluation);
    engine.recorded_micro_steps(nothing, shape);
    plan.train[shape] = plan_step_arena(training.record(), engine.training().instructions);
  };
  const std::vector<StepRules::FirstStep>& shapes = engine.batches().shapes();
  record_steps(shapes.front().shape);
  engine.evaluate(nothing, 1);
  plan.evaluate = plan_step_arena(evaluation.record(), engine.evaluation().instructions);
  plan.gathers = engine.store().gathers().plan(options.zero.layout.gather);
  plan.buckets.evaluation = plan_arena(engine.store().gathers().slots().recorded());
  engine.store().gathers().follow(plan.gathers);
  engine.recorded_micro_steps(nothing, shapes.front().shape);
  plan.buckets.micro_step = plan_arena(engine.store().gathers().slots().recorded());
  for (const auto& [shape, step] : std::span(shapes).subspan(1)) record_steps(shape);
  return plan;
}

// One for each stream; what is over last ends the step. What is made before that begins, as zeros
// of the state, is not counted.
struct Clocks {
  explicit Clocks(const DeviceCeilings& ceilings)
      : of_host(ceilings.of_host()),
        of_updater(ceilings.of_host(ceilings.updater_share)),
        compute(ceilings),
        peers(ceilings),
        saves(ceilings),
        fetches(ceilings),
        disk(ceilings),
        host(of_host, Busy::kHost),
        updater(of_updater, Busy::kHost) {}

  void begin_step() {
    for (CostClock* clock : all()) began = std::max(began, clock->now());
    for (CostClock* clock : all()) clock->begin(began);
  }
  void tell(RankPlan& plan) {
    for (const CostClock* clock : all()) {
      plan.flops_per_step += clock->flops();
      plan.seconds_per_step = std::max(plan.seconds_per_step, clock->now() - began);
      for (int link = 0; link < kLinks; ++link) {
        nth(plan.link_bytes, link) += nth(clock->link_bytes(), link);
      }
      for (int what = 0; what < kBusyKinds; ++what)
        nth(plan.busy, what) += nth(clock->busy(), what);
    }
  }

  const DeviceCeilings of_host, of_updater;
  CostClock compute, peers, saves, fetches, disk, host, updater;
  double began = 0;

 private:
  std::array<CostClock*, 7> all() {
    return {&compute, &peers, &saves, &fetches, &disk, &host, &updater};
  }
};

// How long each instruction takes, by the clock of what computes.
class InstructionTimes final : public StepObserver {
 public:
  explicit InstructionTimes(const CostClock& clock) : clock_(clock) {}
  void before_instruction(int64_t, const PipelineInstruction&) override { began_ = clock_.now(); }
  void after_instruction(int64_t, const PipelineInstruction& done) override {
    const double seconds = clock_.now() - began_;
    if (done.buffer < 0) {
      ending_ += seconds;
    } else {
      Sum& sum = sums_[{done.chunk, done.op}];
      sum.seconds += seconds;
      ++sum.count;
    }
  }
  WorkSeconds work() const {
    WorkSeconds work{.each = {}, .ending = ending_};
    for (const auto& [what, sum] : sums_) work.each[what] = sum.seconds / sum.count;
    return work;
  }

 private:
  struct Sum {
    double seconds = 0;
    int count = 0;
  };
  const CostClock& clock_;
  double began_ = 0, ending_ = 0;
  std::map<std::pair<int, PipelineOp>, Sum> sums_;
};

void play_update(Engine& engine, int64_t number, const StepShape& shape,
                 StepObserver* observer = nullptr) {
  NoData nothing;
  engine.restore_step(number - 1);
  engine.begin_step(nothing, 0, observer, shape);
  engine.next_result(Wait::kYes);
}

// Those of the model that are this rank's, which whoever else has them does not count.
void count_parameters(Engine& engine, RankPlan& plan) {
  const bool packs = engine.options().zero.layout.base_code.has_value();
  for (ParamId id = 0; id < engine.store().count(); ++id) {
    const ParamSpec& spec = engine.store().spec(id);
    const bool repeats = std::ranges::count(spec.replicas.same, Axis::kPipe) > 0;
    if (repeats && engine.mesh().coordinate(Axis::kPipe) > 0) continue;  // the first stage has it
    if (spec.second_model) {
      plan.teacher += spec.logical_shape().numel();
      continue;
    }
    plan.parameters += spec.logical_shape().numel();
    if (spec.trains) continue;
    plan.frozen += spec.logical_shape().numel();
    if (spec.packs && packs) plan.packed += spec.logical_shape().numel();
  }
}

// Second pass: what a step and an evaluation come to when they follow the plan.
RankPlan play(const EngineOptions& options, const MeshSizes& sizes, std::vector<int> ranks,
              const DeviceCeilings& ceilings) {
  RankPlan plan;
  plan.step = record(options, sizes, ranks.front(), ceilings);
  CommVolume volume;
  Connections nobody =
      Connections::meta(ranks.front(), sizes, {.volume = &volume}, ceilings.ranks_of_host);
  Clocks clocks(ceilings);
  Workspace workspace({.device = Device::meta(),
                       .stands_for = ceilings.device,
                       .updater_threads = updater_threads(options),
                       .trace = &clocks.compute,
                       .overlaps_communication = ceilings.overlaps_communication,
                       .communication_trace = &clocks.peers,
                       .saves_trace = &clocks.saves,
                       .fetches_trace = &clocks.fetches,
                       .disk_trace = &clocks.disk,
                       .host_trace = &clocks.host,
                       .updater_trace = &clocks.updater,
                       .pinned_beside = ceilings.pinned_beside},
                      nobody.peers());
  NoData nothing;
  const RankResources resources = workspace.resources();
  Engine engine(options, resources, plan.step);
  std::optional<HostBlock> batches;  // of a GPU, which are read ahead of the step
  if (resources.pinned != nullptr && !engine.batches().largest().fields().empty()) {
    batches.emplace(PrefetchingSource::block_bytes(engine.batches().largest()), resources.pinned);
  }
  const std::vector<int64_t> updates = options.zero.state.zenflow
                                           ? std::vector{usual_update(*options.zero.state.zenflow)}
                                           : engine.optimizer().kinds_of_updates(options.last_step);
  const std::vector<StepRules::FirstStep>& shapes = engine.batches().shapes();
  const StepShape& longest = shapes.front().shape;
  clocks.begin_step();
  InstructionTimes times(clocks.compute);
  play_update(engine, updates.front(), longest, &times);
  clocks.tell(plan);
  plan.work = times.work();
  for (const auto& [axis, ops] : volume.totals()) {
    for (const auto& [op, count] : ops) {
      plan.wire_bytes[axis][op] = static_cast<double>(count.wire_bytes);
    }
  }
  // The other kinds of updates do not stand for the run, but their memory counts.
  for (const int64_t other : std::span(updates).subspan(1)) play_update(engine, other, longest);
  for (const auto& [shape, step] : std::span(shapes).subspan(1)) {
    play_update(engine, updates.front(), shape);
  }
  engine.evaluate(nothing, 1);
  engine.store().state().visit_owned(Visit::kSave, [](OwnedPart&) {});  // as a checkpoint does
  if (options.sample_length > 0) {  // the last token of a text takes the most
    KvCache cache = engine.sample_cache();
    cache.advance(cache.capacity() - 1);
    engine.next_logits(0, cache);
  }
  if (options.eigenvalues) rehearse_eigenvalues(engine, nothing);
  plan.memory = workspace.usage();
  plan.blocks = workspace.planned_blocks();
  count_parameters(engine, plan);
  plan.shapes = shapes;
  plan.ranks = std::move(ranks);
  return plan;
}

}  // namespace

std::vector<std::vector<int>> rank_classes(const EngineOptions& options, const MeshSizes& sizes) {
  const MeshLayout layout(sizes);
  const bool has_teacher = options.distillation && options.model.teacher != nullptr;
  struct Kind {
    int pipe;
    TensorShare share, teacher;
  };
  std::vector<Kind> kinds;
  std::vector<std::vector<int>> classes;
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    const TensorPlace place{.rank = layout.coordinate(rank, Axis::kTensor),
                            .ranks = sizes.tensor,
                            .grain = options.shared_layers.grain};
    const Kind own{
        .pipe = layout.coordinate(rank, Axis::kPipe),
        .share = tensor_share(options.model, place),
        .teacher = has_teacher ? tensor_share(options.model.teacher->model, place) : TensorShare{}};
    const auto known = std::ranges::find_if(kinds, [&](const Kind& kind) {
      return kind.pipe == own.pipe && kind.share.has_size_of(own.share) &&
             kind.teacher.has_size_of(own.teacher);
    });
    if (known == kinds.end()) {
      kinds.push_back(own);
      classes.push_back({rank});
    } else {
      nth(classes, known - kinds.begin()).push_back(rank);
    }
  }
  return classes;
}

namespace {

PipelinePlan pipeline_of(const RunPlan& plan, const EngineOptions& options,
                         const DeviceCeilings& ceilings) {
  const MeshLayout mesh(plan.mesh);
  std::vector<WorkSeconds> stages(to_size(plan.mesh.pipe));
  for (const RankPlan& one : plan.classes) {
    WorkSeconds& stage = nth(stages, mesh.coordinate(one.ranks.front(), Axis::kPipe));
    stage = slower_of(stage, one.work);
  }
  const int shares = options.pipeline.shares_activations ? plan.mesh.tensor : 1;
  const int64_t numel = options.micro_batch * options.length / plan.mesh.sequence *
                        dimensions(options.model).width / shares;
  const auto bytes = static_cast<double>(numel) * static_cast<double>(size_of(options.dtype));
  return plan_pipeline(options, stages, ceilings.seconds_of("send", {.flops = 0, .bytes = bytes}));
}

}  // namespace

RunPlan dry_run(const EngineOptions& of_run, const MeshSizes& of_job,
                const DeviceCeilings& ceilings) {
  EngineOptions options = of_run;
  options.recomputed.is_timed = false;  // nothing takes time
  if (options.module) {
    throw Unsupported("dry run: a pipeline module; make its engine without a plan");
  }
  const MeshSizes sizes = mesh_for(dimensions(options.model), of_job);
  RunPlan plan{.mesh = sizes,
               .device = ceilings.device,
               .classes = {},
               .excludes_frozen = options.excludes_frozen,
               .calibrated = !ceilings.slowdown.empty()};
  for (std::vector<int>& ranks : rank_classes(options, sizes)) {
    plan.classes.push_back(play(options, sizes, std::move(ranks), ceilings));
  }
  if (sizes.pipe > 1) plan.pipeline = pipeline_of(plan, options, ceilings);
  return plan;
}

const RankPlan& RunPlan::of_rank(int rank) const {
  const auto found = std::ranges::find_if(classes, [&](const RankPlan& one) {
    return std::ranges::find(one.ranks, rank) != one.ranks.end();
  });
  DS_CHECK(found != classes.end(), "plan: rank {} of {}", rank, world_size());
  return *found;
}

Busy RankPlan::bound() const {
  return static_cast<Busy>(std::ranges::max_element(busy) - busy.begin());
}

int64_t RunPlan::sum_of(int64_t RankPlan::*elements) const {
  int64_t sum = 0;
  // Those that share the layers of a stage have each of its parameters.
  const auto has_first = [&](const RankPlan& one) {
    return std::ranges::any_of(
        one.ranks, [&](int rank) { return MeshLayout(mesh).coordinate(rank, Axis::kTensor) == 0; });
  };
  for (const RankPlan& one : classes) sum += has_first(one) ? one.*elements : 0;
  return sum;
}

double RunPlan::seconds_per_step() const {
  if (pipeline) return pipeline->seconds;
  double slowest = 0;
  for (const RankPlan& one : classes) slowest = std::max(slowest, one.seconds_per_step);
  return slowest;
}

}  // namespace ds
