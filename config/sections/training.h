// What a DeepSpeed JSON file leaves to a Python script: which model, which data, how long to train.
// Field names inside `model` are those of Hugging Face config.json files.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/reader/fields.h"
#include "config/sections/precision.h"

namespace ds {

enum class ModelFamily : int { kGpt2, kLlama, kBert, kMoeGpt, kResNet };
std::span<const EnumName> names_of(ModelFamily);
enum class MoeMlpType : int { kStandard, kResidual };
std::span<const EnumName> names_of(MoeMlpType);

struct Gpt2Section {
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_embd = 768;
  std::optional<int64_t> n_inner;  // 4 * n_embd
  int64_t n_positions = 1024;
  int64_t vocab_size = 50257;
  std::string activation_function = "gelu_new";
  double resid_pdrop = 0.1;
  double embd_pdrop = 0.1;
  double attn_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  bool tie_word_embeddings = true;
};
void fields(Visitor& v, Gpt2Section& c);

struct LlamaSection {
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  std::optional<int64_t> num_key_value_heads;  // num_attention_heads
  int64_t hidden_size = 4096;
  std::optional<int64_t> head_dim;  // hidden_size / num_attention_heads
  int64_t intermediate_size = 11008;
  int64_t max_position_embeddings = 2048;
  int64_t vocab_size = 32000;
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  bool attention_bias = false;
  bool mlp_bias = false;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
};
void fields(Visitor& v, LlamaSection& c);

struct BertSection {
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t hidden_size = 768;
  int64_t intermediate_size = 3072;
  int64_t max_position_embeddings = 512;
  int64_t type_vocab_size = 2;
  int64_t vocab_size = 30522;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  double layer_norm_eps = 1e-12;
  double initializer_range = 0.02;
};
void fields(Visitor& v, BertSection& c);

// GPT-2 with mixture-of-experts layers; the names of the expert flags are those of DeepSpeed's MoE
// layer.
struct MoeGptSection {
  Gpt2Section gpt2;
  std::vector<int64_t> num_experts = {1};  // per MoE layer, or one number for all
  int64_t expert_interval = 2;             // every how many layers is a MoE layer
  int64_t k = 1;                           // experts per token
  double capacity_factor = 1.0;
  double eval_capacity_factor = 1.0;
  int64_t min_capacity = 4;
  double moe_loss_coeff = 0.01;
  bool drop_tokens = true;
  MoeMlpType mlp_type = MoeMlpType::kStandard;
};
void fields(Visitor& v, MoeGptSection& c);

struct ResNetSection {
  int64_t num_channels = 3;
  int64_t embedding_size = 64;
  std::vector<int64_t> hidden_sizes = {256, 512, 1024, 2048};
  std::vector<int64_t> depths = {3, 4, 6, 3};
  std::string layer_type = "bottleneck";
  int64_t image_size = 224;
  int64_t num_labels = 1000;
};
void fields(Visitor& v, ResNetSection& c);

// Exactly one of `folder` and `family`. "model": "path" in the file is short for {"folder":
// "path"}.
struct ModelSection {
  std::optional<std::string>
      folder;  // Hugging Face folder: config.json, *.safetensors, tokenizer.json
  std::optional<ModelFamily> family;
  Gpt2Section gpt2;
  LlamaSection llama;
  BertSection bert;
  MoeGptSection moe_gpt;
  ResNetSection resnet;
};
void fields(Visitor& v, ModelSection& c);

enum class DataOrder : int { kShuffled, kSequential };
std::span<const EnumName> names_of(DataOrder);

// Paths are relative to the configuration file; the resolved configuration holds absolute ones.
struct DataSection {
  std::vector<std::string> train;
  std::vector<double> weights;  // of the entries of `train`; none: every sample once an epoch
  std::vector<std::string> validation;
  double validation_fraction =
      0.0;                     // of the training tokens, from the end; only without `validation`
  std::string field = "text";  // of each JSON line
  std::optional<std::string> separator;  // after each document
  std::string tokenizer =
      "byte";  // "byte", or a tokenizer.json or a folder that holds one; silent: model.folder
  std::optional<int64_t> sequence_length;  // tokens per sample; the model's longest by default
  DataOrder order = DataOrder::kShuffled;
};
void fields(Visitor& v, DataSection& c);

enum class ResumeMode : int { kAuto, kRequired, kNever };
std::span<const EnumName> names_of(ResumeMode);

// 0 turns a periodic action off.
struct TrainSection {
  std::optional<int64_t> steps;  // optimizer steps
  std::optional<double> epochs;  // passes over the training data; one of steps and epochs
  int64_t seed = 1234;
  int64_t eval_every = 0;                       // steps
  int64_t eval_batches = 0;                     // 0: the whole validation set
  int64_t save_every = 0;                       // steps
  int64_t keep_checkpoints = 2;                 // the newest; 0 keeps all
  int64_t save_in_memory_every = 0;             // steps
  std::optional<int64_t> copy_in_memory_every;  // steps; save_in_memory_every
  int64_t log_every = 1;                        // steps between lines of metrics
  ResumeMode resume = ResumeMode::kAuto;
  std::optional<FloatType> final_dtype;  // of the weights in final/
};
void fields(Visitor& v, TrainSection& c);

}  // namespace ds
