// Sizes of models: what follows from others, and what does not fit together.
#include <algorithm>

#include "config/families/list.h"
#include "config/load.h"
#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_models.h"

namespace ds {
namespace {

std::string refusal(const ModelConfig& config) {
  try {
    check(config);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("sizes that are not given follow from the others", "[config]") {
  CHECK(dimensions(Gpt2Config{.n_embd = 24}).inner == 96);
  CHECK(dimensions(Gpt2Config{.n_inner = 5}).inner == 5);
  const LlamaConfig llama{.num_attention_heads = 4, .hidden_size = 32};
  CHECK(dimensions(llama).kv_heads == 4);
  CHECK(dimensions(llama).head_dim == 8);
  const LlamaConfig given{.num_attention_heads = 4, .num_key_value_heads = 2, .head_dim = 6};
  CHECK(dimensions(given).kv_heads == 2);
  CHECK(dimensions(given).head_dim == 6);
}

TEST_CASE("sizes that cannot be are refused by their key", "[config]") {
  CHECK(refusal(Gpt2Config{}) == "accepted");
  CHECK(refusal(LlamaConfig{}) == "accepted");
  CHECK(refusal(Gpt2Config{.n_layer = 0}) ==
        "model.n_layer: got 0, expected integer >= 1, <= 4096");
  CHECK(refusal(Gpt2Config{.n_head = 5}) == "model.n_head: 5 does not divide n_embd = 768");
  CHECK(refusal(LlamaConfig{.num_key_value_heads = 3}) ==
        "model.num_key_value_heads: 3 does not divide num_attention_heads = 32");
  CHECK_THAT(refusal(LlamaConfig{.head_dim = 7}), Catch::Contains("model.head_dim: 7: rotary"));
  CHECK_THAT(refusal(LlamaConfig{.head_dim = 40000}), Catch::Contains("of 32 heads"));
  CHECK_THAT(refusal(LlamaConfig{.rope_theta = INFINITY}), Catch::Contains("model.rope_theta"));
  CHECK_THROWS_AS(check(LlamaConfig{.hidden_act = "relu"}), Unsupported);
}

TEST_CASE("a model section is refused for the same sizes", "[config]") {
  CHECK_THROWS_WITH(parse_config(R"({"model": {"family": "gpt2", "n_head": 5}})"),
                    Catch::Contains("model.n_head: 5 does not divide n_embd = 768"));
  CHECK_THROWS_WITH(parse_config(R"({"model": {"family": "llama", "head_dim": 7}})"),
                    Catch::Contains("model.head_dim: 7: rotary"));
  // A number out of its own range is said once, and nothing is derived from it.
  CHECK_THROWS_WITH(parse_config(R"({"model": {"family": "gpt2", "n_head": 0}})"),
                    Catch::Contains("got 0") && !Catch::Contains("divide"));
}

TEST_CASE("every family is asked alike", "[config]") {
  CHECK(built_families() ==
        std::vector<std::string_view>{
            "gpt2",       "llama",      "mistral",     "qwen2",      "qwen3",   "gemma",
            "gemma2",     "granite",    "gemma3_text", "phi3",       "smollm3", "stablelm",
            "starcoder2", "gpt_neox",   "opt",         "bert",       "roberta", "olmo2",
            "olmo3",      "modernbert", "xlm-roberta", "distilbert", "mixtral", "qwen2_moe",
            "qwen3_moe",  "olmoe"});
  for (const ModelConfig& model : testing::tiny_models(3)) {
    CAPTURE(family_name(model));
    CHECK(refusal(model) == "accepted");
    const ModelDimensions dims = dimensions(model);
    CHECK(dims.layers == 3);
    const TransformerSpec spec = transformer_spec(model);
    CHECK(block_list(model) == fmt::format("{}.{}", spec.names.body, spec.names.blocks));
    CHECK(is_token_table(token_table(model)));
    CHECK(std::ranges::count(model_bodies(), spec.names.body) > 0);
    // Wider, deeper, and the same again.
    ModelDimensions other = dims;
    other.layers = 5;
    other.heads = other.kv_heads = 8;
    other.width = other.heads * other.head_dim;
    other.inner = 7;
    const ModelConfig changed = with_dimensions(model, other);
    CHECK(refusal(changed) == "accepted");
    CHECK(dimensions(changed).width == other.width);
    CHECK(dimensions(changed).inner == 7);
    CHECK(dimensions(changed).layers == 5);
    CHECK(dimensions(with_dimensions(changed, dims)).width == dims.width);
    // A section that names it describes it; a planned one describes nothing.
    const auto described = described_model(
        parse_config(fmt::format(R"({{"model": {{"family": "{}"}}}})", family_name(model))).model);
    REQUIRE(described);
    CHECK(family_name(*described) == family_name(model));
  }
  CHECK_FALSE(is_token_table("model.layers.0.weight"));
  Qwen3Config mixed;
  mixed.use_sliding_window = true;
  mixed.num_hidden_layers = 3;
  mixed.layer_types = {"sliding_attention", "full_attention", "sliding_attention"};
  CHECK(refusal(mixed) == "accepted");
  ModelDimensions deeper = dimensions(mixed);
  deeper.layers = 5;
  CHECK(std::get<Qwen3Config>(with_dimensions(mixed, deeper)).layer_types->back() ==
        "full_attention");
  CHECK(refusal(with_dimensions(mixed, deeper)) == "accepted");
  mixed.layer_types->pop_back();
  CHECK_THAT(refusal(mixed), Catch::Contains("layer_types: 2 types for 3 layers"));
  mixed.layer_types->emplace_back("chunked_attention");
  CHECK_THAT(refusal(mixed), Catch::Contains("\"chunked_attention\", expected"));
  mixed.layer_types->back() = "full_attention";
  mixed.use_sliding_window = false;
  CHECK_THAT(refusal(mixed), Catch::Contains("of a model without a window"));
  ModelSection other;
  other.family = ModelFamily::kResNet;
  CHECK_FALSE(described_model(other));
  other.folder = "x";
  CHECK_FALSE(described_model(other));
}

}  // namespace
}  // namespace ds
