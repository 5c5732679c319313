// What a transformer of language is made of, as far as families differ in it: names of modules,
// norms, projections, positions, what queries see. model/families/transformer_block.h builds a
// block from it, and whoever asks where in a model something is (partition rules, profiles, Hugging
// Face folders) asks here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/families/spec/classifier.h"
#include "config/families/spec/experts.h"
#include "config/families/spec/rotary.h"

namespace ds {

// Names of modules as Hugging Face's model has them, which may be paths ("encoder.layer"); the name
// of a parameter is the path to it. An empty name of a branch is that of the block itself, and an
// empty name of a table or a norm says that there is none.
struct TransformerNames {
  std::string_view body;             // "model"; below the root
  std::string_view blocks;           // "layers"; a list in the body
  std::string_view table;            // "embed_tokens"; in the body
  std::string_view positions = {};   // "wpe"; in the body
  std::string_view segments = {};    // "embeddings.token_type_embeddings"; in the body
  std::string_view table_norm = {};  // of what is looked up; in the body
  // Linear layers without a bias, where the table of tokens is of another width than the blocks: of
  // what is looked up in it, and of what the head reads; in the body.
  std::string_view projection_in = {};   // "project_in"
  std::string_view projection_out = {};  // "project_out"
  std::string_view last_norm = {};       // "norm"; in the body
  std::string_view head = "lm_head";     // below the root, where it is not the table of tokens
  std::string_view attention;            // "self_attn"; in a block
  std::string_view mlp;                  // "mlp"; in a block
  std::string_view attention_norm = {};  // "input_layernorm"; in a block, before attention
  std::string_view mlp_norm = {};        // "post_attention_layernorm"; in a block, before the MLP
  // Norms of what attention and the MLP give, before it is added to the residual stream.
  std::string_view attention_out_norm = {};
  std::string_view mlp_out_norm = {};
  // Norms of that sum, which is the stream from then on (Vaswani et al., arXiv 1706.03762).
  std::string_view attention_sum_norm = {};
  std::string_view mlp_sum_norm = {};
};

// A linear layer of attention or the MLP.
struct ProjectionSpec {
  std::string_view name;
  bool has_bias = false;
};

// How a Hugging Face folder stores the rows of several projections as those of one.
enum class JoinOrder : uint8_t {
  kOneByOne,    // all of the first, then all of the next
  kHeadByHead,  // those of the first head of each, then those of the next head
};
struct JoinedProjections {
  std::string_view name;  // "qkv_proj"; a module in the branch
  JoinOrder order = JoinOrder::kOneByOne;
};

struct BranchSpec {
  // What they give lies side by side: queries, keys and values, or one that gives all three; gate
  // and up, or up alone.
  std::vector<ProjectionSpec> in;
  ProjectionSpec out;
  std::optional<JoinedProjections> joined = {};  // of `in`; unset: each is stored by itself
};

// What the MLP of a block reads.
enum class MlpInput : uint8_t {
  kAfterAttention,   // the residual stream with what attention gave
  kBesideAttention,  // the residual stream that attention reads (Wang and Komatsuzaki, GPT-J, 2021)
  kAsAttention,      // the same, behind the very norm of attention, and it has none of its own
};

enum class NormKind : uint8_t {
  kLayer,
  kLayerUnbiased,  // which has a weight alone
  kRms,
  kRmsOnePlus,  // whose weight w multiplies by 1 + w
};

struct NormsSpec {
  NormKind kind = NormKind::kRms;
  double eps = 1e-6;
  bool skips_first = false;  // attention of the first block reads the embedding, which has a norm
};

// Norms of queries and of keys before they turn (Henry et al., arXiv 2010.04245). The names are of
// modules in a block's attention.
struct HeadNorms {
  enum class Extent : uint8_t {
    kEachHead,  // head by head, with weights as wide as a head
    kEachOwn,   // head by head, each with weights of its own, in a list of modules
    kAllHeads,  // of all queries of a token together, and of its keys
  };
  std::string_view queries, keys;
  Extent extent = Extent::kEachHead;
  std::optional<NormKind> kind = {};  // without biases; unset: that of the other norms
};

// Queries see the last `keys` keys, their own included (Beltagy et al., arXiv 2004.05150), and as
// many behind it where attention goes to both sides, in layers from first_layer on, but in every so
// many-th, which sees all keys.
struct SlidingWindow {
  int64_t keys = 0;
  int64_t first_layer = 0;
  int64_t full_every = 0;                  // 0: in none of them
  std::optional<int64_t> first_full = {};  // the first of those; unset: full_every - 1
  // Which layers see all keys, one by one, whatever the numbers say; empty: as they say. It goes
  // on as it began.
  std::vector<bool> full_layers = {};

  bool is_of(int64_t layer) const {
    if (!full_layers.empty()) return !full_layers[static_cast<size_t>(layer) % full_layers.size()];
    const bool is_full =
        full_every > 0 && (layer - first_full.value_or(full_every - 1)) % full_every == 0;
    return !is_full && layer >= first_layer;
  }
};

enum class FactorPrecision : uint8_t {
  kFull,
  kOfWeights,  // the factor is rounded to the dtype of the weights before it multiplies
};

// Which keys queries see, but for windows.
enum class AttentionKind : uint8_t {
  kCausal,         // those up to their own
  kBidirectional,  // all (Devlin et al., arXiv 1810.04805)
};

struct TableSpec {
  int64_t width = 0;           // of the table of tokens and of the head; 0: that of the blocks
  int64_t segments = 0;        // rows of the table of segments
  int64_t first_position = 0;  // the row of the table of positions that a sequence begins with
};

// What lies between the last block and the product that gives logits: a linear layer with a bias,
// an activation and a norm (Devlin et al., appendix A.2). Its modules are below the root.
struct HeadTransform {
  std::string_view linear;
  std::string_view norm = {};  // empty: none
  std::string activation = "gelu";
  bool has_bias = true;  // of the linear layer
  double deviation = 0;  // of its first weights; 0: that of all others
};

// The row of a sample that is scored in its stead, or that each row is scored by itself.
enum class ScoredRow : uint8_t {
  kFirst,
  kLast,  // the last that is no padding
  kMean,  // the first, in which the mean of all that are no padding stands
  kEach,
};

// The modules below the root by which a family scores classes.
struct ClassifierSpec {
  std::optional<HeadTransform> transform = {};
  std::string_view scores;             // a linear layer
  bool has_bias = true;                // of that layer
  double deviation = 0;                // of its first weights; 0: that of all others
  std::optional<double> dropout = {};  // of what it reads, if Classifier says nothing; unset: never
  bool drops_first = false;            // what the transform reads is dropped, too
  ScoredRow row = ScoredRow::kFirst;
};
struct ClassifierSpecs {
  std::optional<ClassifierSpec> texts = {};   // unset: the family scores no texts
  std::optional<ClassifierSpec> tokens = {};  // unset: it scores no tokens
  std::optional<ClassifierSpec> pairs = {};   // unset: it tells of no pairs
};

// What values are multiplied by on their way through a model.
struct TransformerFactors {
  double embedding = 1;
  FactorPrecision embedding_precision = FactorPrecision::kFull;
  double branch = 1;  // what attention and the MLP add to the residual stream
  double logits = 1;
};

// Scores s of attention become c tanh(scale s / c) with a cap c, or scale s without one.
struct ScoreSpec {
  double scale = 0;       // 0: 1 / sqrt(head_dim)
  double softcap = 0;     // 0: none
  bool by_layer = false;  // the scale is divided by the number of the layer, from 1
};

struct HeadSpec {
  std::optional<HeadTransform> transform = {};
  std::string_view bias = {};  // a module below the root with a bias of logits; empty: none
  double logits_softcap = 0;   // c: logits become c tanh(logit / c); 0: they stay
  int64_t classes = 0;         // that logits are of; 0: of tokens
  ClassifierProblem problem = ClassifierProblem::kOneClass;  // if they are of classes
  bool pools_mean = false;  // the mean of a sample's rows is what the transform reads
  double deviation = 0;     // of the first weights of what gives them; 0: that of all others
  double dropout_before = 0, dropout_behind = 0;  // of what the transform reads and gives
};

// The head that stands beside the other one, and reads the first row of a sample.
struct PairHeadSpec {
  HeadSpec head;
  std::string_view scores;  // a module below the root
};

// Which layers have no rotary positions.
struct UnrotatedLayers {
  int64_t every = 0;  // every so many-th; 0: none
  // Whether each has none, one by one, whatever the number says; empty: as it says. It goes on as
  // it began.
  std::vector<bool> layers = {};

  bool is_of(int64_t layer) const {
    if (!layers.empty()) return layers[static_cast<size_t>(layer) % layers.size()];
    return every > 0 && (layer + 1) % every == 0;
  }
};

struct TransformerSpec {
  TransformerNames names;
  NormsSpec norms = {};
  BranchSpec attention, mlp;
  std::optional<ExpertsSpec> experts = {};  // of layers that have some in the MLP's place
  MlpInput mlp_input = MlpInput::kAfterAttention;
  bool inputs_first = false;  // weights are [in, out] (GPT-2's Conv1D), and not [out, in]
  bool has_gate = true;       // the MLP is act(gate(x)) * up(x)
  std::string activation = "silu";
  std::optional<HeadNorms> head_norms = {};
  std::optional<RotarySpec> rotary = {};
  std::optional<RotarySpec> window_rotary =
      {};  // of layers with a window; unset: that of the others
  UnrotatedLayers unrotated = {};
  ScoreSpec scores = {};
  TransformerFactors factors = {};
  HeadSpec head = {};
  std::optional<PairHeadSpec> pair_head = {};  // unset: there is none
  ClassifierSpecs classifiers = {};
  TableSpec tables = {};
  AttentionKind attention_kind = AttentionKind::kCausal;
  std::optional<SlidingWindow> window = {};  // unset: queries see all keys of their kind
  double initializer_range = 0.02;           // standard deviation
  // What adds to the residual stream starts with 1 / sqrt(2 layers) of it, so that the stream's
  // variance does not grow with depth (GPT-2 paper, section 2.3).
  bool scales_branches = false;
  double embedding_dropout = 0;
  double attention_out_dropout = 0, mlp_dropout = 0;  // of what they give
  // Places in a block where something may be dropped; masks depend on the number of the place.
  int64_t dropout_places = 1;
};

}  // namespace ds
