// What a teacher needs of a configuration, and what it does not go with; and whether checkpoints of
// adapters are without their base.
#include <fmt/format.h>

#include "config/elastic_options.h"
#include "config/load.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

std::string text_of(const std::string& distillation, const std::string& rest) {
  return fmt::format(R"({{"train": {{"distillation": {{"teacher": "/t"{}}}}}, "model": "/m"{}}})",
                     distillation, rest);
}

std::string why(const std::string& text) {
  try {
    parse_config(text);
    return "nothing";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST_CASE("distillation is refused by the key that is wrong", "[config]") {
  const auto [keys, rest, message] = GENERATE_COPY(table<std::string, std::string, std::string>({
      {R"(, "alpha": -1)", "", "train.distillation.alpha: got -1"},
      {R"(, "beta": -1)", "", "train.distillation.beta: got -1"},
      {R"(, "temperature": 0)", "", "train.distillation.temperature: got 0"},
      {R"(, "temperature": 51)", "", "train.distillation.temperature: got 51"},
      {R"(, "beta": 1e40)", "", "train.distillation.beta: got 1e+40"},
      {R"(, "until_step": 0)", "", "train.distillation.until_step: got 0"},
      {R"(, "layers": {"0": 1})", "", "train.distillation.layers: \"0\" is no number of a block"},
      {R"(, "layers": {"01": 1})", "", "\"01\" is no number of a block"},
      {R"(, "layers": {"x": 1})", "", "\"x\" is no number of a block"},
      {R"(, "layers": {"1": 0})", "", "0 at \"1\", expected the number of a block of the teacher"},
      {R"(, "layers": {"1": "2"})", "", "expected the number of a block of the teacher"},
      {R"(, "layers": {"1": 1, "1": 2})", "", "duplicate key \"1\""},
      {R"(, "layers": [1])", "", "train.distillation.layers"},
      {R"(, "alpha": 0, "beta": 0)", "",
       "train.distillation: alpha, beta and layers weigh nothing"},
      {R"(, "layers_weight": 2)", "", "train.distillation.layers_weight: is for layers"},
      {"", R"(, "data": {"format": "preference"})", "excludes data.format preference"},
      {"", R"(, "pipeline": {"stages": 2})", "excludes pipeline.stages"},
      {R"(, "until_step": 3)", R"(, "zero_optimization": {"stage": 3})",
       "train.distillation.until_step: excludes zero_optimization.stage 3"},
  }));
  CAPTURE(keys, rest);
  CHECK_THAT(why(text_of(keys, rest)), Catch::Contains(message));
}

TEST_CASE("a distillation without a teacher is refused", "[config]") {
  CHECK_THAT(why(R"({"train": {"distillation": {"beta": 1}}})"),
             Catch::Contains("train.distillation.teacher"));
  CHECK_THAT(why(R"({"train": {"distillation": {"teacher": ""}}})"),
             Catch::Contains("train.distillation.teacher: is empty"));
}

TEST_CASE("distillation has DeepSpeed's words as well, and its defaults", "[config]") {
  const Config silent = parse_config(text_of("", ""));
  const DistillationConfig& plain = *silent.train.distillation;
  CHECK(plain.alpha == 1);
  CHECK(plain.beta == 1);
  CHECK(plain.temperature == 1);
  CHECK_FALSE(plain.until_step.has_value());
  CHECK(matched_blocks(plain).empty());
  const Config config = parse_config(text_of(
      R"(, "kd_alpha_ce": 0, "kd_beta_ce": 0, "kd_temp": 3, "layers": {"10": 2, "2": 7})", ""));
  const DistillationConfig& c = *config.train.distillation;
  CHECK(c.alpha == 0);
  CHECK(c.beta == 0);
  CHECK(c.temperature == 3);
  CHECK(matched_blocks(c) ==
        std::vector<MatchedBlocks>{{.own = 2, .teacher = 7}, {.own = 10, .teacher = 2}});
  CHECK(parse_config(to_config_text(config)).train.distillation->layers.members().size() == 2);
}

TEST_CASE("checkpoints are without what is frozen beside adapters of a folder", "[config]") {
  const auto excludes = [](const std::string& text) { return excludes_frozen(parse_config(text)); };
  CHECK(excludes(R"({"model": "/m", "lora": {}})"));
  CHECK_FALSE(excludes(R"({"model": "/m"})"));
  CHECK_FALSE(excludes(R"({"lora": {}})"));
  CHECK_FALSE(excludes(
      R"({"model": "/m", "lora": {}, "checkpoint": {"exclude_frozen_parameters": false}})"));
  const std::string on = R"("checkpoint": {"exclude_frozen_parameters": true})";
  CHECK(excludes(R"({"model": "/m", "lora": {}, )" + on + "}"));
  CHECK_THAT(why(R"({"lora": {}, )" + on + "}"),
             Catch::Contains("checkpoint.exclude_frozen_parameters: needs model.folder"));
  CHECK_THAT(why(R"({"model": "/m", "train": {"freeze": ["*"]}, )" + on + "}"),
             Catch::Contains("checkpoint.exclude_frozen_parameters: is for lora"));
}

}  // namespace
}  // namespace ds
