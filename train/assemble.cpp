#include "train/assemble.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <limits>
#include <span>

#include "config/elastic_options.h"
#include "config/families/hf_config.h"
#include "config/families/spec/limits.h"
#include "config/sections/near_ranks.h"
#include "config/sections/sequence_split.h"
#include "config/sections/split/partition_rules.h"
#include "config/sections/split/pipeline.h"
#include "config/sections/split/tensor.h"
#include "core/files/digest.h"
#include "core/files/file.h"
#include "core/text/hex.h"
#include "core/values/index.h"
#include "core/values/number_text.h"
#include "data/text/text_kind.h"
#include "model/families/zoo.h"
#include "model/hf/generation.h"
#include "model/hf/weights.h"
#include "optim/loss_scaler.h"
#include "train/samples/labelled_data.h"
#include "train/samples/sample_sets.h"
#include "train/samples/supervised_data.h"
#include "train/settings/adapter_fit.h"
#include "train/settings/batch_content.h"
#include "train/settings/distillation_settings.h"
#include "train/settings/frozen_names.h"
#include "train/settings/rates.h"
#include "train/settings/zero_settings.h"
#include "train/step/pipeline.h"

namespace ds {
namespace {

// Returns the type of weights and activations.
DType training_dtype(const Config& config) {
  if (config.amp.enabled && config.amp.opt_level >= AmpLevel::kO2) return DType::kF16;
  return config.fp16.enabled ? DType::kF16 : config.bf16.enabled ? DType::kBF16 : DType::kF32;
}

Operands operands_of(const Config& config) {
  if (config.amp.enabled && config.amp.opt_level == AmpLevel::kO1) return DType::kF16;
  return autocast_dtype(config.torch_autocast);
}

// The scaler of Apex, and of PyTorch for autocast in fp16: every overflow halves.
LossScaleRule pytorch_loss_scale(double smallest, double largest) {
  return dynamic_scale_rule({.init_scale = 0x1p16,
                             .window = 2000,
                             .min_scale = smallest,
                             .max_scale = largest,
                             .hysteresis = 1,
                             .at_minimum = AtMinimumScale::kStay});
}

LossScaleRule loss_scale_of(const AmpConfig& amp) {
  if (amp.wants_dynamic_scale()) {
    return pytorch_loss_scale(amp.bound_of_scale("min_loss_scale", 0x1p-24),
                              amp.bound_of_scale("max_loss_scale", 0x1p24));
  }
  const std::optional<double> fixed = amp.loss_scale();
  if (!fixed && amp.opt_level == AmpLevel::kO0) return {};
  return loss_scale_rule({.loss_scale = fixed.value_or(1.0)});
}

// Without ZeRO every overflow halves the scale, and it stays at its minimum for some steps: so do
// DeepSpeed's wrappers of fp16 optimizers, for any number of them.
LossScaleRule loss_scale_of(const Config& config) {
  const Fp16Config& fp16 = config.fp16;
  if (config.amp.enabled) return loss_scale_of(config.amp);
  if (autocast_dtype(config.torch_autocast) == DType::kF16) {
    return pytorch_loss_scale(0x1p-24, std::numeric_limits<double>::infinity());
  }
  if (!fp16.enabled) return {};
  LossScaleRule rule =
      loss_scale_rule({.loss_scale = fp16.loss_scale,
                       .initial_scale_power = static_cast<double>(fp16.initial_scale_power),
                       .loss_scale_window = fp16.loss_scale_window,
                       .hysteresis = fp16.hysteresis,
                       .consecutive_hysteresis = fp16.consecutive_hysteresis,
                       .min_loss_scale = least_loss_scale(fp16)});
  if (config.zero_optimization.stage == 0) {
    rule.options.hysteresis = 1;
    rule.options.at_minimum = AtMinimumScale::kStay;
  }
  return rule;
}

// Divided by the factor before the reduction, by the rest of the ranks after it.
double gradient_factor(const Config& config, int64_t ranks) {
  const double factor = config.gradient_predivide_factor;
  return factor == 1.0 || config.prescale_gradients ? 1.0 : static_cast<double>(ranks) / factor;
}

// Whose gradients of the same weights are summed.
int64_t token_ranks(const Config& config, int64_t world_size) {
  return data_ranks(config, world_size) * sequence_ranks(config);
}

OptimizerConfig optimizer_of(const Config& config) {
  OptimizerConfig optimizer = config.optimizer;
  if (config.bf16.enabled && config.bf16.bf16_optimizer_states) {
    optimizer.moment_dtype = MomentType::kBf16;
  }
  return optimizer;
}

// The pipeline section's interval is another way to ask for whole blocks.
RecomputedBlocks recomputed_blocks(ActivationCheckpointingConfig c, int64_t interval) {
  if (interval > 0) {
    if (!c.enabled) c = ActivationCheckpointingConfig();
    c.enabled = true;
    c.layers_per_checkpoint = interval;
  }
  if (!c.enabled) return {.mlp_tiles = c.mlp_tiles};
  const auto part = [&] {
    switch (c.granularity) {
      case RecomputeGranularity::kBlock:
        return RecomputedPart::kBlock;
      case RecomputeGranularity::kAttention:
        return RecomputedPart::kAttention;
      case RecomputeGranularity::kMlp:
        return RecomputedPart::kMlp;
    }
    throw InternalError("unknown granularity");
  };
  return {.mlp_tiles = c.mlp_tiles,
          .recompute = {.part = part(),
                        .synchronize = c.synchronize_checkpoint_boundary,
                        .partitions = c.partition_activations},
          .per_segment = c.layers_per_checkpoint,
          .patterns = c.modules,
          .is_timed = c.profile};
}

void check_most(std::string_view key, int64_t value, int64_t most) {
  if (value > most) throw ConfigError(fmt::format("{}: {}, expected at most {}", key, value, most));
}

}  // namespace

BatchShape batch_shape(const Config& config, int world_size) {
  const int64_t ranks = data_ranks(config, world_size);
  const BatchSizes sizes = batch_sizes(config, ranks);
  check_most("gradient_accumulation_steps", sizes.accumulation, kMostMicroSteps);
  check_most("train_micro_batch_size_per_gpu", sizes.micro, kMostTokensOfMicroBatch);
  check_most("train_batch_size", sizes.train, kMostSamples);
  const PipelineSplit split = pipeline_split(config.pipeline);
  if (const std::string why = micro_batch_conflict(split, sizes.accumulation); !why.empty()) {
    throw ConfigError(fmt::format("pipeline.schedule: {}", why));
  }
  return {.micro_batch = sizes.micro, .accumulation = sizes.accumulation, .ranks = ranks};
}

int updater_threads(const Config& config, int threads) {
  const OffloadOptimizerConfig offload = offload_optimizer(config);
  if (const auto zenflow = zenflow_options(config); zenflow && zenflow->overlaps) {
    const double share = config.zero_optimization.zenflow->pt_reserved_cores_perc;
    const int kept = static_cast<int>(std::ceil(share * threads));
    return kept < threads ? threads - kept : threads;
  }
  if (!updates_ahead(offload)) return 0;
  return std::max(1, static_cast<int>(offload.cpuadam_cores_perc * threads));
}

MemoryLimits memory_limits(const Config& config) {
  const auto bytes = [](const std::optional<std::string>& size) {
    // What cannot be read was refused with the file.
    return size ? to_size(parse_bytes(*size).value()) : kNoLimit;
  };
  return {.device = bytes(config.memory.device_limit), .host = bytes(config.memory.host_limit)};
}

IoOptions io_options(const AioConfig& aio, const std::string& folder) {
  if (aio.block_size % kUncachedAlignment != 0) {
    throw ConfigError(fmt::format("aio.block_size: {}, expected a multiple of {}", aio.block_size,
                                  kUncachedAlignment));
  }
  check_most("aio.block_size", aio.block_size, kMostBlockBytes);
  check_most("aio.queue_depth", aio.queue_depth, kMostQueueDepth);
  check_most("aio.thread_count", aio.thread_count, kMostIoThreads);
  return {.block_size = aio.block_size,
          .queue_depth = narrow<int>(aio.queue_depth),
          .single_submit = aio.single_submit,
          .overlap_events = aio.overlap_events,
          .thread_count = narrow<int>(aio.thread_count),
          .use_gds = aio.use_gds,
          .folder = folder};
}

SwapOwner swap_owner(const JobPlan& plan) {
  std::string job = std::filesystem::path(plan.run_dir).filename().string();
  job.resize(std::min(job.size(), kSwapJobBytes / 2));
  const auto is_plain = [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '_'; };
  std::ranges::replace_if(
      job, [&](char c) { return !is_plain(c); }, '-');
  job += '-';
  const auto digest = xxh3_128(std::as_bytes(std::span(plan.run_dir)));
  job += hex(std::span(digest).first(4));
  return {.job = job, .epoch = plan.epoch, .rank = plan.rank, .world = plan.world_size};
}

DType final_dtype(const Config& config) {
  if (config.train.final_dtype) return dtype_of_config(*config.train.final_dtype);
  return dtype_of_config(gathered_dtype(config).value_or(FloatType::kFp32));
}

int64_t sequence_length(const DataSection& data, const ModelConfig& model) {
  const int64_t positions = dimensions(model).positions;
  const int64_t length = data.sequence_length.value_or(positions);
  // Each text of a pair begins anew at the first position.
  if (length > (data.supervised.has_pairs() ? 2 : 1) * positions) {
    throw ConfigError(fmt::format("data.sequence_length: {}, but the model has {} positions{}",
                                  length, positions,
                                  data.supervised.has_pairs() ? " for each text of a pair" : ""));
  }
  return length;
}

int64_t sample_length(const TrainSection& train, const ModelConfig& model) {
  if (!train.sample_prompt) return 0;
  require_causal(model, "train.sample_prompt");
  const int64_t most = dimensions(model).positions;
  if (most < 2) {
    throw ConfigError("train.sample_prompt: a model of one position goes on with nothing");
  }
  if (train.sample_length.value_or(0) > most) {
    throw ConfigError(fmt::format("train.sample_length: {}, but the model has {} positions",
                                  *train.sample_length, most));
  }
  constexpr int64_t kSampleLength = 128;
  return train.sample_length.value_or(std::min(kSampleLength, most));
}

MeshSizes job_mesh(const Config& config, int world_size, int ranks_of_host) {
  const int64_t data = data_ranks(config, world_size);
  return {.pipe = narrow<int>(pipeline_split(config.pipeline).stages),
          .data = narrow<int>(data),
          .sequence = narrow<int>(sequence_ranks(config)),
          .tensor = narrow<int>(tensor_ranks(config)),
          .shard = narrow<int>(near_size(config.zero_optimization, data, ranks_of_host)),
          .ring = narrow<int>(sequence_sharing(config).ring)};
}

namespace {

// The parts of a step that is given as a whole have no times of their own.
bool measures_parts(const Config& config) {
  return config.wall_clock_breakdown || config.flops_profiler.enabled ||
         config.comms_logger.enabled;
}

// Why ranks cannot share so many tokens of a micro-batch; empty: they can, or do not.
std::string unequal_rows(const Config& config, int64_t tokens) {
  const int64_t ranks = tensor_ranks(config);
  if (!config.tensor_parallel.sequence_parallel || tokens % ranks == 0) return "";
  return fmt::format(
      "tensor_parallel.sequence_parallel: {} ranks cannot share the {} tokens of a "
      "micro-batch equally; expected a divisor, or other micro-batches",
      ranks, tokens);
}

}  // namespace

std::vector<std::string> require_partition(const Config& config, const ModelConfig& model) {
  const auto& rules = config.tensor_parallel.partition_config;
  if (!rules || tensor_ranks(config) == 1) return {};
  const PartitionFindings found = follow_rules(model, *rules);
  if (!found.conflict.empty()) {
    throw ConfigError("tensor_parallel.partition_config: " + found.conflict);
  }
  return found.notes();
}

namespace {

// The lengths of samples along the run; nothing if they all are whole. ConfigError for one that
// ranks cannot share.
std::optional<CurriculumOptions> lengths_of(const Config& config, const ModelConfig& model,
                                            int64_t length, int64_t micro_batch) {
  constexpr size_t kMostLengths = 1024;
  const CurriculumLearningConfig& c = config.curriculum_learning;
  if (!c.enabled || c.curriculum_type != CurriculumType::kSeqlen) return std::nullopt;
  const CurriculumScheduleConfig schedule = c.schedule_config.value_or(CurriculumScheduleConfig{});
  std::optional<CurriculumScheduleType> type = c.schedule_type;  // of those that are no code
  CurriculumOptions options{.min_difficulty = c.min_difficulty.value_or(1),
                            .max_difficulty = c.max_difficulty.value_or(length),
                            .schedule_type = std::string(EnumRef(type).name()),
                            .total_curriculum_step = schedule.total_curriculum_step,
                            .difficulty_step = schedule.difficulty_step,
                            .root_degree = schedule.root_degree,
                            .difficulty = schedule.difficulty.value_or(std::vector<int64_t>{}),
                            .max_step = schedule.max_step.value_or(std::vector<int64_t>{})};
  const StepRules rules({.length = length, .lengths = options});
  const auto shapes = rules.shapes(config.train.steps.value_or(INT64_MAX));
  if (shapes.size() > kMostLengths) {
    throw ConfigError(
        fmt::format("curriculum_learning: {} lengths of samples, each of which is planned; "
                    "expected at most {}: give a larger difficulty_step",
                    shapes.size(), kMostLengths));
  }
  for (const auto& [shape, step] : shapes) {
    std::string why = sequence_conflict(dimensions(model), shape.length, sequence_sharing(config));
    if (why.empty()) {
      why = unequal_rows(config, micro_batch * shape.length / sequence_ranks(config));
    }
    if (why.empty()) continue;
    throw ConfigError(fmt::format("curriculum_learning: samples of {} tokens, from step {} on: {}",
                                  shape.length, step, why));
  }
  return options;
}

}  // namespace

EngineOptions engine_options(const Config& config, const ModelConfig& model, int world_size) {
  const BatchShape batch = batch_shape(config, world_size);
  const DType dtype = training_dtype(config);
  const int64_t length = sequence_length(config.data, model);
  if (const std::string why =
          sequence_conflict(dimensions(model), length, sequence_sharing(config));
      !why.empty()) {
    throw ConfigError(fmt::format("sequence_parallel_size: {}", why));
  }
  if (const std::string why = tensor_conflict(model, tensor_split(config)); !why.empty()) {
    throw ConfigError(fmt::format("{}: {}", tensor_key(config), why));
  }
  if (const std::string why = uneven_conflict(config, model); !why.empty()) throw ConfigError(why);
  if (const std::string why = classes_conflict(config, model); !why.empty()) throw ConfigError(why);
  require_partition(config, model);
  require_stages(config.pipeline, model);
  if (batch.micro_batch > kMostTokensOfMicroBatch / length) {
    throw ConfigError(fmt::format(
        "train_micro_batch_size_per_gpu: {} samples of {} tokens, expected at most {} tokens "
        "in a micro-batch",
        batch.micro_batch, length, kMostTokensOfMicroBatch));
  }
  const int64_t rows = batch.micro_batch * length / sequence_ranks(config);
  if (const std::string why = unequal_rows(config, rows); !why.empty()) throw ConfigError(why);
  ZeroOptions zero = zero_options(config, dtype, batch.accumulation);
  if (config.sparse_gradients) {
    zero.wire.sparse_tokens = batch.micro_batch * length / sequence_ranks(config);
  }
  require_adapters(model);
  require_droppable(model, tensor_ranks(config));
  if (const std::string why = teacher_conflict(config, model, length); !why.empty()) {
    throw ConfigError(fmt::format("train.distillation.{}", why));
  }
  const TrainedChoice trained{.train_only = config.train.train_only, .freeze = config.train.freeze};
  if (!trained.is_all()) zero.layout.frozen = frozen_names(trained, specs_of_model(model, dtype));
  return {.model = model,
          .dtype = dtype,
          .operands = operands_of(config),
          .zero = std::move(zero),
          .optimizer = optimizer_of(config),
          .schedule = schedule_of(config),
          .gradient_clipping = config.gradient_clipping,
          .loss_scale = loss_scale_of(config),
          .gradient_factor = gradient_factor(config, token_ranks(config, world_size)),
          .micro_batch = batch.micro_batch,
          .length = length,
          .content = batch_content(config, model),
          .distillation = distillation_options(config.train),
          .lengths = lengths_of(config, model, length, batch.micro_batch),
          .shared_layers = {.grain = config.tensor_parallel.tp.tp_grain_size,
                            .rows = config.tensor_parallel.sequence_parallel},
          .pipeline = pipeline_choice(config.pipeline),
          .seed = static_cast<uint64_t>(config.train.seed),
          .last_step = config.train.steps.value_or(INT64_MAX),
          .recomputed = recomputed_blocks(config.activation_checkpointing,
                                          config.pipeline.activation_checkpoint_interval),
          .gpu = {.graphs = config.train.cuda_graphs && !measures_parts(config),
                  .matmul = {.allow_tf32 = config.train.allow_tf32},
                  .attention = {.deterministic = config.train.deterministic_attention}},
          .excludes_frozen = excludes_frozen(config),
          .offload_activations = config.train.offload_activations ||
                                 (config.activation_checkpointing.enabled &&
                                  config.activation_checkpointing.cpu_checkpointing),
          .eigenvalues = eigenvalue_options(config.eigenvalue, model),
          .sample_length = sample_length(config.train, model)};
}

namespace {

// The token that ends a document. GPT-2's own folder names it by its id, in config.json alone.
std::optional<std::string> end_of_document(const std::string& name, const Tokenizer& tokenizer,
                                           FileSystem& files) {
  if (std::optional<std::string> token = eos_token(files, name)) return token;
  const bool is_model = files.exists(join_path(name, "config.json"));
  if (!is_model) return std::nullopt;
  const std::vector<int32_t> ids = read_eos_ids(files, name).value_or(std::vector<int32_t>());
  if (ids.empty() || ids.front() >= tokenizer.vocab_size()) return std::nullopt;
  return tokenizer.decode(std::span(ids).first(1));  // of several the first
}

}  // namespace

TextOptions text_options(const DataSection& data, const Tokenizer& tokenizer, FileSystem& files) {
  TextOptions options{.field = data.field};
  if (data.separator) {
    options.after_json_line.text = options.after_text_file.text = *data.separator;
  } else if (const std::optional<std::string> eos =
                 end_of_document(data.tokenizer, tokenizer, files)) {
    options.after_json_line = {*eos, Separator::Kind::kOneToken};
  }
  return options;
}

namespace {

// The token that is put after documents. A line feed that nobody asked for stands within texts,
// too.
int32_t separating_token(const std::string& key, const Tokenizer* tokenizer,
                         const TextOptions& text, bool is_given, bool are_json_lines) {
  const auto refuse = [&](const std::string& why) -> ConfigError {
    return ConfigError(fmt::format(
        "{}: {}; give data.eod_token_id, or a data.separator that is one token", key, why));
  };
  if (tokenizer == nullptr) throw refuse("token ids do not say which of them ends a document");
  if (!is_given && !are_json_lines) {
    throw refuse("between text files comes no token that nobody asked for");
  }
  const Separator& separator = text.after_json_line;
  if (!is_given && separator.kind != Separator::Kind::kOneToken) {
    throw refuse(
        "no token ends documents: after a JSON line comes a line feed, and texts have such");
  }
  const std::vector<int32_t> ids = tokenizer->encode(separator.text);
  if (ids.size() != 1) {
    throw refuse(fmt::format("data.separator is {} tokens", ids.size()));
  }
  return ids.front();
}

}  // namespace

DocumentRules document_rules(const DataSection& data, const Tokenizer* tokenizer,
                             const TextOptions& text, int64_t vocabulary) {
  const std::string key = data.reset_attention_mask ? "data.reset_attention_mask"
                          : data.reset_position_ids ? "data.reset_position_ids"
                          : data.eod_mask_loss      ? "data.eod_mask_loss"
                                                    : "";
  if (key.empty()) return {};
  DocumentRules rules{.masks_loss = data.eod_mask_loss};
  if (data.eod_token_id) {
    if (*data.eod_token_id >= vocabulary) {
      throw ConfigError(fmt::format("data.eod_token_id: {} is no token of the model, which has {}",
                                    *data.eod_token_id, vocabulary));
    }
    rules.end = narrow<int32_t>(*data.eod_token_id);
  } else {
    rules.end = separating_token(key, tokenizer, text, data.separator.has_value(),
                                 std::ranges::all_of(data.train, [](const std::string& path) {
                                   return layout_of(path) == TextLayout::kJsonLines;
                                 }));
  }
  return rules;
}

namespace {

// What a reference will have said of these samples; null: nobody asks it.
std::shared_ptr<RunReferences> references_of(const DataSection& data, const SampleSets& samples) {
  if (!data.supervised.has_pairs()) return nullptr;
  return std::make_shared<RunReferences>(RunReferences{
      .train = ReferenceScores(samples.train.size()),
      .validation = ReferenceScores(samples.validation ? samples.validation->size() : 0)});
}

}  // namespace

TrainingData open_data(const DataSection& data, const ModelConfig& model, FileSystem& files,
                       TokenCache* cache) {
  require_labelled(data, model);
  if (data.supervised.is_used()) {
    const SupervisedReader reader(data, model, files);
    SampleSets samples = open_record_samples(data, reader);
    std::shared_ptr<RunReferences> references = references_of(data, samples);
    return {.tokenizer = reader.tokenizer(),
            .train = std::move(samples.train),
            .validation = std::move(samples.validation),
            .rules = {.is_supervised = true, .has_pairs = data.supervised.has_pairs()},
            .references = std::move(references)};
  }
  if (model.classifier || model.pairs) {
    LabelledData labelled = open_labelled_data(data, model, files);
    std::optional<MaskingRules> masking;
    if (model.pairs) masking = masking_rules(data, model, labelled.tokenizer.get(), {}, files);
    return {.tokenizer = std::move(labelled.tokenizer),
            .train = std::move(labelled.samples.train),
            .validation = std::move(labelled.samples.validation),
            .rules = {.masking = std::move(masking), .scored = labelled.scored}};
  }
  const ModelDimensions sizes = dimensions(model);
  std::unique_ptr<Tokenizer> tokenizer;
  TextOptions text;
  if (has_text(files, data.train) || has_text(files, data.validation)) {
    tokenizer = make_tokenizer(files, data.tokenizer);
    check_vocabulary(*tokenizer, data.tokenizer, sizes.vocabulary);
    text = text_options(data, *tokenizer, files);
    text.cache = cache;
    text.tokenizer_digest = tokenizer_digest(files, data.tokenizer);
  }
  const DocumentRules documents = document_rules(data, tokenizer.get(), text, sizes.vocabulary);
  std::optional<MaskingRules> masking =
      masking_rules(data, model, tokenizer.get(), documents.end, files);
  const int64_t length = sequence_length(data, model);
  const ByteTokenizer unused;  // token ids are no text: nobody asks it
  const Tokenizer& any = tokenizer ? static_cast<const Tokenizer&>(*tokenizer) : unused;
  const auto sources = [&](const std::vector<std::string>& paths) {
    return open_token_sources(files, paths, any, text);
  };
  SampleSets samples = open_samples(data, sources, [&](auto from) {
    return SampleSet(std::move(from), length, sizes.vocabulary);
  });
  // The losses of masked tokens tell nothing of how short a text could be written.
  const double bytes_per_token = data.tokenizer == "byte" && predicts_next(model) ? 1.0 : 0.0;
  return {.tokenizer = std::move(tokenizer),
          .train = std::move(samples.train),
          .validation = std::move(samples.validation),
          .rules = {.documents = documents, .masking = std::move(masking)},
          .validation_bytes_per_token = bytes_per_token};
}

int64_t total_steps(const TrainSection& train, const BatchShape& batch, int64_t samples_per_epoch) {
  const int64_t most = kMostSamples / batch.global_batch();
  const auto check_most = [&](const char* key, double wanted) {
    if (wanted <= static_cast<double>(most)) return;
    throw ConfigError(fmt::format("{}: {} steps of {} samples, expected at most {} steps", key,
                                  wanted, batch.global_batch(), most));
  };
  if (train.steps) {
    check_most("train.steps", static_cast<double>(*train.steps));
    return *train.steps;
  }
  if (!train.epochs) throw ConfigError("train: give \"steps\" or \"epochs\"");
  const double needed = *train.epochs * static_cast<double>(samples_per_epoch);
  const double steps = std::ceil(needed / static_cast<double>(batch.global_batch()));
  check_most("train.epochs", steps);
  return static_cast<int64_t>(steps);
}

int64_t samples_per_epoch(const Config& config, const BatchShape& batch, const SampleSet& samples) {
  if (!config.dataloader_drop_last) return samples.size();
  const int64_t whole = samples.size() / batch.global_batch() * batch.global_batch();
  if (whole == 0) {
    throw ConfigError(
        fmt::format("dataloader_drop_last: an epoch has {} samples, which make no batch of {}",
                    samples.size(), batch.global_batch()));
  }
  return whole;
}

void count_epochs(EngineOptions& options, const Config& config, const SampleSet& samples,
                  int world_size) {
  if (!options.zero.state.zenflow || options.zero.state.zenflow->select_epochs == 0) return;
  ZenflowOptions& zenflow = *options.zero.state.zenflow;
  const BatchShape batch = batch_shape(config, world_size);
  const int64_t whole = batch.global_batch();
  const int64_t steps_per_epoch = (samples_per_epoch(config, batch, samples) + whole - 1) / whole;
  zenflow.select_every = std::exchange(zenflow.select_epochs, 0) * steps_per_epoch;
  if (zenflow.update_every && zenflow.select_every < *zenflow.update_every) {
    throw ConfigError(fmt::format(
        "zero_optimization.zenflow.update_interval: {}, but columns are chosen every {} steps, an "
        "epoch having {}; expected at most that",
        *zenflow.update_every, zenflow.select_every, steps_per_epoch));
  }
}

uint64_t sampler_seed(const Config& config) {
  return static_cast<uint64_t>(config.data_efficiency.enabled ? config.data_efficiency.seed
                                                              : config.train.seed);
}

std::string order_text(const Config& config) {
  if (config.data.order == DataOrder::kSequential) {
    return config.dataloader_drop_last ? "sequential, whole batches" : "sequential";
  }
  std::string text = "shuffled";
  if (config.data_efficiency.enabled) text += fmt::format(" by seed {}", sampler_seed(config));
  if (config.dataloader_drop_last) text += ", whole batches";
  return text;
}

}  // namespace ds
