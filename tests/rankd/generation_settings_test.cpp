// Whose word counts: the command line's, that of generation_config.json, or ours; and what is told.
#include "generate/settings.h"
#include "tests/support/catch.h"

using namespace ds;

namespace {

using Words = std::vector<std::string>;

GenerationDefaults file_of_a_model() {
  GenerationDefaults file;
  file.do_sample = true;
  file.temperature = 0.6;
  file.top_k = 20;
  file.top_p = 0.95;
  file.max_new_tokens = 2048;
  return file;
}

}  // namespace

TEST_CASE("without a file and options the defaults are ours, and nothing is told", "[rankd]") {
  const GenerationSettings settings = generation_settings({}, {});
  CHECK(settings.sampler.temperature == 0.8);
  CHECK(settings.sampler.top_k == 40);
  CHECK(settings.sampler.top_p == 1);
  CHECK(settings.sampler.min_p == 0);
  CHECK(settings.sampler.repetition_penalty == 1);
  CHECK(settings.max_tokens == 128);
  CHECK(settings.taken.empty());
  CHECK(settings.notes.empty());
}

TEST_CASE("what the model's file says counts where no option does, and is told", "[rankd]") {
  GenerateArgs args;
  GenerationSettings settings = generation_settings(args, file_of_a_model());
  CHECK(settings.sampler.temperature == 0.6);
  CHECK(settings.sampler.top_k == 20);
  CHECK(settings.sampler.top_p == 0.95);
  CHECK(settings.max_tokens == 2048);
  CHECK(settings.taken == Words{"temperature", "top_k", "top_p", "max_new_tokens"});
  CHECK(settings.notes == Words{"note: temperature 0.6, top_k 20, top_p 0.95, max_new_tokens 2048 "
                                "from generation_config.json"});
  args.drawing = {
      .temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0.1, .repetition_penalty = 1.2};
  args.max_tokens = 5;
  settings = generation_settings(args, file_of_a_model());
  CHECK(settings.sampler.temperature == 1);
  CHECK(settings.sampler.top_k == 0);
  CHECK(settings.sampler.top_p == 1);
  CHECK(settings.sampler.min_p == 0.1);
  CHECK(settings.sampler.repetition_penalty == 1.2);
  CHECK(settings.max_tokens == 5);
  CHECK(settings.taken.empty());
  CHECK(settings.notes.empty());
}

TEST_CASE("min_p and repetition_penalty of the file count, too", "[rankd]") {
  GenerationDefaults file;
  file.min_p = 0.05;
  file.repetition_penalty = 1.05;
  const GenerationSettings settings = generation_settings({}, file);
  CHECK(settings.sampler.min_p == 0.05);
  CHECK(settings.sampler.repetition_penalty == 1.05);
  CHECK(settings.taken == Words{"min_p", "repetition_penalty"});
}

TEST_CASE("do_sample false takes the likeliest token, unless a temperature is given", "[rankd]") {
  GenerationDefaults file = file_of_a_model();
  file.do_sample = false;
  file.repetition_penalty = 1.1;
  GenerateArgs args;
  GenerationSettings settings = generation_settings(args, file);
  CHECK(settings.sampler.temperature == 0);
  CHECK(settings.sampler.repetition_penalty == 1.1);
  CHECK(settings.taken == Words{"temperature", "repetition_penalty", "max_new_tokens"});
  CHECK(settings.notes == Words{"note: temperature 0 (do_sample false), repetition_penalty 1.1, "
                                "max_new_tokens 2048 from generation_config.json"});
  args.drawing.temperature = 0.9;
  settings = generation_settings(args, file);
  CHECK(settings.sampler.temperature == 0.9);
  CHECK(settings.sampler.top_p == 0.95);
}

TEST_CASE("what is not applied of the file, and samples that cannot differ, are told", "[rankd]") {
  GenerationDefaults file;
  file.not_applied = {"num_beams 4", "typical_p 0.9"};
  GenerateArgs args;
  CHECK(generation_settings(args, file).notes ==
        Words{"note: not applied from generation_config.json: num_beams 4, typical_p 0.9"});
  args.num_samples = 2;
  CHECK(generation_settings(args, {}).notes.empty());
  args.drawing.temperature = 0;
  CHECK(generation_settings(args, {}).notes ==
        Words{"note: at temperature 0 the samples of a prompt are the same text"});
}
