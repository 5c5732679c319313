// Samples of several documents: from the keys of a configuration and the tokens of a file to the
// losses and weights that Hugging Face's models have with explicit masks (tests/golden/documents).
// An encoder is to tell masked tokens.
#include "tests/train/objectives/golden_folder.h"

namespace ds {
namespace {

using namespace testing;

// Token ids, which need no tokenizer.
GoldenFolder documents_of(const std::string& family) {
  GoldenFolder run("documents", family);
  run.config.data.tokenizer = DataSection().tokenizer;
  run.config.data.validation.clear();
  return run;
}

Got train_documents(GoldenFolder& run, const Shares& share) {
  const ModelConfig model = model_config(run.config, run.files);
  const TrainingData data = open_data(run.config.data, model, run.files);
  return train_folder(
      run, share, {.source = [&](const SamplePlace& place, const BatchShape& batch) {
        return make_sample_source(
            data.train, Sampler(data.train.size(), SampleOrder::kSequential, 0), batch, place,
            {.rules = data.rules, .seed = static_cast<uint64_t>(run.config.train.seed)});
      }});
}

TEST_CASE("documents train as Hugging Face's models do with explicit masks", "[train]") {
  const std::string family = GENERATE("mistral", "gpt2", "bert");
  GoldenFolder run = documents_of(family);
  for (const Shares& share :
       {Shares{}, Shares{.micro_steps = 4}, Shares{.ranks = 2, .stage = 2, .micro_steps = 2},
        Shares{.ranks = 4, .stage = 3}, Shares{.ranks = 2, .sizes = {.tensor = 2}},
        Shares{.ranks = 2, .stage = 1, .sizes = {.sequence = 2}},
        Shares{.ranks = 2, .sizes = {.sequence = 2, .ring = 2}},
        Shares{.ranks = 4, .micro_steps = 2, .sizes = {.pipe = 4}}}) {
    CAPTURE(family, share.ranks, share.stage, share.micro_steps);
    const Got got = train_documents(run, share);
    REQUIRE(got.losses.size() == 5);
    for (size_t step = 0; step < got.losses.size(); ++step) {
      CAPTURE(step);
      CHECK(got.losses[step] == Approx(run.wanted("losses", step)).epsilon(1e-6));
      CHECK(got.norms[step] == Approx(run.wanted("grad_norms", step)).epsilon(1e-4));
    }
    CHECK(got.apart < 0.01);
  }
}

}  // namespace
}  // namespace ds
