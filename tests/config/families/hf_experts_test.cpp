// What is refused of the config.json of a model with experts, and what is read under two names.
#include "config/families/hf_config.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

ModelConfig read(const std::string& name, const std::string& rest) {
  return parse_hf_config(fmt::format(R"({{"architectures": ["{}"]{}}})", name, rest), "c");
}

TEST_CASE("experts are counted by either name", "[config]") {
  for (const char* const name :
       {"MixtralForCausalLM", "Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM", "OlmoeForCausalLM"}) {
    CAPTURE(name);
    for (const char* const key : {"num_experts", "num_local_experts"}) {
      const ModelConfig model = read(name, fmt::format(R"(, "{}": 12)", key));
      CHECK(transformer_spec(model).experts->count == 12);
    }
    CHECK_THROWS_WITH(read(name, R"(, "num_experts": 12, "num_local_experts": 16)"),
                      Catch::Contains("are two names of one size, but differ"));
  }
}

TEST_CASE("layers without experts are those that the configuration names", "[config]") {
  const auto layers = [](const std::string& rest) {
    const ModelConfig model = read("Qwen3MoeForCausalLM", R"(, "num_hidden_layers": 6)" + rest);
    std::string found;
    for (int64_t layer = 0; layer < 6; ++layer) {
      found += transformer_spec(model).experts->layers.is_of(layer) ? 'e' : '-';
    }
    return found;
  };
  CHECK(layers("") == "eeeeee");
  CHECK(layers(R"(, "mlp_only_layers": null)") == "eeeeee");
  CHECK(layers(R"(, "mlp_only_layers": [0, 4])") == "-eee-e");
  CHECK(layers(R"(, "decoder_sparse_step": 2)") == "-e-e-e");
  CHECK(layers(R"(, "decoder_sparse_step": 3, "mlp_only_layers": [5])") == "--e---");
  for (const char* const list : {"[-1]", "[true]", "[0.5]", R"(["0"])"}) {
    CAPTURE(list);
    CHECK_THROWS_WITH(layers(fmt::format(R"(, "mlp_only_layers": {})", list)),
                      Catch::Contains("\"mlp_only_layers\" has something else than numbers"));
  }
  CHECK_THROWS_AS(layers(R"(, "mlp_only_layers": 3)"), DataError);
}

TEST_CASE("numbers of experts that do not fit are refused by name", "[config]") {
  CHECK_THROWS_WITH(read("MixtralForCausalLM", R"(, "num_experts_per_tok": 9)"),
                    Catch::Contains("num_experts_per_tok: 9, but num_local_experts is 8"));
  CHECK_THROWS_WITH(
      read("Qwen3MoeForCausalLM", R"(, "num_experts": 1000, "moe_intermediate_size": 20000)"),
      Catch::Contains("num_experts: 1000 of width 20000, expected at most 16777216 together"));
  for (const char* const bad : {R"("num_experts": 0)", R"("num_experts": 2000)",
                                R"("num_experts_per_tok": 0)", R"("num_experts_per_tok": 40)",
                                R"("moe_intermediate_size": 0)", R"("decoder_sparse_step": 0)"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(read("Qwen3MoeForCausalLM", fmt::format(", {}", bad)), DataError);
  }
}

TEST_CASE("what changes experts and is not built is refused by name", "[config]") {
  const auto refused = [](const std::string& name, const std::string& key) {
    CAPTURE(key);
    CHECK_THROWS_AS(read(name, ", " + key), Unsupported);
  };
  refused("MixtralForCausalLM", R"("output_router_logits": true)");
  refused("MixtralForCausalLM", R"("router_jitter_noise": 0.1)");
  refused("OlmoeForCausalLM", R"("clip_qkv": 8.0)");
  refused("Qwen2MoeForCausalLM", R"("use_sliding_window": true)");
  CHECK_NOTHROW(
      read("MixtralForCausalLM", R"(, "router_jitter_noise": 0.0, "router_aux_loss_coef": 0.02)"));
  CHECK_NOTHROW(read("OlmoeForCausalLM", R"(, "clip_qkv": null)"));
  CHECK_NOTHROW(
      read("Qwen2MoeForCausalLM", R"(, "use_sliding_window": false, "sliding_window": 32768)"));
}

}  // namespace
}  // namespace ds
