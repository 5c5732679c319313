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

}  // namespace ds
