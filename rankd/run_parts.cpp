#include "rankd/run_parts.h"

#include <thread>
#include <utility>

#include "config/families/hf_config.h"
#include "core/files/digest.h"
#include "core/tasks/clock.h"
#include "core/text/hex.h"
#include "model/hf/weights_fingerprint.h"

namespace ds {
namespace {
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

// Facts of the run by which a later one is compared, for rank 0.
RunFacts facts_of(const RunParts& parts, const BatchShape& batch) {
  const Config& config = parts.config;
  const EngineOptions& engine = parts.engine.options();
  return {.model = format_hf_config(engine.model, DType::kF32),
          .config = parts.plan.config_text,
          .data = digest_of(parts.data.train),
          .seed = config.train.seed,
          .global_batch = batch.global_batch(),
          .sequence_length = engine.length,
          .order = order_text(config),
          .saved_at = 0};
}

// Adds what the weights beside those that train are known by.
void add_fingerprints(const RunParts& parts, RunFacts& facts) {
  const auto& teacher = parts.engine.options().model.teacher;
  const std::optional<std::string>& folder = parts.config.model.folder;
  if (teacher) facts.teacher = fingerprint_of_weights(parts.files, teacher->folder);
  if (parts.config.lora && folder) facts.base = fingerprint_of_weights(parts.files, *folder);
}

// One micro-batch on each rank.
BatchShape shape_of_evaluation(const BatchShape& batch) {
  return {.micro_batch = batch.micro_batch, .ranks = batch.ranks};
}

EvaluationSchedule evaluations_in(const TrainSection& train, int64_t steps) {
  return {.every = train.eval_every, .last_step = steps};
}

}  // namespace

Checkpointing::Options checkpoint_options(const RunParts& parts, const BatchShape& batch) {
  const Config& config = parts.config;
  Checkpointing::Options out{.keep = config.train.keep_checkpoints,
                             .memory = parts.memory,
                             .tags = tag_agreement(config.checkpoint.tag_validation),
                             .storage = config.checkpoint.use_node_local_storage
                                            ? TagStorage::kEachHost
                                            : TagStorage::kShared,
                             .facts = std::nullopt,
                             .resume_from = config.train.resume_from};
  if (parts.plan.rank == 0) add_fingerprints(parts, out.facts.emplace(facts_of(parts, batch)));
  return out;
}

Sampler sampler_of(const Config& config, const BatchShape& batch, const SampleSet& samples) {
  const auto order = config.data.order == DataOrder::kSequential ? SampleOrder::kSequential
                                                                 : SampleOrder::kShuffled;
  return {samples.size(), order, sampler_seed(config), samples_per_epoch(config, batch, samples)};
}

SamplePlace place_of(const Engine& engine) {
  const Mesh& mesh = engine.mesh();
  return {.rank = mesh.coordinate(Axis::kData),
          .part = mesh.coordinate(Axis::kSequence),
          .parts = mesh.size(Axis::kSequence),
          .ring = mesh.size(Axis::kRing),
          .copy = mesh.coordinate(Axis::kPipe) * mesh.size(Axis::kTensor) +
                  mesh.coordinate(Axis::kTensor)};
}

std::unique_ptr<Evaluation> evaluation_of(const RunParts& parts, const BatchShape& batch,
                                          RunReports& reports, int64_t steps) {
  const TrainingData& data = parts.data;
  if (!data.validation) return nullptr;
  const BatchShape shape = shape_of_evaluation(batch);
  const std::string unequal =
      unequal_evaluation(*data.validation, shape, parts.config.train.eval_batches);
  if (parts.plan.rank == 0 && !unequal.empty()) parts.control.report_text("note: " + unequal);
  return std::make_unique<Evaluation>(
      parts.engine, reports, *data.validation,
      Evaluation::Options{.place = place_of(parts.engine),
                          .rules = data.rules,
                          .reference = data.references ? &data.references->validation : nullptr,
                          .seed = static_cast<uint64_t>(parts.config.train.seed),
                          .shape = shape,
                          .schedule = evaluations_in(parts.config.train, steps),
                          .batches = parts.config.train.eval_batches,
                          .bytes_per_token = data.validation_bytes_per_token});
}

namespace {

// What makes answers of a reference those of another run, for rank 0.
std::string facts_of_reference(const RunParts& parts, const BatchShape& batch,
                               const RunReference& reference) {
  const RunFacts facts = facts_of(parts, batch);
  const auto& lora = parts.config.lora;
  const auto& validation = parts.data.validation;
  const std::optional<std::string>& folder = reference.folder ? reference.folder : reference.model;
  std::string text = fmt::format(
      "{}\n{}\n{}\n{}\n{}\n{}", facts.model, facts.data, validation ? digest_of(*validation) : "",
      lora ? lora->adapter.value_or("") : "", facts.sequence_length, facts.seed);
  if (folder) text += "\n" + fingerprint_of_weights(parts.files, *folder);
  return text;
}

}  // namespace

RunReference reference_of(const RunParts& parts, const BatchShape& batch, RunReports& reports,
                          int64_t step, int64_t steps) {
  const Config& config = parts.config;
  const TrainingData& data = parts.data;
  RunReference out{.path = parts.plan.run_dir + "/reference.bin",
                   .model = config.model.folder,
                   .folder = config.preference ? config.preference->reference : std::nullopt,
                   .place = place_of(parts.engine)};
  const Sampler sampler = sampler_of(config, batch, data.train);
  out.train = {
      .samples = &data.train,
      .wanted = samples_of_steps(sampler, batch.global_batch(), step, steps, data.train.size())};
  if (data.validation) {
    const SampleSet& held = *data.validation;
    const BatchShape shape = shape_of_evaluation(batch);
    const int64_t batches = batches_of_evaluation(held, shape, config.train.eval_batches);
    const Sampler in_order(held.size(), SampleOrder::kSequential, 0);
    out.validation = {
        .samples = &held,
        .wanted = samples_of_steps(in_order, shape.global_batch(), 0, batches, held.size())};
  }
  if (parts.plan.rank == 0) out.facts = facts_of_reference(parts, batch, out);
  out.on_batch = [&reports, step](int64_t done, int64_t of) {
    reports.report_progress({.step = step, .micro_step = done, .phase = "reference", .total = of});
  };
  return out;
}

std::unique_ptr<TextSamples> text_samples_of(const RunParts& parts, RunReports& reports,
                                             int64_t steps) {
  const TrainSection& train = parts.config.train;
  const std::string& tokenizer = parts.config.data.tokenizer;
  if (!train.sample_prompt) return nullptr;
  if (parts.data.tokenizer == nullptr && tokenizer == "byte") {
    throw ConfigError(
        "train.sample_prompt: the data are token ids, and nothing says of which tokenizer; name it "
        "with data.tokenizer");
  }
  return std::make_unique<TextSamples>(
      parts.engine, reports, parts.files,
      TextSamples::Options{.prompt = *train.sample_prompt,
                           .tokenizer = tokenizer,
                           .folder = parts.config.model.folder,
                           .schedule = evaluations_in(train, steps)});
}

bool Evaluations::due(int64_t steps_done) const {
  return (loss && loss->due(steps_done)) || (text && text->due(steps_done));
}

void Evaluations::after(int64_t steps_done, Metrics& metrics) const {
  if (!due(steps_done)) return;
  const auto begun = std::chrono::steady_clock::now();
  if (loss) loss->after(steps_done, metrics);
  if (text) text->after(steps_done);
  metrics.set("evaluation_s", seconds_since(begun));
}

void Evaluations::judge(const StepReport& report) const {
  if (best && loss->due(report.step)) {
    best->hear(report.step, report.metrics.at("validation_loss"));
  }
}

void Evaluations::measure(Measured& measured) const {
  if (loss) loss->measure(measured);
  if (best) best->measure(measured);
}

namespace {

// What makes the losses of two evaluations comparable, as a digest.
std::string measure_of(const RunParts& parts) {
  const Config& config = parts.config;
  if (!parts.data.validation) return "";
  const PreferenceConfig c = config.preference.value_or(PreferenceConfig());
  std::string text = fmt::format("{} {} {} {} {} {} {} {}", digest_of(*parts.data.validation),
                                 config.train.eval_batches, parts.engine.options().length,
                                 static_cast<int>(c.loss_type), c.beta, c.label_smoothing,
                                 c.discopop_tau, c.reference.value_or(""));
  if (!has_reference(c.loss_type)) text += fmt::format(" {} {}", c.cpo_alpha, c.simpo_gamma);
  return hex(xxh3_128(std::as_bytes(std::span(text))));
}

}  // namespace

std::unique_ptr<BestKeeper> best_of(const RunParts& parts, Checkpointing& checkpoints,
                                    TagSaver& saver, int64_t steps) {
  const TrainSection& train = parts.config.train;
  if (!train.keep_best && train.early_stopping_patience == 0) return nullptr;
  return std::make_unique<BestKeeper>(
      parts.engine, checkpoints, saver,
      BestKeeper::Options{.keeps = train.keep_best,
                          .stopping = {.patience = train.early_stopping_patience,
                                       .threshold = train.early_stopping_threshold},
                          .steps = steps,
                          .measure = measure_of(parts),
                          .memory = parts.memory,
                          .report = [&parts](const std::string& line) {
                            if (parts.plan.rank == 0) parts.control.report_text(line);
                          }});
}

std::unique_ptr<TagSaver> saver_of(const RunParts& parts, Checkpointing& checkpoints,
                                   RunReports& reports, int64_t steps) {
  return std::make_unique<TagSaver>(
      parts.engine, checkpoints, reports,
      TagSaver::Options{.rank = parts.plan.rank,
                        .schedule = SaveSchedule(parts.config.train.save_every, steps),
                        .at_end = parts.config.train.save_at_end,
                        .model_folder = parts.plan.run_dir + "/final",
                        .frame = parts.frame,
                        .pause = [] { std::this_thread::sleep_for(std::chrono::seconds(1)); }});
}

std::unique_ptr<SampleAudit> audit_of(const RunParts& parts) {
  const JobPlan& plan = parts.plan;
  parts.files.make_directories(plan.run_dir + "/logs");  // the launcher's may lie on another disk
  return std::make_unique<SampleAudit>(plan.run_dir, plan.rank, plan.epoch);
}

std::unique_ptr<MetricsReport> metrics_of(const RunParts& parts, const BatchShape& batch,
                                          int64_t samples_per_epoch, int64_t steps) {
  return std::make_unique<MetricsReport>(
      parts.control, parts.workspace,
      MetricsReport::Options{.total_steps = steps,
                             .global_batch = batch.global_batch(),
                             .length = static_cast<double>(parts.engine.options().length),
                             .told_step = parts.plan.told_step,
                             .throughput = parts.config.timers.throughput.enabled,
                             .samples_per_epoch = samples_per_epoch,
                             .generation = parts.plan.epoch});
}

std::unique_ptr<MemorySaver> memory_saver_of(const RunParts& parts, RunReports& reports,
                                             int64_t steps) {
  const TrainSection& train = parts.config.train;
  return std::make_unique<MemorySaver>(
      *parts.memory, reports,
      MemorySaver::Options{.rank = parts.plan.rank,
                           .every = train.save_in_memory_every,
                           .copy_every = train.copy_in_memory_every.value_or(1),
                           .last_step = steps});
}

std::unique_ptr<PrefetchingSource> prefetched(const RunParts& parts, BatchSource& source,
                                              int64_t steps) {
  const Engine& engine = parts.engine;
  if (engine.device().kind != Device::Kind::kCuda) return nullptr;
  if (engine.batches().largest().fields().empty()) return nullptr;  // a stage in the middle
  return std::make_unique<PrefetchingSource>(
      source, PrefetchingSource::Options{.largest = engine.batches().largest(),
                                         .spec_of = [&engine](int64_t step) -> const BatchSpec& {
                                           return engine.batches().of_step(step);
                                         },
                                         .micro_steps = engine.options().micro_steps(),
                                         .steps = steps,
                                         .pinned = engine.pinned()});
}

}  // namespace ds
