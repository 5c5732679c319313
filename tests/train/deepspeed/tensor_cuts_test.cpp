// How stored tensors of families are cut over tensor-parallel ranks.
#include "train/settings/tensor_cuts.h"

#include "config/families/hf_config.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Ranges = std::vector<Range>;

TEST_CASE("packed projections are cut in several places, and norms nowhere", "[train]") {
  const ModelConfig gpt2 = parse_hf_config(
      R"({"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 8, "n_positions": 8,
          "vocab_size": 16})",
      "config.json");
  const auto cuts = tensor_cuts(gpt2, 2);
  const deepspeed::FamilyCut& attention = cuts.at("transformer.h.0.attn.c_attn.weight");
  CHECK(attention.whole == Shape{8, 24});
  CHECK(attention.ranks[1].axes[1] == Ranges{{4, 8}, {12, 16}, {20, 24}});
  CHECK(cuts.at("transformer.h.0.attn.c_proj.weight").ranks[1].axes[0] == Ranges{{4, 8}});
  CHECK(cuts.at("transformer.h.0.ln_1.weight").ranks[1].is_whole());
  CHECK(cuts.at("transformer.wte.weight").is_vocabulary);
  CHECK_FALSE(cuts.at("transformer.wpe.weight").is_vocabulary);
  CHECK_THROWS_AS(tensor_cuts(gpt2, 3), Unsupported);
}

TEST_CASE("a tensor that stores several parameters has the rows of all of them", "[train]") {
  const ModelConfig phi3 = parse_hf_config(
      R"({"model_type": "phi3", "num_hidden_layers": 1, "num_attention_heads": 2,
          "num_key_value_heads": 2, "hidden_size": 8, "intermediate_size": 4, "vocab_size": 16,
          "pad_token_id": 0, "max_position_embeddings": 8,
          "original_max_position_embeddings": 8})",
      "config.json");
  const auto cuts = tensor_cuts(phi3, 2);
  const deepspeed::FamilyCut& attention = cuts.at("model.layers.0.self_attn.qkv_proj.weight");
  CHECK(attention.whole == Shape{24, 8});
  CHECK(attention.ranks[0].axes[0] == Ranges{{0, 4}, {8, 12}, {16, 20}});
  CHECK(attention.ranks[1].axes[0] == Ranges{{4, 8}, {12, 16}, {20, 24}});
  CHECK(cuts.at("model.layers.0.mlp.gate_up_proj.weight").ranks[1].axes[0] ==
        Ranges{{2, 4}, {6, 8}});
}

TEST_CASE("heads whose queries, keys and values lie together are cut as one", "[train]") {
  const ModelConfig neox = parse_hf_config(
      R"({"model_type": "gpt_neox", "rotary_pct": 1.0,
          "num_hidden_layers": 1, "num_attention_heads": 2,
          "hidden_size": 8, "intermediate_size": 16, "vocab_size": 16,
          "max_position_embeddings": 8})",
      "config.json");
  const auto cuts = tensor_cuts(neox, 2);
  const deepspeed::FamilyCut& attention =
      cuts.at("gpt_neox.layers.0.attention.query_key_value.weight");
  CHECK(attention.whole == Shape{24, 8});
  CHECK(attention.ranks[1].axes[0] == Ranges{{12, 24}});
}

}  // namespace
}  // namespace ds
