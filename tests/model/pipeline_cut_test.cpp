// Stage cuts by layers, parameters and class names.
#include "model/parallel/pipeline_cut.h"

#include "core/status/error.h"
#include "model/families/zoo.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_models.h"

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

Bounds ends_of(const std::vector<LayerRange>& parts) {
  Bounds ends;
  for (const LayerRange& part : parts) ends.push_back(part.end);
  return ends;
}

TEST_CASE("a model is cut so that every part has a layer, and at best as much to multiply",
          "[model]") {
  const ModelConfig model = testing::tiny_gpt2(6, 0);
  CHECK(ends_of(cut_model(model, "uniform", 2)) == Bounds{4, 8});
  CHECK(ends_of(cut_model(model, "type:GPT2Block", 3)).back() == 8);
  CHECK(ends_of(cut_model(model, "Best", 8)) == Bounds{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK_THROWS_WITH(cut_model(model, "best", 9), Catch::Contains("8 layers in 9 parts"));
  Gpt2Config wordy = testing::tiny_gpt2(6, 0);
  wordy.vocab_size = 100000;  // an embedding that is looked up, and a head as large as all blocks
  CHECK(ends_of(cut_model(wordy, "best", 2)) == Bounds{7, 8});
  CHECK(ends_of(cut_model(wordy, "parameters", 2)).front() < 7);
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
