#include "train/assemble.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "config/elastic_options.h"
#include "config/field_writer.h"
#include "core/model_limits.h"
#include "model/hf/config.h"
#include "model/hf/generation.h"
#include "model/hf/weights.h"
#include "optim/lr_schedule_params.h"

namespace ds {
namespace {

ModelConfig from(const Gpt2Section& c) {
  return Gpt2Config{.vocab_size = c.vocab_size,
                    .n_positions = c.n_positions,
                    .n_embd = c.n_embd,
                    .n_layer = c.n_layer,
                    .n_head = c.n_head,
                    .n_inner = c.n_inner.value_or(0),
                    .activation_function = c.activation_function,
                    .resid_pdrop = c.resid_pdrop,
                    .embd_pdrop = c.embd_pdrop,
                    .attn_pdrop = c.attn_pdrop,
                    .layer_norm_epsilon = c.layer_norm_epsilon,
                    .initializer_range = c.initializer_range,
                    .tie_word_embeddings = c.tie_word_embeddings};
}

ModelConfig from(const LlamaSection& c) {
  if (c.hidden_act != "silu") {
    throw Unsupported(
        fmt::format("model.hidden_act: \"{}\", this build has \"silu\"", c.hidden_act));
  }
  return LlamaConfig{.vocab_size = c.vocab_size,
                     .max_position_embeddings = c.max_position_embeddings,
                     .hidden_size = c.hidden_size,
                     .intermediate_size = c.intermediate_size,
                     .num_hidden_layers = c.num_hidden_layers,
                     .num_attention_heads = c.num_attention_heads,
                     .num_key_value_heads = c.num_key_value_heads.value_or(0),
                     .head_dim = c.head_dim.value_or(0),
                     .rms_norm_eps = c.rms_norm_eps,
                     .rope_theta = c.rope_theta,
                     .initializer_range = c.initializer_range,
                     .tie_word_embeddings = c.tie_word_embeddings,
                     .attention_bias = c.attention_bias,
                     .attention_dropout = c.attention_dropout,
                     .mlp_bias = c.mlp_bias};
}

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

AdamOptions adam_rule(const AdamParams& params, OptimizerType type) {
  return {.betas = {params.betas[0], params.betas[1]},
          .eps = params.eps,
          .weight_decay = params.weight_decay,
          .decoupled_decay = type == OptimizerType::kAdamW || params.adam_w_mode,
          .bias_correction = params.bias_correction};
}

SgdRule sgd_rule(const SgdParams& params) {
  const SgdRule rule{.lr = params.lr,
                     .momentum = params.momentum,
                     .dampening = params.dampening,
                     .weight_decay = params.weight_decay,
                     .nesterov = params.nesterov ? Nesterov::kOn : Nesterov::kOff};
  rule.check();
  return rule;
}

struct OptimizerChoice {
  OptimizerRule rule;
  double lr = 0;
};

OptimizerChoice choose_optimizer(const OptimizerConfig& c) {
  const OptimizerType type = c.type.value_or(OptimizerType::kAdamW);
  switch (type) {
    case OptimizerType::kAdam:
    case OptimizerType::kAdamW:
      return {adam_rule(c.adam, type), c.adam.lr};
    case OptimizerType::kLion:
      return {LionRule{.lr = c.lion.lr,
                       .beta1 = c.lion.betas[0],
                       .beta2 = c.lion.betas[1],
                       .weight_decay = c.lion.weight_decay},
              c.lion.lr};
    case OptimizerType::kAdagrad:
      return {AdagradRule{
                  .lr = c.adagrad.lr, .eps = c.adagrad.eps, .weight_decay = c.adagrad.weight_decay},
              c.adagrad.lr};
    case OptimizerType::kSgd:
      return {sgd_rule(c.sgd), c.sgd.lr};
    default:
      break;
  }
  throw Unsupported("optimizer.type: this build has Adam, AdamW, Lion, Adagrad and SGD");
}

ScheduleValue schedule_value(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kBoolean:
      return value.as_boolean();
    case Value::Kind::kInteger:
      return value.as_integer();
    case Value::Kind::kNumber:
      return value.as_number();
    case Value::Kind::kString:
      return value.as_string();
    case Value::Kind::kList: {
      std::vector<double> numbers;
      for (const Value& item : value.items()) numbers.push_back(item.as_number());
      return numbers;
    }
    default:
      return std::monostate{};
  }
}

// By the names that the section itself has, so that they are turned into options in one place only
// (optim/lr_schedule_params.h).
LrScheduleOptions schedule_options(const Config& config) {
  constexpr const char* kTotal = "total_num_steps";
  const Value document = write_fields(config);
  const Value& section = *document.find("scheduler");
  ScheduleParams params;
  if (const Value* given = section.find("params")) {
    for (const Member& member : given->members()) {
      params.emplace(member.key, schedule_value(member.value));
    }
  }
  const auto total = params.find(kTotal);
  if (total != params.end() && std::holds_alternative<std::monostate>(total->second)) {
    if (!config.train.steps) {
      throw ConfigError(fmt::format(
          "scheduler.params.{}: needed where train.steps does not give the run's length", kTotal));
    }
    total->second = *config.train.steps;
  }
  return lr_schedule_options(section.find("type")->as_string(), params);
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
          .slot_names = {}};
}

}  // namespace

ModelConfig model_config(const ModelSection& model, FileSystem& files) {
  if (model.folder) return read_hf_model(files, *model.folder);
  switch (model.family.value_or(ModelFamily::kGpt2)) {
    case ModelFamily::kGpt2:
      return from(model.gpt2);
    case ModelFamily::kLlama:
      return from(model.llama);
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
  const OptimizerChoice optimizer = choose_optimizer(config.optimizer);
  EngineOptions options{.model = model,
                        .dtype = dtype,
                        .zero = zero_options(config, dtype, batch.accumulation),
                        .optimizer = optimizer.rule,
                        .base_lr = optimizer.lr,
                        .schedule = std::nullopt,
                        .gradient_clipping = config.gradient_clipping,
                        .micro_batch = batch.micro_batch,
                        .length = length,
                        .seed = static_cast<uint64_t>(config.train.seed)};
  if (config.scheduler.type) options.schedule = schedule_options(config);
  return options;
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

int64_t total_steps(const TrainSection& train, const BatchShape& batch, const SampleSet& samples) {
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
  const double needed = *train.epochs * static_cast<double>(samples.size());
  const double steps = std::ceil(needed / static_cast<double>(batch.global_batch()));
  check_most("train.epochs", steps);
  return static_cast<int64_t>(steps);
}

}  // namespace ds
