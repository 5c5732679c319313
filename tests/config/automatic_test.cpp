// What "auto" comes to is said where it decides what is trained.
#include "config/load.h"
#include "tests/support/catch.h"

namespace ds {

namespace {

std::string notes_of(const ReadConfig& read) {
  std::string out;
  for (const Problem& problem : read.problems.all()) {
    CHECK(problem.severity == Severity::kNote);
    out += problem.path + ": " + problem.message + "\n";
  }
  return out;
}

std::string notes_of(const char* text) { return notes_of(read_config_text(text, "f")); }

}  // namespace

TEST_CASE("auto of precision, rate, schedule and clipping is told with its value", "[config]") {
  const std::string said = notes_of(R"({
      "fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}, "gradient_clipping": "auto",
      "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto",
                                                "weight_decay": "auto"}},
      "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto",
                                                   "warmup_num_steps": "auto"}},
      "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}, "train": {"steps": 100}})");
  for (const char* note : {
           "fp16.enabled: \"auto\" is taken as false, as no trainer decides it: training is in "
           "fp32",
           "bf16.enabled: \"auto\" is taken as false",
           "optimizer.params.lr: \"auto\" is taken as 0.001,",
           "optimizer.params.betas: \"auto\" is taken as [0.9,0.999],",
           "scheduler.params.warmup_max_lr: \"auto\" is taken as the optimizer's learning rate,",
           "scheduler.params.warmup_num_steps: \"auto\" is taken as 1000,",
           "gradient_clipping: \"auto\" is taken as 1.0,",
           "scheduler.params.warmup_num_steps: 1000 steps of warm-up are more than the 100 of the "
           "run",
       }) {
    CHECK_THAT(said, Catch::Contains(note));
  }
  // How much is sent at once decides no result.
  CHECK_THAT(said, !Catch::Contains("reduce_bucket_size"));
}

TEST_CASE("precision beside auto is told as it is", "[config]") {
  CHECK_THAT(notes_of(R"({"fp16": {"enabled": "auto"}, "bf16": {"enabled": true}})"),
             Catch::Contains("fp16.enabled: ") && Catch::Contains("training is in bf16"));
  CHECK_THAT(notes_of(R"({"fp16": {"enabled": false}, "gradient_clipping": 1.0})"),
             !Catch::Contains("auto"));
}

TEST_CASE("the peak of a warm-up on auto is the optimizer's rate", "[config]") {
  const char* const text = R"({"optimizer": {"type": "AdamW", "params": {"lr": 3e-5}},
      "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_max_lr": "auto",
                    "warmup_num_steps": 2, "total_num_steps": "auto"}}, "train": {"steps": 9}})";
  const ReadConfig read = read_config_text(text, "f");
  CHECK(read.config.scheduler.warmup_decay.warmup_max_lr == std::vector<double>{3e-5});
  CHECK_THAT(notes_of(read),
             Catch::Contains("warmup_max_lr: \"auto\" is taken as the optimizer's learning rate") &&
                 Catch::Contains("total_num_steps: \"auto\" is taken as train.steps") &&
                 !Catch::Contains("warmup_num_steps"));
  const ReadConfig plain = read_config_text(
      R"({"scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 2}}})", "f");
  CHECK(plain.config.scheduler.warmup_decay.warmup_max_lr == std::vector<double>{0.001});
}

}  // namespace ds
