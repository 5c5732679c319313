#include "train/plan/dry_run.h"

#include <algorithm>
#include <span>

#include "comm/peers.h"
#include "core/index.h"
#include "model/parallel/tensor.h"
#include "train/eigenvalue/block_eigenvalues.h"
#include "train/step/prefetching_source.h"
#include "train/workspace.h"

namespace ds {
namespace {

class NoData final : public BatchSource {
 public:
  void fill(int64_t, int, std::span<int32_t>, std::span<int32_t>) override {
    throw InternalError("dry run: asked for data");
  }
  int64_t first_sample(int) const override { throw InternalError("dry run: asked for data"); }
};

int updater_threads(const EngineOptions& options) {
  const std::optional<ZenflowOptions>& zenflow = options.zero.zenflow;
  return options.zero.update_ahead || (zenflow && zenflow->overlaps) ? 1 : 0;
}

// First pass: on demand, recording. What the micro-step and the evaluation allocate beside the
// state; every micro-step allocates alike. A second micro-step follows the plan of gathers and
// tells when buckets are taken and given back.
StepPlan record(const EngineOptions& options, const MeshSizes& sizes, int rank,
                const DeviceCeilings& ceilings) {
  Connections nobody = Connections::meta(rank, sizes);
  Workspace workspace({.device = Device::meta(),
                       .stands_for = ceilings.device,
                       .updater_threads = updater_threads(options)},
                      nobody.peers());
  Engine engine(options, workspace.resources(), std::nullopt);
  NoData nothing;
  StepPlan plan;
  StepRecorder training(workspace.heap()), evaluation(workspace.heap());
  engine.memories().record(training, evaluation);
  engine.first_micro_step(nothing);
  engine.evaluate(nothing, 1);
  plan.train = plan_step_arena(training.record(), engine.training().instructions);
  plan.evaluate = plan_step_arena(evaluation.record(), engine.evaluation().instructions);
  plan.gathers = plan_gathers(engine.store().recorded_events(), engine.store().bucket_numel(),
                              options.zero.gather, engine.store().offloaded_buckets());
  plan.buckets.evaluation = plan_arena(engine.store().slots().recorded());
  engine.store().follow(plan.gathers);
  engine.first_micro_step(nothing);
  plan.buckets.micro_step = plan_arena(engine.store().slots().recorded());
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

void play_update(Engine& engine, int64_t number) {
  NoData nothing;
  engine.restore_step(number - 1);
  engine.begin_step(nothing, 0);
  engine.next_result(Wait::kYes);
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
  std::optional<HostBlock> batches;  // of a GPU, which are read ahead of the step
  if (resources.pinned != nullptr) {
    batches.emplace(
        PrefetchingSource::block_bytes(options.micro_batch * options.length / sizes.sequence),
        resources.pinned);
  }
  Engine engine(options, resources, plan.step);
  const std::vector<int64_t> updates = options.zero.zenflow
                                           ? std::vector{usual_update(*options.zero.zenflow)}
                                           : engine.optimizer().kinds_of_updates(options.last_step);
  clocks.begin_step();
  play_update(engine, updates.front());
  clocks.tell(plan);
  for (const auto& [axis, ops] : volume.totals()) {
    for (const auto& [op, count] : ops) {
      plan.wire_bytes[axis][op] = static_cast<double>(count.wire_bytes);
    }
  }
  // Of others, which do not stand for the run, the memory counts.
  for (const int64_t other : std::span(updates).subspan(1)) play_update(engine, other);
  engine.evaluate(nothing, 1);
  engine.store().visit_owned(Visit::kSave, [](OwnedPart&) {});  // as a checkpoint does
  if (options.eigenvalues) rehearse_eigenvalues(engine, nothing);
  plan.memory = workspace.usage();
  plan.blocks = workspace.planned_blocks();
  for (ParamId id = 0; id < engine.store().count(); ++id) {
    plan.parameters += engine.store().spec(id).logical_shape().numel();
  }
  plan.ranks = std::move(ranks);
  return plan;
}

}  // namespace

std::vector<std::vector<int>> rank_classes(const EngineOptions& options, const MeshSizes& sizes) {
  const MeshLayout layout(sizes);
  const ModelDimensions dims = dimensions(options.model);
  struct Kind {
    int pipe;
    TensorShare share;
  };
  std::vector<Kind> kinds;
  std::vector<std::vector<int>> classes;
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    const Kind own{.pipe = layout.coordinate(rank, Axis::kPipe),
                   .share = tensor_share(dims, {.rank = layout.coordinate(rank, Axis::kTensor),
                                                .ranks = sizes.tensor,
                                                .grain = options.tensor_grain})};
    const auto known = std::ranges::find_if(kinds, [&](const Kind& kind) {
      return kind.pipe == own.pipe && kind.share.has_size_of(own.share);
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

RunPlan dry_run(const EngineOptions& options, const MeshSizes& of_job,
                const DeviceCeilings& ceilings) {
  const MeshSizes sizes = mesh_for(dimensions(options.model), of_job);
  RunPlan plan{.mesh = sizes,
               .device = ceilings.device,
               .classes = {},
               .calibrated = !ceilings.slowdown.empty()};
  for (std::vector<int>& ranks : rank_classes(options, sizes)) {
    plan.classes.push_back(play(options, sizes, std::move(ranks), ceilings));
  }
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

int64_t RunPlan::parameters() const {
  int64_t sum = 0;
  // Those that share the layers of a stage have each of its parameters.
  const auto has_first = [&](const RankPlan& one) {
    return std::ranges::any_of(
        one.ranks, [&](int rank) { return MeshLayout(mesh).coordinate(rank, Axis::kTensor) == 0; });
  };
  for (const RankPlan& one : classes) sum += has_first(one) ? one.parameters : 0;
  return sum;
}

double RunPlan::seconds_per_step() const {
  double slowest = 0;
  for (const RankPlan& one : classes) slowest = std::max(slowest, one.seconds_per_step);
  return slowest;
}

}  // namespace ds
