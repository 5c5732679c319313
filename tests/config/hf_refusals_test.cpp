// Files of models that would be another one by another reader.
#include "config/families/hf_config.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {

TEST_CASE("what releases of transformers read in two ways is refused", "[model]") {
  for (const char* const json :
       {R"({"model_type": "olmo3", "rope_theta": 1000.0})",
        R"({"model_type": "olmo3", "rope_scaling": {"type": "linear", "factor": 2.0}})",
        R"({"model_type": "gemma3_text", "rope_scaling": {"type": "linear", "factor": 2.0}})",
        R"({"model_type": "modernbert", "sliding_window": 2})",
        R"({"model_type": "llama", "architectures": ["MistralForCausalLM"]})",
        R"({"model_type": "mystery", "architectures": ["LlamaForCausalLM"]})",
        R"({"model_type": "llama", "is_causal": false})",
        R"({"model_type": "gpt2", "is_causal": 0})",
        R"({"model_type": "llama", "per_layer_config": {"0": {"intermediate_size": 8}}})"}) {
    CAPTURE(json);
    CHECK_THROWS_AS(parse_hf_config(json, "c"), Unsupported);
  }
  for (const char* const json :
       {R"({"model_type": "olmo3", "rope_theta": 500000.0})",
        R"({"model_type": "olmo3", "rope_scaling": {"rope_type": "linear", "factor": 2.0}})",
        R"({"model_type": "modernbert", "sliding_window": 64, "local_attention": 128})",
        R"({"architectures": ["MistralForCausalLM"]})",
        R"({"model_type": "llama", "is_causal": true, "per_layer_config": null})",
        R"({"model_type": "bert", "is_causal": false})"}) {
    CAPTURE(json);
    CHECK_NOTHROW(parse_hf_config(json, "c"));
  }
}

TEST_CASE("an activation may have any of its names", "[model]") {
  const auto act = [](const std::string& type, const std::string& name) {
    const std::string json = R"({"model_type": ")" + type + R"(", "hidden_act": ")" + name + "\"}";
    return format_hf_config(parse_hf_config(json, "c"), DType::kF32);
  };
  CHECK(act("llama", "swish") == act("llama", "silu"));
  CHECK(act("bert", "gelu_python") == act("bert", "gelu"));
  CHECK_THROWS_AS(act("llama", "gelu_python"), Unsupported);
  CHECK_THROWS_AS(act("llama", "mish"), Unsupported);
}

}  // namespace ds
