// Texts, and words, that are each of a class, and texts of numbers or of several classes: from the
// keys of a configuration and the records of a file to the losses, weights and accuracy that
// Hugging Face's models have (tests/golden/classifiers, tests/golden/token_classifiers).
#include "tests/train/heard_reports.h"
#include "tests/train/objectives/golden_folder.h"
#include "train/evaluate/evaluation.h"

namespace ds {
namespace {

using namespace testing;

Got train_classes(GoldenFolder& run, const Shares& share) {
  const ModelConfig model = model_config(run.config, run.files);
  const TrainingData data = open_data(run.config.data, model, run.files);
  return train_folder(run, share,
                      {.source =
                           [&](const SamplePlace& place, const BatchShape& batch) {
                             return make_sample_source(
                                 data.train,
                                 Sampler(data.train.size(), SampleOrder::kSequential, 0), batch,
                                 place, {.rules = data.rules});
                           },
                       .evaluate =
                           [&](Engine& engine, const BatchShape& batch, Metrics& metrics) {
                             HeardReports heard;
                             Evaluation evaluation(
                                 engine, heard, *data.validation,
                                 {.place = place_of(engine.mesh()),
                                  .rules = data.rules,
                                  .shape = {.micro_batch = batch.micro_batch, .ranks = batch.ranks},
                                  .schedule = {.last_step = *run.config.train.steps}});
                             evaluation.after(*run.config.train.steps, metrics);
                           }});
}

TEST_CASE("classes of texts and of words are learnt as Hugging Face's models learn them",
          "[train]") {
  const auto list = GENERATE(as<std::string>(), "classifiers", "token_classifiers");
  const auto family =
      GENERATE(as<std::string>(), "bert", "roberta", "modernbert", "modernbert_mean", "llama",
               "gpt2", "distilbert", "bert_number", "llama_number", "modernbert_mean_numbers",
               "roberta_several", "gpt2_several");
  if (list == "token_classifiers" && family.find('_') != std::string::npos) return;  // of texts
  GoldenFolder run(list, family);
  const bool has_one_class = run.golden.HasMember("validation_accuracy");
  for (const Shares& share :
       {Shares{}, Shares{.micro_steps = 4}, Shares{.ranks = 2, .stage = 2, .micro_steps = 2},
        Shares{.ranks = 4, .stage = 3}, Shares{.ranks = 2, .stage = 1, .sizes = {.tensor = 2}},
        Shares{.ranks = 4, .micro_steps = 2, .sizes = {.pipe = 4}}}) {
    CAPTURE(list, family, share.ranks, share.stage, share.micro_steps);
    const Got got = train_classes(run, share);
    REQUIRE(got.losses.size() == 5);
    for (size_t step = 0; step < got.losses.size(); ++step) {
      CAPTURE(step);
      // A loss is the mean over a few rows alone, whose rounding other processors do otherwise, and
      // which a square doubles.
      const double later = has_one_class ? 3e-6 : 1e-5;
      CHECK(got.losses[step] ==
            Approx(run.wanted("losses", step)).epsilon(step == 0 ? 1e-6 : later));
      CHECK(got.norms[step] == Approx(run.wanted("grad_norms", step)).epsilon(1e-4));
    }
    CHECK(got.apart < 0.01);
    CHECK(got.evaluation.at("validation_loss") ==
          Approx(run.wanted("validation_loss")).epsilon(has_one_class ? 3e-6 : 1e-5));
    REQUIRE(got.evaluation.has("validation_accuracy") == has_one_class);
    if (has_one_class) {
      CHECK(got.evaluation.at("validation_accuracy") ==
            Approx(run.wanted("validation_accuracy")).epsilon(1e-6));
    }
  }
}

}  // namespace
}  // namespace ds
