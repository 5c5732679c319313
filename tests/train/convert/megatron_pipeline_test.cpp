#include "train/convert/megatron_pipeline.h"

#include "tests/support/catch.h"

namespace ds {
namespace {

using Names = std::vector<std::string>;

TEST_CASE("layers of Megatron's pipelines are numbered from their first block on", "[train]") {
  const Names tied{"tied_modules.embed.word_embeddings.weight",
                   "tied_modules.embed.position_embeddings.weight",
                   "3.input_layernorm.bias",
                   "3.self_attention.query_key_value.weight",
                   "10.mlp.dense_h_to_4h.bias",
                   "10.self_attention.query_key_value.weight",
                   "12.weight",
                   "12.bias"};
  const std::string body = "language_model.encoder.";
  CHECK(names_in_one_piece(tied) == Names{"language_model.embedding.word_embeddings.weight",
                                          "language_model.embedding.position_embeddings.weight",
                                          body + "layers.0.input_layernorm.bias",
                                          body + "layers.0.self_attention.query_key_value.weight",
                                          body + "layers.1.mlp.dense_h_to_4h.bias",
                                          body + "layers.1.self_attention.query_key_value.weight",
                                          body + "final_layernorm.weight",
                                          body + "final_layernorm.bias"});
  const Names untied{"0.word_embeddings.weight", "1.attention.query_key_value.weight", "2.weight",
                     "3.lm_head.weight"};
  CHECK(names_in_one_piece(untied)->front() == "language_model.embedding.word_embeddings.weight");
  CHECK(names_in_one_piece(untied)->back() == "language_model.output_layer.weight");
  const Names last{"1.self_attention.query.weight", "4.word_embeddings.weight"};
  CHECK(names_in_one_piece(last)->back() == "language_model.output_layer.weight");
}

TEST_CASE("what is no part of Megatron's model keeps its name", "[train]") {
  CHECK_FALSE(names_in_one_piece(Names{"0.wte.weight", "1.attn.c_attn.weight", "weight"}));
  CHECK_FALSE(
      names_in_one_piece(Names{"language_model.encoder.layers.0.self_attention.query.weight"}));
  const Names others{"1.self_attention.query.weight", "2.pooler.weight", "epochs",
                     "h.self_attention.query.weight", "3.weight",        "4.weight"};
  const Names in_one_piece = names_in_one_piece(others).value();
  CHECK(in_one_piece[1] == others[1]);
  CHECK(in_one_piece[2] == others[2]);
  CHECK(in_one_piece[3] == others[3]);
  CHECK(in_one_piece[4] == "language_model.encoder.final_layernorm.weight");
  CHECK(in_one_piece[5] == others[5]);  // there is one such norm
}

}  // namespace
}  // namespace ds
