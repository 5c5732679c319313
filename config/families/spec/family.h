// What a family of models says of itself. A family is a plain struct with the words of its Hugging
// Face config.json, its fields(), and a specialisation of Family that has the members below; it is
// added to list.h, and everything else visits that list.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/families/spec/transformer_spec.h"

namespace ds {

class HfObject;
class Visitor;

// What every family has; what is not given is derived, once.
struct ModelDimensions {
  int64_t vocabulary = 0;
  int64_t positions = 0;  // longest sequence
  int64_t width = 0;      // of the residual stream
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t inner = 0;             // of the MLP
  double attention_dropout = 0;  // of probabilities, in training
};

// Sizes that do not fit each other: the key that is refused, and why.
struct SizeConflict {
  std::string_view key;
  std::string why;
};

// Another name that transformers takes for a key.
struct HfAlias {
  std::string_view other;
  std::string_view key;
};

// The classes of Hugging Face's model; an unnamed norm, embedding or list has PyTorch's.
struct HfClasses {
  std::string_view model;  // "LlamaForCausalLM", as config.json has it under "architectures"
  std::string_view body;   // "LlamaModel"
  std::string_view block;  // "LlamaDecoderLayer"
  std::string_view attention;
  std::string_view mlp;
  std::string_view norm;
  std::string_view linear = "Linear";
  // "BertForPreTraining": a class with the head of `model` and others, which are left out. Empty:
  // there is none.
  std::string_view with_other_heads = {};
  std::string_view headless = {};  // "OPTModel", which has no head; empty: that is `body`
};

// template <> struct Family<LlamaConfig> {
//   static constexpr std::string_view kName = "llama";  // in "model.family", and "model_type"
//   static constexpr HfClasses kClasses{...};
//   static constexpr std::string_view kLayersKey = "num_hidden_layers";
//   static std::span<const HfAlias> aliases();
//   // Sizes that no check has passed yet may be out of their range.
//   static ModelDimensions dimensions(const LlamaConfig&);
//   static void set_dimensions(LlamaConfig&, const ModelDimensions&);
//   // Sizes out of their own range are passed over.
//   static std::vector<SizeConflict> size_conflicts(const LlamaConfig&);
//   static TransformerSpec transformer(const LlamaConfig&);
//   // What config.json says beside the fields, and changes results: read, or refused by name.
//   static void read_rest(const HfObject&, LlamaConfig&);
// };
template <class Config>
struct Family;

// The members of Family<> that families have in common whose config.json has Llama's words. They
// are defined in llama_like.h, and instantiated in the source of each.
template <class Config>
struct LlamaLike {
  static constexpr std::string_view kLayersKey = "num_hidden_layers";
  static std::span<const HfAlias> aliases() { return {}; }
  static ModelDimensions dimensions(const Config& c);
  static void set_dimensions(Config& c, const ModelDimensions& dims);
  static std::vector<SizeConflict> size_conflicts(const Config& c);
};

// For size_conflicts(). A number below 1 is out of its own range.
void add_unless_divides(std::vector<SizeConflict>& to, std::string_view key, int64_t part,
                        int64_t whole, std::string_view of);

}  // namespace ds
