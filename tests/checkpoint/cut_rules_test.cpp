// Which cut over tensor-parallel ranks a parameter has, by names.

#include "checkpoint/deepspeed/cut_rules.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds::deepspeed {
namespace {

using Kind = CutRule::Kind;

TEST_CASE("layers of Megatron are cut as it cuts them", "[checkpoint]") {
  const std::string layer = "language_model.encoder.layers.0.";
  const auto rule = [](const std::string& name) { return megatron_rule(name, {.version = 3}); };
  for (const std::string& name :
       {layer + "self_attention.query_key_value.weight", layer + "attention.query_key_value.bias",
        layer + "mlp.dense_h_to_4h.weight", layer + "mlp.dense_h_to_4h.bias",
        std::string("language_model.embedding.word_embeddings.weight"),
        std::string("module.language_model.output_layer.weight")}) {
    CAPTURE(name);
    CHECK(rule(name).kind == Kind::kCut);
    CHECK(rule(name).axis == 0);
    CHECK(rule(name).equal_parts == 1);
  }
  for (const std::string& name :
       {layer + "self_attention.dense.weight", "model." + layer + "mlp.dense_4h_to_h.weight"}) {
    CAPTURE(name);
    CHECK(rule(name).kind == Kind::kCut);
    CHECK(rule(name).axis == 1);
  }
  for (const std::string& name :
       {layer + "self_attention.dense.bias", layer + "mlp.dense_4h_to_h.bias",
        layer + "input_layernorm.weight",
        std::string("language_model.embedding.position_embeddings.weight")}) {
    CAPTURE(name);
    CHECK(rule(name).kind == Kind::kSame);
  }
  CHECK(megatron_rule(layer + "mlp.dense_h_to_4h.weight", {.is_gated = true}).equal_parts == 2);
  CHECK(megatron_rule(layer + "attention.query_key_value.bias", {.version = 0}).equal_parts == 3);
  CHECK(tells_of_megatron("language_model.encoder.final_layernorm.weight"));
  CHECK(tells_of_megatron("3.mlp.dense_h_to_4h.bias"));
  for (const char* name : {"model.layers.0.mlp.up_proj.weight", "3.mlp.up.weight",
                           "blocks.mlp.dense_h_to_4h.bias", "tied_modules.embed.weight"}) {
    CAPTURE(name);
    CHECK_FALSE(tells_of_megatron(name));
  }
}

}  // namespace
}  // namespace ds::deepspeed
