#include "train/assemble.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "config/elastic_options.h"
#include "config/sections/hf_config.h"
#include "config/sections/model_limits.h"
#include "core/index.h"
#include "core/number_text.h"
#include "model/hf/generation.h"
#include "model/hf/weights.h"

namespace ds {
namespace {

DType dtype_of_config(FloatType type) {
  switch (type) {
    case FloatType::kFp32:
      return DType::kF32;
    case FloatType::kFp16:
      return DType::kF16;
    case FloatType::kBf16:
      return DType::kBF16;
  }
  throw InternalError("unknown float type");
}

// A decay without an end of its own ends with the run.
SchedulerConfig schedule_of(const Config& config) {
  SchedulerConfig schedule = config.scheduler;
  for (auto* total :
       {&schedule.warmup_decay.total_num_steps, &schedule.warmup_cosine.total_num_steps}) {
    if (!*total) *total = config.train.steps;
  }
  return schedule;
}

ZeroOptions zero_options(const Config& config, DType dtype, int64_t micro_steps) {
  const ZeroConfig& z = config.zero_optimization;
  // One micro-step leaves nothing to accumulate: the slice then has the gradient's own dtype, as
  // the ZeRO memory formula counts it. Sums over micro-steps are kept in fp32 unless the file says
  // otherwise.
  DType slice = micro_steps > 1 ? DType::kF32 : dtype;
  if (config.data_types.grad_accum_dtype) {
    slice = dtype_of_config(*config.data_types.grad_accum_dtype);
  }
  return {.policy = zero_policy(static_cast<int>(z.stage)),
          .bucket_numel = std::min(z.reduce_bucket_size, z.allgather_bucket_size),
          .persistence_numel = z.stage3_param_persistence_threshold,
          .gather = {.prefetch_numel = z.stage3_prefetch_bucket_size,
                     .live_numel = z.stage3_max_live_parameters,
                     .reuse_numel = z.stage3_max_reuse_distance},
          .grad_slice_dtype = slice,
          .micro_steps = static_cast<int>(micro_steps),
          .slots = {}};
}

}  // namespace

ModelConfig model_config(const ModelSection& model, FileSystem& files) {
  if (model.folder) return read_hf_model(files, *model.folder);
  switch (model.family.value_or(ModelFamily::kGpt2)) {
    case ModelFamily::kGpt2:
      return model.gpt2;
    case ModelFamily::kLlama:
      return model.llama;
    default:
      throw Unsupported("model.family: this build has gpt2 and llama");
  }
}

BatchShape batch_shape(const Config& config, int world_size) {
  const BatchSizes sizes = batch_sizes(config, world_size);
  const auto check_most = [](const char* key, int64_t value, int64_t most) {
    if (value > most)
      throw ConfigError(fmt::format("{}: {}, expected at most {}", key, value, most));
  };
  check_most("gradient_accumulation_steps", sizes.accumulation, kMostMicroSteps);
  check_most("train_micro_batch_size_per_gpu", sizes.micro, kMostTokensOfMicroBatch);
  check_most("train_batch_size", sizes.train, kMostSamples);
  return {.micro_batch = sizes.micro, .accumulation = sizes.accumulation, .ranks = world_size};
}

MemoryLimits memory_limits(const Config& config) {
  const auto bytes = [](const std::optional<std::string>& size) {
    // What cannot be read was refused with the file.
    return size ? to_size(parse_bytes(*size).value()) : kNoLimit;
  };
  return {.device = bytes(config.memory.device_limit), .host = bytes(config.memory.host_limit)};
}

DType final_dtype(const Config& config) {
  if (config.train.final_dtype) return dtype_of_config(*config.train.final_dtype);
  return dtype_of_config(gathered_dtype(config).value_or(FloatType::kFp32));
}

int64_t sequence_length(const DataSection& data, const ModelConfig& model) {
  const int64_t positions = dimensions(model).positions;
  const int64_t length = data.sequence_length.value_or(positions);
  if (length > positions) {
    throw ConfigError(
        fmt::format("data.sequence_length: {}, but the model has {} positions", length, positions));
  }
  return length;
}

namespace {

// The parts of a step that is given as a whole have no times of their own.
bool measures_parts(const Config& config) {
  return config.wall_clock_breakdown || config.flops_profiler.enabled ||
         config.comms_logger.enabled;
}

}  // namespace

EngineOptions engine_options(const Config& config, const ModelConfig& model, int world_size) {
  const BatchShape batch = batch_shape(config, world_size);
  const DType dtype = config.bf16.enabled ? DType::kBF16 : DType::kF32;
  const int64_t length = sequence_length(config.data, model);
  if (batch.micro_batch > kMostTokensOfMicroBatch / length) {
    throw ConfigError(fmt::format(
        "train_micro_batch_size_per_gpu: {} samples of {} tokens, expected at most {} tokens "
        "in a micro-batch",
        batch.micro_batch, length, kMostTokensOfMicroBatch));
  }
  return {.model = model,
          .dtype = dtype,
          .zero = zero_options(config, dtype, batch.accumulation),
          .optimizer = config.optimizer,
          .schedule = schedule_of(config),
          .gradient_clipping = config.gradient_clipping,
          .micro_batch = batch.micro_batch,
          .length = length,
          .seed = static_cast<uint64_t>(config.train.seed),
          .cuda_graphs = config.train.cuda_graphs && !measures_parts(config)};
}

namespace {

// The token that ends a document. GPT-2's own folder names it by its id, in config.json alone.
std::optional<std::string> end_of_document(const std::string& name, const Tokenizer& tokenizer,
                                           FileSystem& files) {
  if (std::optional<std::string> token = eos_token(files, name)) return token;
  const bool is_model = files.exists(join_path(name, "tokenizer.json")) &&
                        files.exists(join_path(name, "config.json"));
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

TrainingData open_data(const DataSection& data, const ModelConfig& model, FileSystem& files) {
  const ModelDimensions sizes = dimensions(model);
  std::unique_ptr<Tokenizer> tokenizer;
  TextOptions text;
  if (has_text(files, data.train) || has_text(files, data.validation)) {
    tokenizer = make_tokenizer(files, data.tokenizer);
    check_vocabulary(*tokenizer, data.tokenizer, sizes.vocabulary);
    text = text_options(data, *tokenizer, files);
  }
  const int64_t length = sequence_length(data, model);
  const ByteTokenizer unused;  // token ids are no text: nobody asks it
  const Tokenizer& any = tokenizer ? static_cast<const Tokenizer&>(*tokenizer) : unused;
  const auto sources = [&](const std::vector<std::string>& paths) {
    return open_token_sources(files, paths, any, text);
  };
  const auto open = [&](const std::vector<std::string>& paths) {
    return SampleSet(sources(paths), length, sizes.vocabulary);
  };
  const auto open_mixture = [&] {
    std::vector<WeightedSources> groups;
    for (size_t i = 0; i < data.train.size(); ++i)
      groups.push_back({sources({data.train[i]}), data.weights[i]});
    return SampleSet(std::move(groups), length, sizes.vocabulary);
  };
  SampleSet train = data.weights.empty() ? open(data.train) : open_mixture();
  std::optional<SampleSet> validation;
  if (!data.validation.empty()) {
    validation = open(data.validation);
  } else if (data.validation_fraction > 0) {
    auto [rest, held] = train.split(data.validation_fraction);
    train = std::move(rest);
    validation = std::move(held);
  }
  const double bytes_per_token = data.tokenizer == "byte" ? 1.0 : 0.0;
  return {.tokenizer = std::move(tokenizer),
          .train = std::move(train),
          .validation = std::move(validation),
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
