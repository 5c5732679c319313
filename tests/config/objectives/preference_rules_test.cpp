// What preference training needs of a configuration, and what it does not go with.
#include <fmt/format.h>

#include "config/load.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

std::string text_of(const std::string& data, const std::string& rest) {
  return fmt::format(R"({{"data": {{{}}}{}}})", data, rest);
}

std::string why(const std::string& data, const std::string& rest) {
  try {
    parse_config(text_of(data, rest));
    return "nothing";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST_CASE("preference training is refused by the key that is wrong", "[config]") {
  const std::string pairs = R"("format": "preference")";
  const auto [data, rest, message] = GENERATE_COPY(table<std::string, std::string, std::string>({
      {R"("format": "chat")", R"(, "preference": {})",
       "preference: is for data.format preference, and that is chat"},
      {"", R"(, "preference": {"beta": 1})", "preference: is for data.format preference"},
      {R"("format": "chat", "date": "2026-02-30")", "", "data.date: \"2026-02-30\" is no date"},
      {R"("format": "tokenized", "date": "2026-01-30")", "", "data.date: is for data.format chat"},
      {R"("format": "chat", "preference": {"chosen": "a"})", "",
       "data.preference: is for data.format preference"},
      {pairs + R"(, "prompt_completion": {})", "", "data.prompt_completion: is for data.format"},
      {pairs + R"(, "packing": true)", "", "data.packing: excludes data.format preference"},
      {pairs + R"(, "too_long": "split")", "", "data.too_long: split: half of an answer"},
      {pairs + R"(, "chat": {"train_on": "user"})", "", "data.chat.train_on: is for data.format"},
      {pairs + R"(, "reset_position_ids": true)", "",
       "data.reset_position_ids: has nothing to say"},
      {pairs, R"(, "preference": {"beta": 0})", "preference.beta: got 0"},
      {pairs, R"(, "preference": {"loss_type": "sigmod"})", "preference.loss_type: "},
      {pairs, R"(, "preference": {"loss_type": "exo_pair"})",
       "preference.label_smoothing: is 0, of which"},
      {pairs, R"(, "preference": {"loss_type": "robust", "label_smoothing": 0.5})",
       "preference.label_smoothing: 0.5, expected less than 0.5"},
      {pairs, R"(, "preference": {"label_smoothing": 0.1})",
       "preference.label_smoothing: is for loss_type robust, exo_pair, cpo and simpo, and that is "
       "sigmoid"},
      {pairs, R"(, "preference": {"loss_type": "orpo", "label_smoothing": 0.1})",
       "preference.label_smoothing: is for loss_type robust"},
      {pairs, R"(, "preference": {"loss_type": "cpo", "cpo_alpha": -1})",
       "preference.cpo_alpha: got -1"},
      {pairs, R"(, "preference": {"loss_type": "simpo", "simpo_gamma": -1})",
       "preference.simpo_gamma: got -1"},
      {pairs, R"(, "preference": {"loss_type": "orpo", "reference": "a"})",
       "preference.reference: excludes loss_type orpo, which asks no reference"},
      {pairs, R"(, "preference": {"loss_type": "simpo", "reference": "a"}, "lora": {})",
       "preference.reference: excludes loss_type simpo"},
      {pairs, R"(, "preference": {"loss_type": "cpo", "ref_model": "a"})",
       "preference.reference: excludes loss_type cpo"},
      {pairs, R"(, "preference": {"loss_type": "kto"})", "discopop, orpo, simpo, cpo"},
      {pairs, R"(, "preference": {"discopop_tau": 0.1})",
       "preference.discopop_tau: is for loss_type discopop"},
      {pairs, R"(, "preference": {"reference": "a"}, "lora": {})",
       "preference.reference: excludes lora"},
      {pairs, R"(, "train": {"resume_from": "a"})", "train.resume_from: excludes data.format"},
      {pairs, R"(, "eigenvalue": {"enabled": true})",
       "eigenvalue: excludes data.format preference"},
  }));
  CAPTURE(data, rest);
  CHECK_THAT(why(data, rest), Catch::Contains(message));
}

TEST_CASE("pairs are trained on with DPO's loss, or another by its name", "[config]") {
  const std::string pairs = R"("format": "preference", "chat": {"roles": ["critic"]})";
  CHECK_FALSE(parse_config(text_of(pairs, "")).preference);
  const std::string said =
      R"(, "preference": {"loss_type": "robust", "beta": 0.2, "label_smoothing": 0.1,
                          "ref_model": "/models/reference"})";
  const Config config = parse_config(text_of(pairs, said));
  const Config again = parse_config(to_config_text(config));
  for (const Config& c : {config, again}) {
    REQUIRE(c.preference);
    CHECK(c.preference->loss_type == PreferenceLossType::kRobust);
    CHECK(c.preference->beta == 0.2);
    CHECK(c.preference->label_smoothing == 0.1);
    CHECK(c.preference->reference == "/models/reference");
    CHECK(c.data.supervised.has_pairs());
  }
  CHECK_FALSE(parse_config(to_config_text(parse_config("{}"))).preference);
}

TEST_CASE("losses without a reference have keys of their own", "[config]") {
  const std::string pairs = R"("format": "preference")";
  const Config simple =
      parse_config(text_of(pairs, R"(, "preference": {"loss_type": "simpo", "beta": 2})"));
  CHECK(simple.preference->cpo_alpha == 1);
  CHECK(simple.preference->simpo_gamma == 0.5);
  CHECK_NOTHROW(parse_config(
      text_of(pairs, R"(, "preference": {"loss_type": "cpo", "label_smoothing": 0.6})")));
  // What a checkpoint of DeepSpeed does not hold, they do not need.
  CHECK_NOTHROW(parse_config(
      text_of(pairs, R"(, "preference": {"loss_type": "orpo"}, "train": {"resume_from": "a"})")));
}

TEST_CASE("keys of other losses of pairs are noted", "[config]") {
  const auto notes = [](const std::string& rule) {
    const ReadConfig read = read_config_text(
        text_of(R"("format": "preference")", fmt::format(R"(, "preference": {{{}}})", rule)),
        "train.json");
    std::string all;
    for (const Problem& problem : read.problems.all()) {
      all += fmt::format("{}: {}\n", problem.path, problem.message);
    }
    return all;
  };
  const std::string both = R"(, "cpo_alpha": 0.5, "simpo_gamma": 1)";
  const auto alpha = Catch::Contains("preference.cpo_alpha: has no effect with loss_type");
  const auto gamma = Catch::Contains("preference.simpo_gamma: has no effect with loss_type");
  CHECK_THAT(notes(R"("loss_type": "orpo")" + both), alpha && gamma);
  CHECK_THAT(notes(R"("loss_type": "sigmoid")" + both), alpha && gamma);
  CHECK_THAT(notes(R"("loss_type": "cpo")" + both), !alpha && gamma);
  CHECK_THAT(notes(R"("loss_type": "simpo")" + both), !alpha && !gamma);
}

}  // namespace
}  // namespace ds
