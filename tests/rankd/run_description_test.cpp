// What is said of a run before its first step.
#include "rankd/run_description.h"

#include "tests/support/catch.h"

namespace ds {

TEST_CASE("a run is told with its model, its data and how far it goes", "[rankd]") {
  RunOutline facts{.family = "gpt2",
                   .parameters = 124'439'808,
                   .dtype = "bf16",
                   .optimizer = "AdamW",
                   .stage = 2,
                   .samples = 2'500'000,
                   .documents = 417'000,
                   .validation = 20'000,
                   .length = 1024,
                   .batch = 32,
                   .steps = 600,
                   .tokenizer = "byte"};
  CHECK(description(facts) ==
        std::vector<std::string>{
            "model      gpt2, 124.4 M parameters, bf16, AdamW, ZeRO stage 2",
            "data       2.5 M samples of 1024 tokens a pass (2.6 G tokens, 417 K documents), "
            "20 K for validation, tokenizer byte",
            "plan       600 steps of 32 samples: 0.77 % of a pass, which is 78.1 K steps"});
  facts.frozen = 117'439'808;
  CHECK(description(facts).front() ==
        "model      gpt2, 124.4 M parameters (7 M train, 117.4 M are frozen), bf16, AdamW, ZeRO "
        "stage 2");
  facts.frozen = 0;
  facts.parameters = 417;
  facts.samples = 100;
  facts.documents = std::nullopt;
  facts.validation = 0;
  facts.tokenizer = "";
  facts.steps = 25;
  facts.batch = 6;
  CHECK(description(facts) ==
        std::vector<std::string>{"model      gpt2, 417 parameters, bf16, AdamW, ZeRO stage 2",
                                 "data       100 samples of 1024 tokens a pass (102.4 K tokens), "
                                 "token ids",
                                 "plan       25 steps of 6 samples: 1.5 passes"
                                 ", which is 17 steps"});
}

}  // namespace ds
