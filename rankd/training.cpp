#include "rankd/training.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <thread>

#include "checkpoint/hosts/agreement.h"
#include "comm/connect.h"
#include "comm/ledger.h"
#include "comm/traced_comm.h"
#include "config/load.h"
#include "core/failpoint.h"
#include "core/files/input_files.h"
#include "data/data_loader.h"
#include "model/hf/config.h"
#include "rankd/step_commands.h"
#include "rankd/step_note.h"
#include "rankd/thread_dump.h"
#include "train/assemble.h"
#include "train/checkpointing.h"
#include "train/dry_run.h"
#include "train/memory_tier.h"
#include "train/resident_memory.h"
#include "train/sample_audit.h"
#include "train/save_schedule.h"
#include "train/workspace.h"

namespace ds {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

enum class NextMove { kGoOn, kStop };

class LoaderSource final : public BatchSource {
 public:
  LoaderSource(const SampleSet& samples, const Sampler& sampler, const BatchShape& shape, int rank)
      : loader_(samples, sampler, shape, rank), rank_(rank) {}

  int64_t fill(int64_t step, int micro_step, std::span<int32_t> tokens,
               std::span<int32_t> targets) override {
    const Batch batch = loader_.next(step, micro_step);
    if (audit != nullptr) audit->note(step, micro_step, batch.samples);
    std::copy_n(batch.tokens.data<int32_t>(), tokens.size(), tokens.begin());
    std::copy_n(batch.targets.data<int32_t>(), targets.size(), targets.begin());
    return loader_.shape().first_index(micro_step, rank_);
  }

  std::unique_ptr<SampleAudit> audit;  // null: not wanted

 private:
  DataLoader loader_;
  const int rank_;
};

std::unique_ptr<Communicator> open_comm(const JobPlan& plan, TcpListener listener,
                                        std::shared_ptr<LinkBoard> board) {
  if (plan.data_endpoints.empty() && plan.local_size != plan.world_size) {
    throw Unsupported(
        fmt::format("{} ranks on several hosts, but none of them was told on which address "
                    "to listen for data",
                    plan.world_size));
  }
  // The launcher sees ranks that die, fall silent or hang, and ends the epoch long before this.
  constexpr std::chrono::minutes kLongestWait{60};
  if (plan.data_endpoints.empty()) {
    return connect({.rank = plan.rank,
                    .size = plan.world_size,
                    .shm_name = plan.rendezvous,
                    .timeout = kLongestWait});
  }
  return connect({.backend = "tcp",
                  .rank = plan.rank,
                  .size = plan.world_size,
                  .tcp = {.listener = std::move(listener),
                          .epoch = plan.epoch,
                          .endpoints = plan.data_endpoints,
                          .secret = plan.data_secret,
                          .board = std::move(board)},
                  .timeout = kLongestWait});
}

TagAgreement tag_agreement(TagValidation wanted) {
  switch (wanted) {
    case TagValidation::kIgnore:
      return TagAgreement::kIgnore;
    case TagValidation::kFail:
      return TagAgreement::kFail;
    case TagValidation::kWarn:
      break;
  }
  return TagAgreement::kWarn;
}

// A ledger and its clock; shared with the control connection, which outlives training.
struct OwnLedger {
  MonotonicClock clock;
  Ledger ledger{64, clock};

  CollectiveMark newest() const {
    const std::optional<LedgerEntry> entry = ledger.newest();
    if (!entry) return {};
    return {entry->number, entry->group, entry->sequence, std::string(name_of(entry->op)),
            entry->exit_ns < 0};
  }
};

// What a run is made of; all of it outlives the run.
struct RunParts {
  const JobPlan& plan;
  ControlClient& control;
  const Config& config;
  const TrainingData& data;
  const Workspace& workspace;
  Engine& engine;
  FileSystem& files;
  MemoryTier* memory;        // null: not wanted
  const FolderFrame& frame;  // of rank 0, for final/
};

// The run of one rank, from an engine that is ready to the exported model.
class TrainingRun {
 public:
  explicit TrainingRun(const RunParts& parts)
      : plan_(parts.plan),
        control_(parts.control),
        config_(parts.config),
        data_(parts.data),
        workspace_(parts.workspace),
        engine_(parts.engine),
        batch_(batch_shape(config_, plan_.world_size)),
        steps_(total_steps(config_.train, batch_, data_.train)),
        memory_(parts.memory),
        frame_(parts.frame),
        checkpoints_(engine_, parts.files, plan_, checkpoint_options()),
        train_(data_.train, sampler(), batch_, plan_.rank) {
    if (data_.validation) open_validation(*data_.validation);
    if (plan_.audit_samples) {
      parts.files.make_directories(plan_.run_dir +
                                   "/logs");  // the launcher's may lie on another disk
      train_.audit = std::make_unique<SampleAudit>(plan_.run_dir, plan_.rank, plan_.epoch);
    }
    engine_.on_micro_step = [this](int micro_step) { progress("train", micro_step); };
  }

  // Fills the engine; returns the step to go on from.
  int64_t load() {
    const int64_t step = checkpoints_.load(config_.model.folder);
    for (const std::string& notice : checkpoints_.notices()) {
      if (plan_.rank == 0) control_.report_text(notice);
    }
    if (plan_.rank == 0) {
      const std::vector<StepMetrics> note = read_step_notes(checkpoints_.restored_note());
      // A launcher that knows of no step while the note begins later is not the one that missed
      // them.
      const bool missed = plan_.told_step > 0 || (!note.empty() && note.front().step == 1);
      for (const StepMetrics& metrics : note) {
        if (missed && metrics.step > plan_.told_step) control_.report_step(metrics);
      }
    }
    return step;
  }

  // 0 when all steps are done, 75 when asked to stop.
  int execute(int64_t first_step) {
    engine_.restore_step(first_step);
    const auto start = SteadyClock::now();
    while (engine_.step() < steps_) {
      step();
      if (obey() == NextMove::kStop) {
        save_at_the_end();
        return static_cast<int>(ExitCode::kRequeue);
      }
      if (saves_.wants(engine_.step()) && saved_step_ != engine_.step()) save_and_go_on();
      keep_in_memory();
    }
    seconds_per_step_ =
        engine_.step() > first_step
            ? seconds_since(start) / static_cast<double>(engine_.step() - first_step)
            : 0.0;
    save_at_the_end();
    DS_FAILPOINT("train.before_export");
    progress("export", 0);
    insist([&] { checkpoints_.export_model(plan_.run_dir + "/final", frame_); });
    DS_FAILPOINT("train.exported");
    return static_cast<int>(ExitCode::kDone);
  }

  std::map<std::string, double> results() const {
    std::map<std::string, double> results{{"seconds_per_step", seconds_per_step_}};
    if (memory_saves_ > 0) {
      results["seconds_per_memory_save"] = memory_seconds_ / static_cast<double>(memory_saves_);
    }
    if (validation_loss_) {
      results["validation_loss"] = *validation_loss_;
      if (data_.validation_bytes_per_token > 0) {
        results["validation_bits_per_byte"] =
            *validation_loss_ / std::numbers::ln2 / data_.validation_bytes_per_token;
      }
    }
    return results;
  }

 private:
  Checkpointing::Options checkpoint_options() const {
    Checkpointing::Options out{.keep = config_.train.keep_checkpoints,
                               .memory = memory_,
                               .tags = tag_agreement(config_.checkpoint.tag_validation),
                               .storage = config_.checkpoint.use_node_local_storage
                                              ? TagStorage::kEachHost
                                              : TagStorage::kShared,
                               .facts = std::nullopt};
    if (plan_.rank != 0) return out;
    const EngineOptions& engine = engine_.options();
    out.facts =
        RunFacts{.model = format_hf_config(engine.model, DType::kF32),
                 .config = plan_.config_text,
                 .data = digest_of(data_.train),
                 .seed = config_.train.seed,
                 .global_batch = batch_.global_batch(),
                 .sequence_length = engine.length,
                 .order = config_.data.order == DataOrder::kSequential ? "sequential" : "shuffled",
                 .saved_at = 0};
    return out;
  }

  // The same batches each time: the whole set in order, or the first eval_batches of it.
  void open_validation(const SampleSet& samples) {
    const BatchShape shape{.micro_batch = batch_.micro_batch, .ranks = batch_.ranks};
    validation_.emplace(samples, Sampler(samples.size(), SampleOrder::kSequential, 0), shape,
                        plan_.rank);
    const int64_t all = std::max<int64_t>(1, samples.size() / shape.global_batch());
    const int64_t wanted = config_.train.eval_batches;
    validation_batches_ = wanted > 0 ? std::min(wanted, all) : all;
  }

  Sampler sampler() const {
    const auto order = config_.data.order == DataOrder::kSequential ? SampleOrder::kSequential
                                                                    : SampleOrder::kShuffled;
    return {data_.train.size(), order, static_cast<uint64_t>(config_.train.seed)};
  }

  void progress(std::string phase, int micro_step) {
    control_.report_progress(
        {.step = engine_.step(), .micro_step = micro_step, .phase = std::move(phase)});
  }

  // What the launcher asked for, at this step edge on every rank.
  NextMove obey() {
    while (const std::optional<Command> command = commands_.next()) {
      if (*command == Command::kStopAndSave) return NextMove::kStop;
      if (*command == Command::kSaveNow) save_and_go_on();
      if (*command == Command::kPause && pause() == NextMove::kStop) return NextMove::kStop;
    }
    return NextMove::kGoOn;
  }

  NextMove pause() {
    for (;;) {
      progress("paused", 0);
      switch (commands_.wait()) {
        case Command::kResume:
          progress("train", 0);
          return NextMove::kGoOn;
        case Command::kStopAndSave:
          return NextMove::kStop;
        case Command::kSaveNow:
          save_and_go_on();
          break;
        case Command::kPause:
          break;
      }
    }
  }

  void step() {
    const auto start = SteadyClock::now();
    DS_FAILPOINT("train.step_begin");
    const StepResult result = engine_.train_batch(train_, commands_.seen());
    DS_FAILPOINT("train.step_done");
    const double seconds = seconds_since(start);
    last_step_seconds_ = seconds;
    const int64_t done = engine_.step();
    const int64_t every = config_.train.eval_every;
    std::optional<double> validation_loss;
    if (validation_ && (done == steps_ || (every > 0 && done % every == 0))) {
      progress("evaluate", 0);
      DS_FAILPOINT("train.evaluate");
      validation_loss = engine_.evaluate(*validation_, validation_batches_);
      validation_loss_ = validation_loss;
    }
    if (plan_.rank == 0) {
      const double tokens = static_cast<double>(batch_.global_batch() * engine_.options().length);
      const StepMetrics metrics{.step = done,
                                .total_steps = steps_,
                                .loss = result.loss,
                                .grad_norm = result.grad_norm,
                                .lr = result.lr,
                                .loss_scale = 1,
                                .tokens_per_s = tokens / seconds,
                                .samples = done * batch_.global_batch(),
                                .bytes_peak = static_cast<int64_t>(workspace_.usage().bytes_peak),
                                .validation_loss = validation_loss};
      control_.report_step(metrics);
    }
    DS_FAILPOINT("train.step_reported");
    commands_.agree(result.flags);
  }

  // What was said last goes with the state: it may be lost with this rank before the launcher hears
  // it.
  std::string untaken_note() const {
    return plan_.rank == 0 ? to_notes(control_.untaken_steps()) : "";
  }

  // Every rank throws the same IoError, so all of them go on alike.
  void save_and_go_on() {
    try {
      save();
    } catch (const IoError& failure) {
      const double pace = gather_values(std::vector<double>{last_step_seconds_}, engine_.comm(),
                                        engine_.stream())[0];
      if (!saves_.failed(engine_.step(), pace)) throw;
      warn(fmt::format("{}; training goes on, and it is tried again soon", failure.what()));
    }
  }

  // There are no more steps in which it could be tried again.
  void save_at_the_end() {
    insist([this] { save(); });
  }

  template <class Part>
  void insist(const Part& part) {
    constexpr int kTries = 30;
    constexpr std::chrono::seconds kBetween{1};
    for (int tried = 1;; ++tried) {
      try {
        part();
        return;
      } catch (const IoError& failure) {
        if (tried == kTries) throw;
        if (tried == 1)
          warn(fmt::format("{}; it is tried again for half a minute", failure.what()));
        std::this_thread::sleep_for(kBetween);
      }
    }
  }

  void warn(const std::string& what) {
    if (plan_.rank == 0) control_.report_text("warning: " + what);
  }

  // What cannot be kept costs more steps after a failure, and nothing now.
  void keep_in_memory() {
    // By the step alone: whether a checkpoint was saved, ranks may see differently when one fails.
    const bool due = memory_ != nullptr &&
                     engine_.step() % config_.train.save_in_memory_every == 0 &&
                     engine_.step() < steps_;
    if (!due) return;
    progress("save", 0);
    const auto start = SteadyClock::now();
    try {
      memory_->set_note(untaken_note());
      const int64_t copied = config_.train.copy_in_memory_every.value_or(1);
      memory_->save(engine_.step() % copied == 0 ? MemoryTier::Spread::kPeerHost
                                                 : MemoryTier::Spread::kOwnHost);
      memory_failures_ = 0;
      memory_seconds_ += seconds_since(start);
      ++memory_saves_;
    } catch (const IoError& failure) {
      if (memory_failures_++ == 0) warn(failure.what());
    }
  }

  void save() {
    progress("save", 0);
    DS_FAILPOINT("train.before_save");
    const auto before = std::chrono::steady_clock::now();
    checkpoints_.set_note(untaken_note());
    SavedTag tag = checkpoints_.save();
    tag.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
    DS_FAILPOINT("train.saved");
    saved_step_ = engine_.step();
    saves_.saved();
    if (plan_.rank == 0) control_.report_commit(tag);
  }

  const JobPlan& plan_;
  ControlClient& control_;
  const Config& config_;
  const TrainingData& data_;
  const Workspace& workspace_;
  Engine& engine_;
  const BatchShape batch_;
  const int64_t steps_;
  MemoryTier* const memory_;
  const FolderFrame& frame_;
  Checkpointing checkpoints_;
  LoaderSource train_;
  std::optional<LoaderSource> validation_;
  int64_t validation_batches_ = 0;
  std::optional<double> validation_loss_;
  double seconds_per_step_ = 0;
  SaveSchedule saves_{config_.train.save_every, steps_};
  double last_step_seconds_ = 0;
  int memory_failures_ = 0;  // in a row
  double memory_seconds_ = 0;
  int64_t memory_saves_ = 0;
  int64_t saved_step_ = -1;
  StepCommands commands_{[this] { return control_.poll(); },
                         [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }};
};

Measured measure(const Workspace& workspace, const ResidentMemory& resident, const Engine& engine,
                 const TrainingRun& run, const CommVolume& volume, int64_t first_step) {
  Measured measured;
  measured.steps = engine.step();
  const MemoryUsage usage = workspace.usage();
  measured.host_bytes_peak = static_cast<int64_t>(usage.bytes_peak);
  measured.rss_bytes_peak = resident.bytes_above_baseline();
  for (int tag = 0; tag < kMemoryTags; ++tag) {
    measured.categories[std::string(name_of(static_cast<MemoryTag>(tag)))] =
        static_cast<int64_t>(usage.tag_bytes_at_peak[static_cast<size_t>(tag)]);
  }
  measured.results = run.results();
  const auto steps = static_cast<double>(std::max<int64_t>(1, engine.step() - first_step));
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

// Nobody named it, so that it is said which one it is.
void tell_tokenizer(const JobPlan& plan, ControlClient& control, const Config& config,
                    const ModelConfig& model, const TrainingData& data) {
  if (plan.rank != 0 || data.tokenizer == nullptr || config.data.tokenizer != config.model.folder)
    return;
  control.report_text(
      fmt::format("tokenizer: that of the model's folder, {} tokens (the model has {})",
                  data.tokenizer->vocab_size(), dimensions(model).vocabulary));
}

}  // namespace

int run_training(const JobPlan& plan, ControlClient& control, TcpListener& listener) {
  DS_FAILPOINT("train.begin");
  const Config config = parse_config(plan.config_text);
  RealFileSystem files;
  InputFiles inputs(files);
  const ModelConfig model = model_config(config.model, inputs);
  const EngineOptions options = engine_options(config, model, plan.world_size);
  control.report_progress({.step = 0, .micro_step = 0, .phase = "plan"});
  RunPlan run_plan = dry_run(options, plan.world_size, cpu_ceilings(plan.threads, options.dtype));
  if (plan.rank == 0) control.report_plan(plan_json(run_plan));
  DS_FAILPOINT("train.planned");
  const TrainingData data = open_data(config.data, model, inputs);
  const FolderFrame frame = frame_of(plan, config, model, files);
  tell_tokenizer(plan, control, config, model, data);

  control.report_progress({.step = 0, .micro_step = 0, .phase = "load"});
  ResidentMemory resident;
  CommVolume volume;
  DS_FAILPOINT("train.before_comm");
  const auto ledger = std::make_shared<OwnLedger>();
  control.watch_collectives([ledger] { return ledger->newest(); });
  const auto board = std::make_shared<LinkBoard>();
  control.watch_links(board);
  control.on_dump([ledger] { write_dump(ledger->ledger.to_text()); });
  const TracedComm::Sinks sinks{.volume = &volume, .ledger = &ledger->ledger};
  std::unique_ptr<Communicator> world = open_comm(plan, std::move(listener), board);
  // A group of its own: what hosts copy to each other is no part of the order of the data group's
  // calls.
  std::unique_ptr<Communicator> copies =
      config.train.save_in_memory_every > 0 ? world->split(0, plan.rank) : nullptr;
  TracedComm comm(std::move(world), "data", sinks);
  DS_FAILPOINT("train.comm_open");
  Workspace workspace(Device::cpu(), plan.threads, comm);
  Engine engine(options, workspace.seat(), std::move(run_plan.step));
  DS_FAILPOINT("train.engine_built");
  std::optional<TracedComm> memory_comm;
  std::optional<MemoryTier> memory;
  if (copies != nullptr) {
    memory_comm.emplace(std::move(copies), "memory", sinks);
    memory.emplace(engine, plan, *memory_comm);
  }
  DS_FAILPOINT("train.memory_open");
  TrainingRun run({.plan = plan,
                   .control = control,
                   .config = config,
                   .data = data,
                   .workspace = workspace,
                   .engine = engine,
                   .files = files,
                   .memory = memory ? &*memory : nullptr,
                   .frame = frame});
  DS_FAILPOINT("train.before_load");
  const int64_t first_step = run.load();
  DS_FAILPOINT("train.loaded");
  volume.reset();
  const int code = run.execute(first_step);
  resident.sample();  // all that training took is still held
  DS_FAILPOINT("train.before_measured");
  control.report_measured(measure(workspace, resident, engine, run, volume, first_step));
  return code;
}

}  // namespace ds
