// The families of models that this build has, and what is asked of a model whatever its family.
// Whoever adds one adds a line to FamilyConfig. Includes no reader: whoever builds a model needs
// none.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "config/families/bert/bert.h"
#include "config/families/bert/distilbert.h"
#include "config/families/bert/modernbert.h"
#include "config/families/bert/roberta.h"
#include "config/families/bert/xlm_roberta.h"
#include "config/families/gemma/gemma.h"
#include "config/families/gemma/gemma2.h"
#include "config/families/gemma/gemma3.h"
#include "config/families/gpt/gpt2.h"
#include "config/families/gpt/gpt_neox.h"
#include "config/families/gpt/opt.h"
#include "config/families/llama/granite.h"
#include "config/families/llama/llama.h"
#include "config/families/llama/mistral.h"
#include "config/families/llama/olmo2.h"
#include "config/families/llama/olmo3.h"
#include "config/families/llama/phi3.h"
#include "config/families/llama/qwen2.h"
#include "config/families/llama/qwen3.h"
#include "config/families/llama/smollm3.h"
#include "config/families/llama/stablelm.h"
#include "config/families/llama/starcoder2.h"
#include "config/families/moe/mixtral.h"
#include "config/families/moe/olmoe.h"
#include "config/families/moe/qwen2_moe.h"
#include "config/families/moe/qwen3_moe.h"
#include "config/families/spec/adapters.h"
#include "config/families/spec/classifier.h"

namespace ds {

using FamilyConfig = std::variant<Gpt2Config,        //
                                  LlamaConfig,       //
                                  MistralConfig,     //
                                  Qwen2Config,       //
                                  Qwen3Config,       //
                                  GemmaConfig,       //
                                  Gemma2Config,      //
                                  GraniteConfig,     //
                                  Gemma3Config,      //
                                  Phi3Config,        //
                                  SmolLM3Config,     //
                                  StableLmConfig,    //
                                  Starcoder2Config,  //
                                  GptNeoXConfig,     //
                                  OptConfig,         //
                                  BertConfig,        //
                                  RobertaConfig,     //
                                  Olmo2Config,       //
                                  Olmo3Config,       //
                                  ModernBertConfig,  //
                                  XlmRobertaConfig,  //
                                  DistilBertConfig,  //
                                  MixtralConfig,     //
                                  Qwen2MoeConfig,    //
                                  Qwen3MoeConfig,    //
                                  OlmoeConfig>;

struct Teacher;

// A model: its family's words and, unless it is trained to tell tokens, the classes that it scores.
struct ModelConfig : FamilyConfig {
  using FamilyConfig::FamilyConfig;
  std::optional<Classifier> classifier{};
  std::optional<PairHead> pairs{};           // beside tokens, not with a classifier
  std::optional<AdapterSpec> adapters{};     // of a model whose own weights are frozen
  std::shared_ptr<const Teacher> teacher{};  // null: it learns from texts alone
};

// A model that another one learns from, which stays as it is.
struct Teacher {
  ModelConfig model;
  std::string folder;
};

namespace detail {

template <class Variant>
struct EachOf;
template <class... Config>
struct EachOf<std::variant<Config...>> {
  using Tuple = std::tuple<Config...>;
};

}  // namespace detail

// One of each family.
using FamilyConfigs = detail::EachOf<FamilyConfig>::Tuple;

// A family's place in FamilyConfig; those that are planned, and not built, are below 0.
enum class ModelFamily : int { kMoeGpt = -2, kResNet };
struct EnumName;
std::span<const EnumName> names_of(ModelFamily);
std::vector<std::string_view> built_families();           // their names
std::string_view family_name(const ModelConfig& config);  // "gpt2"

ModelDimensions dimensions(const ModelConfig& config);
// The same model with these sizes.
ModelConfig with_dimensions(const ModelConfig& config, const ModelDimensions& dims);
TransformerSpec transformer_spec(const ModelConfig& config);
// Whether tokens see those before them alone.
bool is_causal(const ModelConfig& config);
// Whether it is trained to tell next tokens; otherwise it tells masked ones, or classes.
bool predicts_next(const ModelConfig& config);
// Unsupported, with the word of who asks, for a model that predicts no next token.
void require_causal(const ModelConfig& config, std::string_view what);
HfClasses hf_classes(const ModelConfig& config);
// The class of the whole model: "BertForMaskedLM", "BertForSequenceClassification",
// "BertForTokenClassification" or "BertForPreTraining".
std::string hf_model_class(const ModelConfig& config);
// One of the latter three, of a family.
std::string classifier_class(const HfClasses& classes, ClassifierTask task);
// What a head for a task scores, in words: "classes of texts".
std::string_view scored_words(ClassifierTask task);
// Whether the family can score these.
bool has_classifier(const ModelConfig& config, ClassifierTask task);
// The modules by which the model scores classes; nothing if it scores none.
std::optional<ClassifierSpec> classifier_spec(const ModelConfig& config);
// The modules of the head that scores classes, or tells of pairs; none: it has no such head.
std::vector<std::string> classifier_modules(const ModelConfig& config);
std::string_view layers_key(const ModelConfig& config);  // of the number of blocks: "n_layer"
// The list of the blocks, as their parameters are named: "transformer.h".
std::string block_list(const ModelConfig& config);
std::string token_table(const ModelConfig& config);  // "transformer.wte.weight"
bool ties_embeddings(const ModelConfig& config);     // the head's weight is the embedding's table

// Names of the modules that hold everything but the head, in all families: "transformer".
std::vector<std::string_view> model_bodies();
// Those of heads that are not the table of tokens: "lm_head".
std::vector<std::string_view> model_heads();
// Whether a parameter of this name is the table of tokens in some family.
bool is_token_table(std::string_view parameter);

std::vector<SizeConflict> size_conflicts(const ModelConfig& config);

// Throws ConfigError ("model.n_head: 3 does not divide ...", the first word being `where`) for a
// size out of its range or that does not fit the others, Unsupported for a name that this build
// does not have.
void check(const ModelConfig& config, std::string_view where = "model.");

}  // namespace ds
