// Which parameters train, by patterns of names.
#include "train/settings/frozen_names.h"

#include "model/families/zoo.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_models.h"

namespace ds {
namespace {

using Names = std::set<std::string>;

std::vector<ParamSpec> named(const std::vector<std::string>& names) {
  std::vector<ParamSpec> specs;
  for (const std::string& name : names) specs.push_back({.name = name, .shape = {2}});
  return specs;
}

const std::vector<ParamSpec> kModel =
    named({"wte.weight", "h.0.attn.weight", "h.0.attn.bias", "h.1.attn.weight", "h.1.attn.bias"});

TEST_CASE("what fits freeze is frozen, and what does not fit train_only", "[train]") {
  CHECK(frozen_names({.freeze = {"h.0.*"}}, kModel) == Names{"h.0.attn.weight", "h.0.attn.bias"});
  CHECK(frozen_names({.train_only = {"h.1.*", "*bias"}}, kModel) ==
        Names{"wte.weight", "h.0.attn.weight"});
  CHECK(frozen_names({.train_only = {"h.?.attn.*"}, .freeze = {"h.[0]*", "*.weight"}}, kModel) ==
        Names{"wte.weight", "h.0.attn.weight", "h.0.attn.bias", "h.1.attn.weight"});
  CHECK(frozen_names({}, kModel).empty());
}

TEST_CASE("a parameter that a folder stores among others is found by either name", "[train]") {
  std::vector<ParamSpec> specs = named({"q.weight", "k.weight", "o.weight"});
  specs[0].stored = specs[1].stored = StoredRows{.name = "qkv.weight", .rows = 4};
  CHECK(frozen_names({.freeze = {"qkv.weight"}}, specs) == Names{"q.weight", "k.weight"});
  CHECK(frozen_names({.freeze = {"k.*"}}, specs) == Names{"k.weight"});
}

TEST_CASE("what a folder stores in pieces is frozen as a whole", "[train]") {
  const std::vector<ParamSpec> specs{
      {.name = "mlp.experts.up", .shape = {2, 4, 3}, .pieces = {"mlp.0.up", "mlp.1.up"}},
      {.name = "norm", .shape = {3}}};
  CHECK(frozen_names({.freeze = {"mlp.experts.*"}}, specs) == Names{"mlp.experts.up"});
  CHECK(frozen_names({.freeze = {"mlp.?.up"}}, specs) == Names{"mlp.experts.up"});
  CHECK(frozen_names({.freeze = {"mlp.0.up", "mlp.1.*"}}, specs) == Names{"mlp.experts.up"});
  CHECK_THROWS_WITH(frozen_names({.freeze = {"mlp.1.up"}}, specs),
                    Catch::Contains("patterns that fit mlp.1.up, but not all of mlp.experts.up"));
}

TEST_CASE("a pattern that fits nothing is refused with what may have been meant", "[train]") {
  const auto why = [](const TrainedChoice& choice) {
    try {
      frozen_names(choice, kModel);
      return std::string("nothing");
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
  };
  CHECK(why({.freeze = {"h.0.*", "attn.bias"}}) ==
        "train.freeze: \"attn.bias\" fits no parameter of the model; patterns are of whole names: "
        "did you mean \"*attn.bias*\", which 2 fit, as h.0.attn.bias?");
  CHECK(
      why({.freeze = {"0.*"}}) ==
      "train.freeze: \"0.*\" fits no parameter of the model; patterns are of whole names: did you "
      "mean \"*0.*\", which 2 fit, as h.0.attn.weight?");
  CHECK(
      why({.freeze = {"wte"}}) ==
      "train.freeze: \"wte\" fits no parameter of the model; patterns are of whole names: did you "
      "mean \"*wte*\", which 1 fits, that is wte.weight?");
  CHECK(why({.train_only = {"wte.wieght"}}) ==
        "train.train_only: \"wte.wieght\" fits no parameter of the model; did you mean "
        "\"wte.weight\"?");
  CHECK(
      why({.train_only = {"encoder.layers.7.fc.weight"}, .freeze = {"*"}}) ==
      "train.train_only: \"encoder.layers.7.fc.weight\" fits no parameter of the model; the first "
      "is called wte.weight");
}

TEST_CASE("something has to train", "[train]") {
  CHECK_THROWS_WITH(
      frozen_names({.freeze = {"*"}}, kModel),
      "train.freeze: all 5 parameters of the model are frozen, and nothing would train");
  CHECK_THROWS_WITH(frozen_names({.train_only = {"wte*"}, .freeze = {"*.weight"}}, kModel),
                    Catch::Contains("are frozen, also those of train_only, and nothing"));
}

TEST_CASE("names are those of the model's family", "[train]") {
  const std::vector<ParamSpec> specs = specs_of_model(testing::tiny_gpt2(2), DType::kF32);
  const Names frozen =
      frozen_names({.train_only = {"transformer.h.1.*"}, .freeze = {"*.ln_?.*"}}, specs);
  CHECK(frozen.contains("transformer.wte.weight"));
  CHECK(frozen.contains("transformer.h.1.ln_1.weight"));
  CHECK_FALSE(frozen.contains("transformer.h.1.attn.c_attn.weight"));
  CHECK(frozen.size() == specs.size() - 8);
}

}  // namespace
}  // namespace ds
