#include "rankd/training.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "config/load.h"
#include "core/files/input_files.h"
#include "core/files/watched_files.h"
#include "core/status/failpoint.h"
#include "core/values/index.h"
#include "proto/build_info.h"
#include "rankd/device/rank_device.h"
#include "rankd/job_comm.h"
#include "rankd/run_description.h"
#include "rankd/run_parts.h"
#include "rankd/step_commands.h"
#include "rankd/training_data.h"
#include "train/assemble.h"
#include "train/batches/loader_source.h"
#include "train/batches/sample_source.h"
#include "train/checkpointing.h"
#include "train/evaluate/evaluation.h"
#include "train/memory_tier.h"
#include "train/plan/dry_run.h"
#include "train/plan/limits.h"
#include "train/settings/observers.h"
#include "train/settings/preference_settings.h"
#include "train/settings/zero_settings.h"
#include "train/step/pace.h"
#include "train/step/prefetching_source.h"
#include "train/step/swap.h"
#include "train/trace/trace_recorder.h"
#include "train/watch/first_bad_number.h"
#include "train/watch/memory_saver.h"
#include "train/watch/observability.h"
#include "train/watch/resident_memory.h"
#include "train/watch/sample_audit.h"
#include "train/watch/step_reports.h"
#include "train/watch/tag_saver.h"

namespace ds {
namespace {

using SteadyClock = std::chrono::steady_clock;

enum class NextMove { kGoOn, kStop };

// The run of one rank, from an engine that is ready to the exported model: the loop over steps, the
// agreement on commands, and the list of those who watch.
class TrainingRun {
 public:
  explicit TrainingRun(const RunParts& parts)
      : parts_(parts),
        engine_(parts.engine),
        batch_(batch_shape(parts.config, parts.plan.world_size)),
        samples_per_epoch_(samples_per_epoch(parts.config, batch_, parts.data.train)),
        steps_(total_steps(parts.config.train, batch_, samples_per_epoch_)),
        checkpoints_(engine_, parts.files, parts.plan, checkpoint_options(parts, batch_)),
        phases_(parts.control),
        saver_(observers_.add(saver_of(parts, checkpoints_, phases_, steps_))),
        evaluations_{.loss = evaluation_of(parts, batch_, phases_, steps_),
                     .text = text_samples_of(parts, phases_, steps_),
                     .best = best_of(parts, checkpoints_, saver_, steps_)},
        train_(make_sample_source(
            parts.data.train, sampler_of(parts.config, batch_, parts.data.train), batch_,
            place_of(parts.engine),
            {.rules = parts.data.rules,
             .seed = static_cast<uint64_t>(parts.config.train.seed),
             .reference = parts.data.references ? &parts.data.references->train : nullptr,
             .observer = &observers_})),
        prefetched_(prefetched(parts, *train_, steps_)) {
    // Tags before memory, as the list begins with the saver.
    if (parts.memory != nullptr) observers_.add(memory_saver_of(parts, phases_, steps_));
    if (parts.plan.audit_samples) observers_.add(audit_of(parts));
    observers_.add(std::make_unique<ProgressReport>(parts.control));
    if (parts.plan.rank == 0) observers_.add(metrics_of(parts, batch_, samples_per_epoch_, steps_));
    StepTimer& timer = add_insight(observers_, {.plan = parts.plan,
                                                .config = parts.config,
                                                .workspace = parts.workspace,
                                                .engine = engine_,
                                                .reports = parts.control,
                                                .calls = parts.calls,
                                                .ops = parts.ops,
                                                .batches = source(),
                                                .batch = batch_,
                                                .steps = steps_,
                                                .version = build_id()});
    trace_ = &observers_.add(std::make_unique<TraceRecorder>(
        engine_.host(), timer, parts.ops, phases_,
        TraceRecorder::Options{.rank = parts.plan.rank,
                               .beside = &parts.beside,
                               .send = [this](std::string text, bool last) {
                                 parts_.control.report_trace(std::move(text), last);
                               }}));
  }

  // Fills the engine; returns the step to go on from.
  int64_t load() {
    const int64_t step = checkpoints_.load(parts_.config.model.folder);
    report(checkpoints_.notices());
    if (parts_.data.references != nullptr) ask_reference(step);
    if (evaluations_.best) evaluations_.best->restore();
    observers_.after_load(checkpoints_.restored_note());
    return step;
  }

  // 0 when all steps are done, 75 when asked to stop.
  int execute(int64_t first_step) {
    engine_.restore_step(first_step);
    first_step_ = first_step;
    began_ = SteadyClock::now();
    starting_s_ = seconds_since(parts_.begun);
    for (StepMove move = next(); move != StepMove::kEnd; move = next()) {
      if (move == StepMove::kBegin) {
        begin_step();
        continue;
      }
      take_result();
      if (engine_.begun() > engine_.step()) continue;
      if (execute() == NextMove::kStop) {
        end_loop();
        observers_.before_exit(RunEnd::kStopped);
        return static_cast<int>(ExitCode::kRequeue);
      }
      observers_.at_edge(engine_.step());
    }
    end_loop();
    observers_.before_exit(RunEnd::kDone);
    if (evaluations_.best) evaluations_.best->report_end();
    return static_cast<int>(ExitCode::kDone);
  }

  void measure(Measured& measured) const {
    if (seconds_per_step_) measured.results["seconds_per_step"] = *seconds_per_step_;
    if (engine_.options().loss_scale.kind != LossScaling::kNone) {
      measured.results["skipped_steps"] = static_cast<double>(engine_.scaling().skipped);
    }
    evaluations_.measure(measured);
    observers_.measure(measured);
  }

 private:
  // A run that makes no step has no seconds per step.
  void end_loop() {
    if (const int64_t made = engine_.step() - first_step_; made > 0) {
      seconds_per_step_ = seconds_since(began_) / static_cast<double>(made);
    }
  }

  void report(const std::vector<std::string>& notices) {
    if (parts_.plan.rank != 0) return;
    for (const std::string& notice : notices) parts_.control.report_text(notice);
  }

  // Before training: what samples are worth to the model that it begins with.
  void ask_reference(int64_t step) {
    progress("reference");
    const RunReference run = reference_of(parts_, batch_, phases_, step, steps_);
    const FilledReferences filled =
        fill_references(engine_, parts_.files, run, step, *parts_.data.references);
    report(filled.notices);
    DS_FAILPOINT("train.referenced");
    if (filled.weights == WeightsAfter::kOther) checkpoints_.load(parts_.config.model.folder);
  }

  void progress(std::string phase) {
    parts_.control.report_progress(
        {.step = engine_.step(), .micro_step = 0, .phase = std::move(phase)});
  }

  // What the launcher asked for, at this step edge on every rank.
  NextMove execute() {
    while (const std::optional<Command> command = commands_.next()) {
      if (*command == Command::kStopAndSave) return NextMove::kStop;
      if (*command == Command::kSaveNow) saver_.save_and_go_on();
      if (*command == Command::kTrace) trace_->execute(parts_.control.take_trace_order());
      if (*command == Command::kPause) {
        const auto begun = SteadyClock::now();
        const NextMove after = pause();
        paused_s_ += seconds_since(begun);
        began_ += SteadyClock::now() - begun;  // steps take no longer for it
        if (after == NextMove::kStop) return NextMove::kStop;
      }
    }
    return NextMove::kGoOn;
  }

  NextMove pause() {
    for (;;) {
      progress("paused");
      switch (commands_.wait()) {
        case Command::kResume:
          progress("train");
          return NextMove::kGoOn;
        case Command::kStopAndSave:
          return NextMove::kStop;
        case Command::kSaveNow:
          saver_.save_and_go_on();
          break;
        case Command::kTrace:
          trace_->execute(parts_.control.take_trace_order());
          break;
        case Command::kPause:
          break;
      }
    }
  }

  StepMove next() const {
    const int64_t begun = engine_.begun();
    // Evaluations come where no step is under way.
    if (evaluations_.best && evaluations_.best->is_over()) return StepMove::kEnd;
    const bool needed = commands_.due() || evaluations_.due(begun) || observers_.needs_edge(begun);
    return next_move(
        {.begun = begun, .known = engine_.step(), .last = steps_, .late = engine_.results_late()},
        needed ? Edge::kNeeded : Edge::kPassed);
  }

  BatchSource& source() { return prefetched_ ? static_cast<BatchSource&>(*prefetched_) : *train_; }

  void begin_step() {
    if (engine_.begun() == engine_.step()) step_start_ = SteadyClock::now();
    DS_FAILPOINT("train.step_begin");
    engine_.begin_step(source(), commands_.seen(), &observers_);
  }

  StepResult next_result() {
    try {
      return engine_.next_result(Wait::kYes).value();
    } catch (const NotFinite& error) {  // on all ranks
      const BadNumberReport found = find_bad_number(engine_, source(), [this](int micro_step) {
        parts_.control.report_progress(
            {.step = engine_.step(), .micro_step = micro_step, .phase = "replay"});
      });
      parts_.control.report_bad_number(to_json(found));
      throw ValidationError(fmt::format("{}; {}", error.what(), in_words(found)));
    }
  }

  void take_result() {
    const StepResult result = next_result();
    DS_FAILPOINT("train.step_done");
    StepReport report{
        .step = result.step, .seconds = seconds_since(step_start_), .metrics = result.metrics};
    step_start_ = SteadyClock::now();  // of a step that is under way already
    report.metrics.set("step_s", report.seconds);
    evaluations_.after(report.step, report.metrics);
    if (const double paused = std::exchange(paused_s_, 0); paused > 0) {
      report.metrics.set("paused_s", paused);
    }
    if (const double starting = std::exchange(starting_s_, 0); starting > 0) {
      report.metrics.set("starting_s", starting);
    }
    observers_.after_step(report);
    DS_FAILPOINT("train.step_reported");
    evaluations_.judge(report);
    commands_.agree(result.flags);
  }

  const RunParts parts_;
  Engine& engine_;
  const BatchShape batch_;
  const int64_t samples_per_epoch_;
  const int64_t steps_;
  Checkpointing checkpoints_;
  PhaseWatch phases_;
  StepObservers observers_;
  TagSaver& saver_;  // one of the observers
  const Evaluations evaluations_;
  TraceRecorder* trace_ = nullptr;  // one of the observers, too
  const std::unique_ptr<BatchSource> train_;
  const std::unique_ptr<PrefetchingSource> prefetched_;  // reads train_; null: nobody does
  // When the step whose result is next was begun, or the result before it taken, if that was later.
  SteadyClock::time_point step_start_;
  SteadyClock::time_point began_;  // the loop over steps, at this one
  int64_t first_step_ = 0;
  std::optional<double> seconds_per_step_;
  double starting_s_ = 0, paused_s_ = 0;  // that no step has been told with yet
  StepCommands commands_{[this] { return parts_.control.poll(); },
                         [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }};
};

Measured measure(const Workspace& workspace, const Engine& engine, const TrainingRun& run,
                 const CommVolume& volume, int64_t first_step) {
  Measured measured;
  measured.steps = engine.step();
  const TierUsage usage = workspace.usage();
  const auto peak = [&](Tier tier) { return static_cast<int64_t>(nth(usage, tier).bytes_peak); };
  measured.device_bytes_peak = peak(Tier::kDevice);
  measured.host_bytes_peak = peak(Tier::kHost) + peak(Tier::kPinned);
  measured.nvme_bytes = peak(Tier::kNvme);
  measured.rss_bytes_peak = resident_bytes_peak();
  for (int tag = 0; tag < kMemoryTags; ++tag) {
    int64_t& bytes = measured.categories[std::string(name_of(static_cast<MemoryTag>(tag)))];
    for (const MemoryUsage& tier : usage) {
      bytes += static_cast<int64_t>(nth(tier.tag_bytes_at_peak, tag));
    }
  }
  run.measure(measured);
  if (engine.step() == first_step) return measured;  // nothing is there by the step
  const auto steps = static_cast<double>(engine.step() - first_step);
  for (const auto& [axis, ops] : volume.totals()) {
    for (const auto& [op, count] : ops) {
      measured.results[fmt::format("wire_bytes.{}.{}", axis, op)] =
          static_cast<double>(count.wire_bytes) / steps;
    }
  }
  return measured;
}

FolderFrame frame_of(const JobPlan& plan, const Config& config, const ModelConfig& model,
                     FileSystem& files) {
  if (plan.rank != 0) return {};
  return folder_frame(files, model, config.model.folder, config.data.tokenizer,
                      final_dtype(config));
}

RunOutline outline_of(const Config& config, const ModelConfig& model, const EngineOptions& options,
                      const RunPlan& run_plan, const TrainingData& data) {
  std::optional<OptimizerType> optimizer = config.optimizer.type;
  const BatchShape batch = batch_shape(config, run_plan.world_size());
  const int64_t samples = samples_per_epoch(config, batch, data.train);
  return {.family = std::string(family_name(model)),
          .parameters = run_plan.parameters(),
          .frozen = run_plan.frozen(),
          .packed = run_plan.packed(),
          .code = options.zero.layout.base_code ? code_words(*options.zero.layout.base_code) : "",
          .teacher = model.teacher ? std::string(family_name(model.teacher->model)) : "",
          .teacher_size = run_plan.teacher(),
          .dtype = std::string(name_of(options.dtype)),
          .optimizer = std::string(EnumRef(optimizer).name()),
          .stage = narrow<int>(config.zero_optimization.stage),
          .samples = samples,
          .documents = data.train.documents(),
          .validation = data.validation ? data.validation->size() : 0,
          .length = options.length,
          .batch = batch.global_batch(),
          .steps = total_steps(config.train, batch, samples),
          .tokenizer = data.tokenizer == nullptr ? "" : config.data.tokenizer};
}

void report_run(const JobPlan& plan, ControlClient& control, const Config& config,
                const ModelConfig& model, const RunOutline& outline, const TrainingData& data) {
  if (plan.rank != 0) return;
  for (const std::string& line : description(outline)) control.report_text(line);
  // Nobody named the tokenizer then, so that it is said which one it is.
  if (data.tokenizer == nullptr || config.data.tokenizer != config.model.folder) return;
  control.report_text(
      fmt::format("tokenizer: that of the model's folder, {} tokens (the model has {})",
                  data.tokenizer->vocab_size(), dimensions(model).vocabulary));
}

// Sets how swap files are opened for the weights and the optimizer state that are offloaded to
// NVMe; each of the two has files of its own.
void open_swaps(const JobPlan& plan, const Config& config, BackgroundLog& beside,
                RankResources& resources) {
  const ZeroConfig& zero = config.zero_optimization;
  const auto folder = [&](const std::string& path, const char* of) {
    return SwapFolder{.nvme_path = path,
                      .of = of,
                      .owner = swap_owner(plan),
                      .io = io_options(config.aio, path),
                      .beside = &beside};
  };
  if (zero.offload_param && zero.offload_param->device == OffloadDevice::kNvme) {
    resources.open_weight_swap = swap_opener(folder(zero.offload_param->nvme_path, "parameters"));
  }
  if (zero.offload_optimizer && zero.offload_optimizer->device == OffloadDevice::kNvme) {
    resources.open_state_swap = swap_opener(folder(zero.offload_optimizer->nvme_path, "state"));
  }
}

// Checkpoints in memory, which hosts copy to each other.
class MemoryCopies {
 public:
  MemoryCopies(const JobPlan& plan, Engine& engine, JobComm& comm) {
    std::unique_ptr<Communicator> copies = comm.take_copies();
    if (copies == nullptr) return;
    exchange_.emplace(comm_.emplace(std::move(copies), "memory", comm.sinks()));
    tier_.emplace(engine, plan, *exchange_);
  }
  MemoryTier* tier() { return tier_ ? &*tier_ : nullptr; }  // null: not wanted

 private:
  std::optional<TracedComm> comm_;
  std::optional<HostExchange> exchange_;
  std::optional<MemoryTier> tier_;
};

// Warns of a problem in choosing among ways to multiply matrices; the run went on without.
void report_problem(RankDevice& device) {
  const auto* const choices = device.matmul_choices();
  if (choices != nullptr && !choices->problem().empty()) spdlog::warn("{}", choices->problem());
}

DeviceCeilings ceilings_of(const JobPlan& plan, const Config& config, const EngineOptions& options,
                           const MeshSizes& mesh) {
  return plan.device == Device::cpu()
             ? cpu_ceilings(options, config, mesh, plan.threads)
             : cuda_ceilings(options, config, plan.world_size, plan.threads);
}

RankDeviceOptions device_options(const JobPlan& plan, const Config& config,
                                 const BlockSizes& planned, const DeviceCeilings& ceilings) {
  return {.planned = planned,
          .overlaps_communication = ceilings.overlaps_communication,
          .nccl = nccl_wish(config.communication.backend),
          .limits = memory_limits(config),
          .tunes_matmul = config.train.tune_matmul,
          .updater_threads = updater_threads(config, plan.threads)};
}

}  // namespace

int run_training(const JobPlan& plan, ControlClient& control, TcpListener& listener,
                 std::optional<int> results_late) {
  const auto begun = SteadyClock::now();
  DS_FAILPOINT("train.begin");
  const Config config = parse_config(plan.config_text);
  if (config.log_level) spdlog::set_level(spdlog::level::from_str(*config.log_level));
  RealFileSystem files;
  InputFiles inputs(files);
  WatchedFiles watched(files, [&](int64_t, int64_t bytes) { control.report_moved(bytes); });
  const ModelConfig model = training_model(config, inputs);
  EngineOptions options = engine_options(config, model, plan.world_size);
  control.report_progress({.step = 0, .micro_step = 0, .phase = "plan"});
  const MeshSizes mesh = job_mesh(config, plan.world_size, plan.local_size);
  const DeviceCeilings ceilings = ceilings_of(plan, config, options, mesh);
  RunPlan run_plan = dry_run(options, mesh, ceilings);
  if (plan.rank == 0) control.report_plan(plan_json(run_plan));
  require_within(run_plan, memory_limits(config));
  DS_FAILPOINT("train.planned");
  OpenedData opened = open_training_data(plan, control, config.data, model, inputs, files);
  if (!asks_reference(config)) opened.data.references.reset();
  const TrainingData& data = opened.data;
  count_epochs(options, config, data.train, plan.world_size);
  const FolderFrame frame = frame_of(plan, config, model, files);
  report_run(plan, control, config, model, outline_of(config, model, options, run_plan, data),
             data);
  control.report_progress({.step = 0, .micro_step = 0, .phase = "load"});
  JobComm comm(plan, control, listener, config, run_plan.mesh);
  OpLog ops;
  BackgroundLog beside;
  const RankPlan& own_plan = run_plan.of_rank(plan.rank);
  RankDeviceOptions of_device = device_options(plan, config, own_plan.blocks, ceilings);
  of_device.trace = &ops;
  of_device.beside = &beside;
  RankDevice device(plan, of_device, comm.world(), run_plan.mesh, comm.sinks());
  ops.follow(device.workspace().stream());
  if (plan.rank == 0 && plan.device != Device::cpu())
    control.report_text(device.description(options));
  DS_FAILPOINT("train.comm_open");
  options.gpu.matmul.choices = device.matmul_choices();
  RankResources resources = device.workspace().resources();
  resources.results_late = results_late.value_or(resources.results_late);
  resources.recorded = &comm.recorded();
  open_swaps(plan, config, beside, resources);
  Engine engine(options, resources, own_plan.step);
  DS_FAILPOINT("train.engine_built");
  MemoryCopies memory(plan, engine, comm);
  DS_FAILPOINT("train.memory_open");
  TrainingRun run({.begun = begun,
                   .plan = plan,
                   .control = control,
                   .config = config,
                   .data = data,
                   .workspace = device.workspace(),
                   .engine = engine,
                   .files = watched,
                   .memory = memory.tier(),
                   .calls = comm.calls(),
                   .ops = ops,
                   .beside = beside,
                   .frame = frame});
  DS_FAILPOINT("train.before_load");
  const int64_t first_step = run.load();
  DS_FAILPOINT("train.loaded");
  comm.volume().reset();
  const int code = run.execute(first_step);
  report_problem(device);
  DS_FAILPOINT("train.before_measured");
  control.report_measured(measure(device.workspace(), engine, run, comm.volume(), first_step));
  return code;
}

}  // namespace ds
