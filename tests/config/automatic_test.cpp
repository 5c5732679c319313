// What each "auto" comes to is said.
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

TEST_CASE("each auto is told with the value that it is taken as, and whose it would be",
          "[config]") {
  const std::string said = notes_of(R"({
      "fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}, "gradient_clipping": "auto",
      "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto",
                                                "weight_decay": "auto", "torch_adam": "auto"}},
      "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto",
                                                   "warmup_num_steps": "auto"}},
      "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}, "train": {"steps": 100},
      "train_micro_batch_size_per_gpu": 1, "train_batch_size": "auto"})");
  for (const char* note : {
           "fp16.enabled: \"auto\" is taken as false, so that training is in fp32 precision; the "
           "Trainer of Hugging Face puts its fp16 here",
           "bf16.enabled: \"auto\" is taken as false",
           "optimizer.params.lr: \"auto\" is taken as 0.001, the default; the Trainer of Hugging "
           "Face puts its learning_rate here",
           "optimizer.params.betas: \"auto\" is taken as [0.9,0.999], the default; ",
           "optimizer.params.torch_adam: \"auto\" is taken as false, the default\n",
           "scheduler.params.warmup_max_lr: \"auto\" is taken as 0.001, the learning rate of the "
           "optimizer\n",
           "scheduler.params.warmup_num_steps: \"auto\" is taken as 1000, the default; ",
           "gradient_clipping: \"auto\" is taken as 1.0, the default; ",
           "scheduler.params.warmup_num_steps: 1000 steps of warm-up are more than the 100 of the "
           "run",
           "zero_optimization.reduce_bucket_size: \"auto\" is taken as 500000000, the default; the "
           "Trainer of Hugging Face puts hidden_size * hidden_size here",
           "train_batch_size: \"auto\" is taken as not given; the Trainer",
       }) {
    CHECK_THAT(said, Catch::Contains(note));
  }
}

TEST_CASE("an auto is told wherever it stands, under an older name and in lists, too", "[config]") {
  const std::string said = notes_of(R"({
      "optimizer": {"type": "AdamW", "param_groups": [{"match": "*.bias", "lr": "auto"}]},
      "zero_optimization": {"stage": 3, "max_live_parameters": "auto", "offload_param": "auto"},
      "data": {"tokenizer": "auto"}, "train": {"seed": "auto"}})");
  for (const char* note : {
           "optimizer.param_groups[0].lr: \"auto\" is taken as not given: that of optimizer.params",
           "zero_optimization.stage3_max_live_parameters: \"auto\" is taken as 1000000000, the "
           "default",
           "zero_optimization.offload_param: \"auto\" is taken as not given",
           "train.seed: \"auto\" is taken as 1234, the default\n",
       }) {
    CHECK_THAT(said, Catch::Contains(note));
  }
}

TEST_CASE("a key that has auto among its own values is left alone", "[config]") {
  const std::string said = notes_of(R"({"train": {"resume": "auto"},
      "communication": {"backend": "auto"}, "pipeline": {"stages": "auto"}})");
  CHECK_THAT(said, !Catch::Contains("taken as"));
}

TEST_CASE("a tokenizer on auto is that of the model's folder", "[config]") {
  const ReadConfig read =
      read_config_text(R"({"model": {"folder": "/m"}, "data": {"tokenizer": "auto"}})", "f");
  CHECK(read.config.data.tokenizer == "/m");
  CHECK_THAT(notes_of(read), Catch::Contains("data.tokenizer: \"auto\" is taken as \"/m\""));
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
  CHECK_THAT(
      notes_of(read),
      Catch::Contains("warmup_max_lr: \"auto\" is taken as 3e-05, the learning rate of the "
                      "optimizer") &&
          Catch::Contains("total_num_steps: \"auto\" is taken as not given: train.steps; ") &&
          !Catch::Contains("warmup_num_steps"));
  const ReadConfig flat = read_config_text(
      R"({"optimizer": {"type": "Lion", "params": {"lr": 2e-4}},
          "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto"}}})",
      "f");
  CHECK(flat.config.scheduler.warmup.warmup_max_lr == std::vector<double>{2e-4});
  const ReadConfig plain = read_config_text(
      R"({"scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 2}}})", "f");
  CHECK(plain.config.scheduler.warmup_decay.warmup_max_lr == std::vector<double>{0.001});
}

}  // namespace ds
