#include "config/families/llama/phi3.h"

#include "config/families/llama/llama_like.h"
#include "config/families/spec/hf_object.h"

namespace ds {

void fields(Visitor& v, Phi3Config& c) {
  llama_like::fields(v, c);
  v.field("original_max_position_embeddings", c.original_max_position_embeddings,
          {.meaning = "Positions that the model was trained to before, with longrope.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kMostPositions});
  llama_like::dropout_field(v, "resid_pdrop", c.resid_pdrop,
                            "Dropout of what attention and the MLP give.");
}

template struct LlamaLike<Phi3Config>;

std::vector<SizeConflict> Family<Phi3Config>::size_conflicts(const Phi3Config& c) {
  std::vector<SizeConflict> found = llama_like::size_conflicts(c);
  if (c.rope_scaling && c.rope_scaling->rope_type != "longrope" &&
      c.rope_scaling->rope_type != "default") {
    found.push_back({"rope_scaling.rope_type",
                     fmt::format("\"{}\", expected longrope: transformers has no other for a Phi-3",
                                 c.rope_scaling->rope_type)});
  }
  return found;
}

TransformerSpec Family<Phi3Config>::transformer(const Phi3Config& c) {
  TransformerSpec spec = llama_like::transformer(c, {});
  spec.attention.joined = JoinedProjections{.name = "qkv_proj"};
  spec.mlp.joined = JoinedProjections{.name = "gate_up_proj"};
  if (c.sliding_window) spec.window = SlidingWindow{.keys = *c.sliding_window};
  spec.attention_out_dropout = spec.mlp_dropout = c.resid_pdrop;
  spec.dropout_places = 3;
  return spec;
}

void Family<Phi3Config>::read_rest(const HfObject& object, Phi3Config& c) {
  llama_like::RotaryWords words = llama_like::rotary_words(c);
  words.is_longrope_by_old_names = true;
  llama_like::read_rotary_words(object, words);
  if (c.rope_scaling &&
      c.rope_scaling->original_max_position_embeddings == c.original_max_position_embeddings) {
    c.rope_scaling->original_max_position_embeddings.reset();  // it is said once
  }
  llama_like::refuse_other_head_dim(object, c);
}

}  // namespace ds
