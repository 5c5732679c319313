// The shapes of models that training is measured on, by name; without dropout.
#pragma once

#include <string>

#include "config/families/list.h"
#include "core/status/error.h"

namespace ds::bench {

inline Gpt2Config gpt2_shape(int64_t layers, int64_t heads, int64_t width) {
  Gpt2Config c;
  c.n_layer = layers;
  c.n_head = heads;
  c.n_embd = width;
  c.resid_pdrop = c.embd_pdrop = c.attn_pdrop = 0;
  return c;
}

// Qwen3's smallest model (arXiv 2505.09388), and a Llama of just that shape: they differ in the
// norms of queries and keys alone.
template <class Config>
Config shape_of_600m() {
  Config c;
  c.num_hidden_layers = 28;
  c.num_attention_heads = 16;
  c.num_key_value_heads = 8;
  c.head_dim = 128;
  c.hidden_size = 1024;
  c.intermediate_size = 3072;
  c.vocab_size = 151936;
  c.tie_word_embeddings = true;
  return c;
}

inline ModelConfig shape_named(const std::string& name) {
  if (name == "gpt2-124m") return gpt2_shape(12, 12, 768);
  if (name == "gpt2-1558m") return gpt2_shape(48, 25, 1600);
  if (name == "gpt2-2x128") {  // steps of some 9 ms, of bytes
    Gpt2Config c = gpt2_shape(2, 4, 128);
    c.vocab_size = 256;
    return c;
  }
  if (name == "llama-110m") {  // GPT-2's smallest, as a Llama
    LlamaConfig llama;
    llama.num_hidden_layers = 12;
    llama.num_attention_heads = 12;
    llama.hidden_size = 768;
    llama.intermediate_size = 2048;
    llama.vocab_size = 32000;
    return llama;
  }
  if (name == "qwen3-0.6b") return shape_of_600m<Qwen3Config>();
  if (name == "llama-0.6b") return shape_of_600m<LlamaConfig>();
  LlamaConfig llama;  // of 7B, as it stands
  if (name == "llama-7b") return llama;
  if (name == "llama-1.5b") {  // few keys, a wide MLP and a large vocabulary
    llama.num_hidden_layers = 28;
    llama.num_attention_heads = 12;
    llama.num_key_value_heads = 2;
    llama.hidden_size = 1536;
    llama.intermediate_size = 8960;
    llama.vocab_size = 151936;
    llama.tie_word_embeddings = true;
    return llama;
  }
  if (name == "moe-8" || name == "moe-64") {  // two experts of a token, of 8 or of 64
    Qwen3MoeConfig moe;
    moe.num_hidden_layers = 4;
    moe.num_attention_heads = 8;
    moe.num_key_value_heads = 8;
    moe.head_dim = 64;
    moe.hidden_size = 512;
    moe.vocab_size = 1024;
    moe.num_experts = name == "moe-8" ? 8 : 64;
    moe.num_experts_per_tok = 2;
    moe.moe_intermediate_size = 1024;
    moe.norm_topk_prob = true;
    return moe;
  }
  if (name == "tiny") {
    Gpt2Config c = gpt2_shape(1, 2, 32);
    c.n_positions = 64;
    c.vocab_size = 64;
    return c;
  }
  throw ConfigError(
      fmt::format("--model {}: expected gpt2-124m, gpt2-1558m, gpt2-2x128, llama-0.6b, llama-110m, "
                  "llama-1.5b, llama-7b, moe-8, moe-64, qwen3-0.6b or tiny",
                  name));
}

}  // namespace ds::bench
