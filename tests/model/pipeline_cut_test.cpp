// Stage cuts by layers, parameters and class names.
#include "model/parallel/pipeline_cut.h"

#include "core/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Bounds = std::vector<int64_t>;

const std::vector<CutLayer> kLayers = {{"Embedding", 500},
                                       {"TransformerLayer", 100},
                                       {"TransformerLayer", 100},
                                       {"TransformerLayer", 100},
                                       {"TransformerLayer", 100},
                                       {"LayerNorm", 2},
                                       {"function", 0}};

TEST_CASE("layers are cut by the method that the file names", "[model]") {
  CHECK(cut_layers("uniform", kLayers, 2) == Bounds{0, 4, 7});
  CHECK(cut_layers("Parameters", kLayers, 2) == Bounds{0, 1, 7});
  CHECK(cut_layers("type:transformer", kLayers, 2) == Bounds{0, 3, 7});
  CHECK(cut_layers("type:^L", kLayers, 1) == Bounds{0, 7});
  CHECK(cut_layers("Type:(?:embedding|layernorm)", kLayers, 2).at(1) > 0);
}

TEST_CASE("unknown methods and broken patterns are refused", "[model]") {
  CHECK_THROWS_WITH(cut_layers("best", kLayers, 2),
                    Catch::Contains("uniform, parameters or type:"));
  CHECK_THROWS_WITH(cut_layers("type:(", kLayers, 2), Catch::Contains("no regular expression"));
  CHECK_THROWS_WITH(cut_layers("type:^Linear$", kLayers, 2),
                    Catch::Contains("none of the 7 layers"));
  CHECK_THROWS_AS(cut_layers("type:linear", {}, 2), ConfigError);
}

}  // namespace
}  // namespace ds
