// What config.json says of a StableLM 2.
#include "config/families/hf_config.h"
#include "config/families/list.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

TEST_CASE("a StableLM 2 may have norms of its heads and an MLP that reads as attention",
          "[model]") {
  const auto spec = [](const std::string& keys) {
    return transformer_spec(parse_hf_config(R"({"model_type": "stablelm")" + keys + "}", "c"));
  };
  CHECK_FALSE(spec("").head_norms);
  CHECK(spec("").mlp_input == MlpInput::kAfterAttention);
  CHECK(spec("").names.mlp_norm == "post_attention_layernorm");
  const auto norms = spec(R"(, "qk_layernorm": true)").head_norms.value();
  CHECK(norms.queries == "q_layernorm.norms");
  CHECK(norms.extent == HeadNorms::Extent::kEachOwn);
  CHECK(norms.kind == NormKind::kLayerUnbiased);
  const TransformerSpec parallel = spec(R"(, "use_parallel_residual": true)");
  CHECK(parallel.mlp_input == MlpInput::kAsAttention);
  CHECK(parallel.names.mlp_norm.empty());
}

}  // namespace
}  // namespace ds
