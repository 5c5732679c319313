// What a DeepSpeed JSON file leaves to a Python script: which model, which data, how long to train,
// over what ranks talk, how much memory they may take.
// The families of models are in config/families.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/families/list.h"
#include "config/families/planned.h"
#include "config/reader/fields.h"
#include "config/sections/objectives/distillation.h"
#include "config/sections/precision.h"
#include "config/sections/supervised.h"

namespace ds {

// Exactly one of `folder` and `family`. "model": "path" in the file is short for {"folder":
// "path"}.
struct ModelSection {
  std::optional<std::string>
      folder;  // Hugging Face folder: config.json, *.safetensors, tokenizer.json
  std::optional<ModelFamily> family;
  std::vector<std::string>
      labels;  // of the classes that a head of its own scores; none: the model's
  std::optional<ClassifierTask> task;  // of whom those are; silent: the folder's, or of texts
  std::optional<ClassifierProblem> problem_type;  // silent: the folder's, or problem_of(labels)
  FamilyConfigs built;  // one of which `family` names, if it is no planned one
  MoeGptConfig moe_gpt;
  ResNetConfig resnet;
};
void fields(Visitor& v, ModelSection& c);
// The model that a section describes; nothing if it names a folder, no family or a planned one.
std::optional<ModelConfig> described_model(const ModelSection& c);

enum class DataOrder : int { kShuffled, kSequential };
std::span<const EnumName> names_of(DataOrder);

// How samples of a model that sees both sides are masked. The names are those of transformers'
// DataCollatorForLanguageModeling.
struct MaskedLmConfig {
  double mlm_probability = 0.15;
  double mask_replace_prob = 0.8, random_replace_prob = 0.1;  // of the tokens that are chosen
  bool whole_word_mask = false;
  std::optional<int64_t> mask_token_id;  // the tokenizer's mask_token
};
void fields(Visitor& v, MaskedLmConfig& c);

// How pairs of texts are made for a model that tells whether one goes on where another ends.
struct NextSentenceConfig {
  double random_next_prob = 0.5;
  double short_seq_prob = 0.1;
};
void fields(Visitor& v, NextSentenceConfig& c);

// The fields of JSON lines, or columns, that have texts and their classes.
struct ClassificationConfig {
  std::string text = "text";
  std::optional<std::string> text_pair;
  std::string label = "label";
};
void fields(Visitor& v, ClassificationConfig& c);

// The fields of JSON lines that have words and their classes, and which tokens of a word count. The
// names are those of transformers' run_ner.
struct TokenClassificationConfig {
  std::string tokens = "tokens";
  std::string labels = "ner_tags";
  bool label_all_tokens = false;
  bool add_prefix_space = true;
};
void fields(Visitor& v, TokenClassificationConfig& c);

// Paths are relative to the configuration file; the resolved configuration holds absolute ones.
struct DataSection {
  std::vector<std::string> train;
  std::vector<double> weights;  // of the entries of `train`; none: every sample once an epoch
  std::vector<std::string> validation;
  double validation_fraction =
      0.0;                     // of the training tokens, from the end; only without `validation`
  std::string field = "text";  // of each JSON line
  std::optional<std::string> separator;  // after each document
  std::optional<int64_t> eod_token_id;   // the id of the token that ends documents
  bool reset_attention_mask = false;
  bool reset_position_ids = false;
  bool eod_mask_loss = false;
  SupervisedData supervised;
  std::optional<MaskedLmConfig> masked_lm;
  std::optional<NextSentenceConfig> next_sentence;
  std::optional<ClassificationConfig> classification;
  std::optional<TokenClassificationConfig> token_classification;
  std::string tokenizer =
      "byte";  // "byte", a file of a tokenizer or a folder that holds one; silent: model.folder
  std::optional<std::string> cache_folder;  // of token ids; empty: none
  std::optional<int64_t> sequence_length;   // tokens per sample; the model's longest by default
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
  // Patterns of names of parameters, as in optimizer.param_groups: what trains, none: all of it;
  // and what of that does not.
  std::vector<std::string> train_only, freeze;
  std::optional<DistillationConfig> distillation;  // none: the model has no teacher
  int64_t eval_every = 0;                          // steps
  int64_t eval_batches = 0;                        // 0: the whole validation set
  std::optional<std::string> sample_prompt;        // after evaluations, what the model goes on with
  std::optional<int64_t> sample_length;            // tokens, the prompt's included
  int64_t save_every = 0;                          // steps
  bool save_at_end = true;
  int64_t keep_checkpoints = 2;                 // the newest; 0 keeps all
  bool keep_best = false;                       // by the validation loss, beside the newest
  int64_t early_stopping_patience = 0;          // evaluations; 0: all steps are made
  double early_stopping_threshold = 0;          // by which a loss has to be less than the least
  int64_t save_in_memory_every = 0;             // steps
  std::optional<int64_t> copy_in_memory_every;  // steps; save_in_memory_every
  int64_t log_every = 1;                        // steps between lines of metrics
  bool cuda_graphs = true;
  bool allow_tf32 = false;
  bool tune_matmul = false;
  bool deterministic_attention = true;
  bool offload_activations = false;
  ResumeMode resume = ResumeMode::kAuto;
  std::optional<std::string> resume_from;  // a checkpoint of DeepSpeed, with which training begins
  std::optional<FloatType> final_dtype;    // of the weights in final/
};
void fields(Visitor& v, TrainSection& c);

// Over what ranks talk to each other; torch.distributed calls it backend, too. What each value
// needs is for the launcher to know, which starts the ranks (launcher/decide/data_plane.h).
enum class CommunicationBackend : int { kAuto, kShm, kTcp, kMpi, kNccl };
std::span<const EnumName> names_of(CommunicationBackend);

struct CommunicationSection {
  CommunicationBackend backend = CommunicationBackend::kAuto;
};
void fields(Visitor& v, CommunicationSection& c);

// What each rank may take of the machine: sizes, "4GiB".
struct MemorySection {
  std::optional<std::string> device_limit;
  std::optional<std::string> host_limit;
};
void fields(Visitor& v, MemorySection& c);

}  // namespace ds
