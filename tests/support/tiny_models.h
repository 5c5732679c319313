// Models that are small enough for every bit of them to be looked at.
#pragma once

#include <variant>
#include <vector>

#include "config/families/list.h"

namespace ds::testing {

inline constexpr int64_t kTinyVocabulary = 23;

inline Gpt2Config tiny_gpt2(int64_t layers, double dropout = 0) {
  Gpt2Config c;
  c.vocab_size = kTinyVocabulary;
  c.n_positions = 12;
  c.n_embd = 16;
  c.n_layer = layers;
  c.n_head = 4;
  c.resid_pdrop = c.embd_pdrop = c.attn_pdrop = dropout;
  c.initializer_range = 0.2;  // large enough that no gradient drowns in rounding
  return c;
}

// A model of a family whose config.json has Llama's words.
template <class Config>
Config tiny_like_llama(int64_t layers) {
  Config c;
  c.vocab_size = kTinyVocabulary;
  c.max_position_embeddings = 12;
  c.hidden_size = 16;
  c.intermediate_size = 24;
  c.num_hidden_layers = layers;
  c.num_attention_heads = 4;
  if constexpr (requires { c.num_key_value_heads; }) c.num_key_value_heads = 2;
  c.initializer_range = 0.2;
  return c;
}

inline LlamaConfig tiny_llama(int64_t layers) { return tiny_like_llama<LlamaConfig>(layers); }

inline OptConfig tiny_opt(int64_t layers) {
  OptConfig c;
  c.vocab_size = kTinyVocabulary;
  c.max_position_embeddings = 12;
  c.hidden_size = 16;
  c.ffn_dim = 24;
  c.num_hidden_layers = layers;
  c.num_attention_heads = 4;
  c.dropout = 0;
  c.activation_function = "gelu";  // which has a gradient everywhere
  c.init_std = 0.2;
  return c;
}

template <class Config>
Config tiny_like_bert(int64_t layers) {
  Config c;
  c.vocab_size = kTinyVocabulary;
  c.max_position_embeddings = 12;
  c.hidden_size = 16;
  c.intermediate_size = 24;
  c.num_hidden_layers = layers;
  c.num_attention_heads = 4;
  c.hidden_dropout_prob = c.attention_probs_dropout_prob = 0;
  c.layer_norm_eps = 1e-5;
  c.initializer_range = 0.2;
  return c;
}

inline DistilBertConfig tiny_distilbert(int64_t layers) {
  DistilBertConfig c;
  c.vocab_size = kTinyVocabulary;
  c.max_position_embeddings = 12;
  c.dim = 16;
  c.hidden_dim = 24;
  c.n_layers = layers;
  c.n_heads = 4;
  c.dropout = c.attention_dropout = 0;
  c.initializer_range = 0.2;
  return c;
}

inline ModernBertConfig tiny_modernbert(int64_t layers) {
  ModernBertConfig c;
  c.vocab_size = kTinyVocabulary;
  c.max_position_embeddings = 12;
  c.hidden_size = 16;
  c.intermediate_size = 24;
  c.num_hidden_layers = layers;
  c.num_attention_heads = 4;
  c.local_attention = 4;  // two keys on either side
  c.global_attn_every_n_layers = 2;
  c.local_rope_theta = 10;
  c.initializer_range = 0.2;
  return c;
}

inline Olmo3Config tiny_olmo3(int64_t layers) {
  auto c = tiny_like_llama<Olmo3Config>(layers);
  c.sliding_window = 3;
  c.rope_scaling = RopeScaling{.rope_type = "linear", .factor = 2};
  return c;
}

inline GraniteConfig tiny_granite(int64_t layers) {
  auto c = tiny_like_llama<GraniteConfig>(layers);
  c.hidden_act = "gelu";
  c.embedding_multiplier = 2.5;
  c.attention_multiplier = 0.4;
  c.residual_multiplier = 0.7;
  c.logits_scaling = 1.5;
  return c;
}

inline MixtralConfig tiny_mixtral(int64_t layers) {
  auto c = tiny_like_llama<MixtralConfig>(layers);
  c.num_local_experts = 4;
  return c;
}

// The first layer has an MLP, and the others experts.
inline Qwen2MoeConfig tiny_qwen2_moe(int64_t layers) {
  auto c = tiny_like_llama<Qwen2MoeConfig>(layers);
  c.num_experts = 5;
  c.num_experts_per_tok = 3;
  c.moe_intermediate_size = 10;
  c.shared_expert_intermediate_size = 14;
  c.mlp_only_layers = {0};
  return c;
}

inline Qwen3MoeConfig tiny_qwen3_moe(int64_t layers) {
  auto c = tiny_like_llama<Qwen3MoeConfig>(layers);
  c.head_dim = 6;
  c.num_experts = 6;
  c.num_experts_per_tok = 2;
  c.moe_intermediate_size = 10;
  c.norm_topk_prob = true;
  c.decoder_sparse_step = 2;
  return c;
}

inline OlmoeConfig tiny_olmoe(int64_t layers) {
  auto c = tiny_like_llama<OlmoeConfig>(layers);
  c.num_experts = 6;
  c.num_experts_per_tok = 3;
  return c;
}

// Each token goes through all experts there: which it goes through changes by leaps, and rounding
// decides of some.
inline ModelConfig with_all_experts(ModelConfig model) {
  std::visit(
      [](auto& c) {
        if constexpr (requires { c.num_local_experts; }) {
          c.num_experts_per_tok = c.num_local_experts;
        } else if constexpr (requires { c.num_experts; }) {
          c.num_experts_per_tok = c.num_experts;
        }
      },
      static_cast<FamilyConfig&>(model));
  return model;
}

// One model of each family.
inline std::vector<ModelConfig> tiny_models(int64_t layers) {
  auto mistral = tiny_like_llama<MistralConfig>(layers);
  mistral.sliding_window = 3;
  auto qwen2 = tiny_like_llama<Qwen2Config>(layers);
  qwen2.use_sliding_window = true;
  qwen2.sliding_window = 2;
  qwen2.max_window_layers = layers - 1;  // the last one has it
  auto qwen3 = tiny_like_llama<Qwen3Config>(layers);
  qwen3.head_dim = 6;  // wider than the hidden state divided by the heads
  auto gemma = tiny_like_llama<GemmaConfig>(layers);
  gemma.head_dim = 6;
  auto gemma2 = tiny_like_llama<Gemma2Config>(layers);
  gemma2.head_dim = 6;
  gemma2.sliding_window = 2;
  gemma2.query_pre_attn_scalar = 5;
  gemma2.attn_logit_softcapping = 3;  // low enough to matter
  gemma2.final_logit_softcapping = 5;
  auto gemma3 = tiny_like_llama<Gemma3Config>(layers);
  gemma3.head_dim = 6;
  gemma3.sliding_window = 2;
  gemma3.sliding_window_pattern = 2;
  gemma3.rope_local_base_freq = 10;
  gemma3.query_pre_attn_scalar = 5;
  auto phi3 = tiny_like_llama<Phi3Config>(layers);
  phi3.partial_rotary_factor = 0.5;
  auto smollm3 = tiny_like_llama<SmolLM3Config>(layers);
  smollm3.no_rope_layer_interval = 2;
  auto stablelm = tiny_like_llama<StableLmConfig>(layers);
  stablelm.partial_rotary_factor = 0.5;
  stablelm.use_qkv_bias = true;
  auto starcoder2 = tiny_like_llama<Starcoder2Config>(layers);
  starcoder2.sliding_window = 3;
  auto gpt_neox = tiny_like_llama<GptNeoXConfig>(layers);
  gpt_neox.rotary_pct = 0.5;
  auto roberta = tiny_like_bert<RobertaConfig>(layers);
  roberta.max_position_embeddings = 14;  // two of which are none of a token
  roberta.hidden_act = "gelu_new";       // its head has gelu all the same
  auto xlm = tiny_like_bert<XlmRobertaConfig>(layers);
  xlm.max_position_embeddings = 14;
  return {tiny_gpt2(layers),
          tiny_llama(layers),
          mistral,
          qwen2,
          qwen3,
          gemma,
          gemma2,
          tiny_granite(layers),
          gemma3,
          phi3,
          smollm3,
          stablelm,
          starcoder2,
          gpt_neox,
          tiny_opt(layers),
          tiny_like_bert<BertConfig>(layers),
          roberta,
          tiny_like_llama<Olmo2Config>(layers),
          tiny_olmo3(layers),
          tiny_modernbert(layers),
          xlm,
          tiny_distilbert(layers),
          tiny_mixtral(layers),
          tiny_qwen2_moe(layers),
          tiny_qwen3_moe(layers),
          tiny_olmoe(layers)};
}

}  // namespace ds::testing
