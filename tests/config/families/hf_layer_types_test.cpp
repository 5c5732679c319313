// Which layers have a window, where config.json says it of each.
#include <string>
#include <vector>

#include "config/families/hf_config.h"
#include "config/families/list.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

TEST_CASE("layers with a window come in any order that is listed", "[model]") {
  const std::string full = R"("full_attention")", slides = R"("sliding_attention")";
  const auto slides_in = [&](const std::string& types) {
    const ModelConfig model = parse_hf_config(
        R"({"model_type": "qwen2", "num_hidden_layers": 3, "use_sliding_window": true,
            "layer_types": [)" +
            types + "]}",
        "c");
    CHECK(format_hf_config(parse_hf_config(format_hf_config(model, DType::kF32), "d"),
                           DType::kF32) == format_hf_config(model, DType::kF32));
    const SlidingWindow found = transformer_spec(model).window.value();
    return std::vector{found.is_of(0), found.is_of(1), found.is_of(2)};
  };
  CHECK(slides_in(slides + ", " + full + ", " + slides) == std::vector{true, false, true});
  CHECK(slides_in(slides + ", " + full + ", " + full) == std::vector{true, false, false});
  CHECK(slides_in(full + ", " + slides + ", " + slides) == std::vector{false, true, true});
}

}  // namespace
}  // namespace ds
