// Keys that nobody knows: what a release of DeepSpeed reads past is a note that says where the key
// would belong, and a slip for a real key is an error.
#include <fmt/format.h>

#include "config/load.h"
#include "tests/support/catch.h"

namespace ds {

namespace {

// "error path: message" and "note path: message", one a line.
std::string said_of(const std::string& text) {
  std::string out;
  const ReadConfig read = read_config_text(text, "f");
  for (const Problem& problem : read.problems.all()) {
    const bool error = problem.severity == Severity::kError;
    out += fmt::format("{} {}: {}\n", error ? "error" : "note", problem.path, problem.message);
  }
  return out;
}

}  // namespace

TEST_CASE("keys of other trainers are told their name here", "[config]") {
  for (const auto& [foreign, ours] : std::vector<std::pair<const char*, const char*>>{
           {"per_device_train_batch_size", "train_micro_batch_size_per_gpu"},
           {"global_batch_size", "train_batch_size"},
           {"num_train_epochs", "train.epochs"},
           {"max_steps", "train.steps"},
           {"train_iters", "train.steps"},
           {"learning_rate", "optimizer.params.lr"},
           {"warmup_steps", "scheduler.params.warmup_num_steps"},
           {"lr_scheduler_type", "scheduler.type"},
           {"clip_grad", "gradient_clipping"},
           {"max_grad_norm", "gradient_clipping"}}) {
    CAPTURE(foreign);
    CHECK_THAT(said_of(fmt::format("{{\"{}\": 1}}", foreign)),
               Catch::Contains(
                   fmt::format("note {}: is ignored, as by DeepSpeed: unknown key", foreign)) &&
                   Catch::Contains(ours));
  }
}

TEST_CASE("a key of another section is told where it belongs", "[config]") {
  CHECK_THAT(
      said_of(R"({"stage3_max_live_parameters": 1})"),
      Catch::Contains("note stage3_max_live_parameters: is ignored, as by DeepSpeed: unknown "
                      "key here, it belongs in zero_optimization"));
  CHECK_THAT(said_of(R"({"zero_optimization": {"gradient_clipping": 1}})"),
             Catch::Contains("it belongs in the top level"));
  CHECK_THAT(said_of(R"({"optimizer": {"type": "Adam", "lr": 1}})"),
             Catch::Contains("note optimizer.lr: is ignored, as by DeepSpeed: unknown key"));
}

TEST_CASE("keys that are passed over are named with the reason, comments too", "[config]") {
  for (const auto& [text, note] : std::vector<std::pair<const char*, const char*>>{
           {R"({"local_rank": 0})", "the launcher chooses devices and ranks"},
           {R"({"initial_scale_power": 3})", "a key of fp16"},
           {R"({"mp_size": 1})", "it belongs to DeepSpeed's inference engine"},
           {R"({"gradient_average": true})", "it is of an older release"},
           {R"({"optimizer": {"type": "Adam", "params": {"fused": true}}})",
            "it chooses how PyTorch computes the same"},
           {R"({"torch_autocast": {"enable": true}})", "the switch is enabled"},
           {R"({"_note": 1})", "a comment"},
           {R"({"# x": 1})", "a comment"},
           {R"({"$schema": "x"})", "a comment"},
           {R"({"readme": "x"})", "a comment"}}) {
    CAPTURE(text);
    const std::string said = said_of(text);
    CHECK_THAT(said, Catch::Contains(note) && Catch::Contains("note "));
    CHECK_THAT(said, !Catch::Contains("error"));
  }
  // Only whole words, and only in their section.
  CHECK_THAT(said_of(R"({"rank": 1})"),
             Catch::Contains("note rank: ") && Catch::Contains("unknown key"));
  CHECK_THAT(said_of(R"({"commented": 1})"), !Catch::Contains("a comment"));
  CHECK_THAT(said_of(R"({"optimizer": {"type": "SGD", "params": {"enable": 1}}})"),
             Catch::Contains("error optimizer.params.enable"));
}

TEST_CASE("what DeepSpeed of any release reads past is a note, with where it would belong",
          "[config]") {
  for (const auto& [text, note] : std::vector<std::pair<const char*, const char*>>{
           {R"({"fp16": {"enabled": true, "fp16": true}})",
            "fp16.fp16: is ignored, as by DeepSpeed "
            "before 0.17.1: GPT-NeoX's switch"},
           {R"({"bf16": {"enabled": true, "loss_scale_window": 1000}})",
            "unknown key here, it belongs in fp16"},
           {R"({"fp16": {"enabled": true, "type": "bfloat16"}})", "what the section bf16 turns on"},
           {R"({"fp16": {"enabled": true, "opt_level": "O2"}})", "it belongs in amp"},
           {R"({"fp16": {"initial_loss_scale_power": 3}})",
            "a slip of old documents for "
            "initial_scale_power"},
           {R"({"zero_optimization": {"stage": 2, "find_unused_parameters": true}})",
            "as by DeepSpeed before 0.7.0: it is of an older release"},
           {R"({"zero_optimization": {"stage": 3, "cpu_offload_pin_memory": true}})",
            "a misprint of cpu_offload_use_pin_memory"},
           {R"({"zero_optimization": {"stage": 3, "stage3_param_persitence_threshold": 1}})",
            "a misprint of stage3_param_persistence_threshold"},
           {R"({"zero_optimization": {"cpu_offload": false, "offload_optimizer": {}}})",
            "is an older spelling of offload_optimizer, which is given too and counts"},
           {R"({"activation_checkpointing": {"checkpoint_in_cpu": true}})", "unknown key"},
           {R"({"zero3_init_flag": true, "main_process_port": 29501})", "a key of accelerate"},
           {R"({"monitor_config": {"enabled": true}, "log": {"steps_per_print": 50}})",
            "note log: is ignored, as by DeepSpeed: unknown key"},
           {R"({"pipe-parallel-size": 1, "tensorboard-dir": "t", "sequence_parallel": true})",
            "note pipe-parallel-size: is ignored"},
           {R"({"pipe_parallel_size": 1, "learning_rate": 1})", "optimizer.params.lr"},
           {R"({"offload_optimizer": {"device": "cpu"}})", "it belongs in zero_optimization"},
           {R"({"number_checkpoints": 4})", "it belongs in activation_checkpointing"}}) {
    CAPTURE(text);
    const std::string said = said_of(text);
    CHECK_THAT(said, Catch::Contains(note));
    CHECK_THAT(said, !Catch::Contains("error"));
  }
}

TEST_CASE("a slip for a real key stays an error, and so does what every release refuses",
          "[config]") {
  for (const auto& [text, error] : std::vector<std::pair<const char*, const char*>>{
           {R"({"gradient_cliping": 1})", "did you mean \"gradient_clipping\"?"},
           {R"({"FP16": {"enabled": true}})", "error FP16: "},
           {R"({"fp16": {"enable": true}})", "did you mean \"enabled\"?"},
           {R"({"zero_optimisation": {"stage": 1}})", "error zero_optimisation: "},
           {R"({"zero_optimization": {"stagee": 1}})", "error zero_optimization.stagee: "},
           {R"({"zero_optimization": {"offload_param": {"devise": "cpu"}}})", "error "},
           {R"({"wandb": {"enabled": true, "entity": "me"}})", "error wandb.entity: unknown key"},
           {R"({"optimizer": {"type": "AdamW", "params": {"learning_rate": 1}}})", "error "},
           {R"({"scheduler": {"type": "WarmupLR", "params": {"steps": 1}}})", "error "},
           {R"({"train": {"batch": 1}})", "error train.batch: unknown key"},
           {R"({"optimizer": {"type": "sm3"}})", "; no other is available in this build"}}) {
    CAPTURE(text);
    CHECK_THAT(said_of(text), Catch::Contains(error) && Catch::Contains("error"));
  }
}

TEST_CASE("a key typed on the command line is meant for this program", "[config]") {
  const std::vector<std::string> typed = {"+learning_rate=1"};
  const ReadConfig read = read_config_text("{}", "f", typed);
  CHECK(read.problems.has_errors());
  CHECK(read.problems.all().front().message == "unknown key, here it is \"optimizer.params.lr\"");
  CHECK_FALSE(read_config_text("{learning_rate: 1}", "f").problems.has_errors());
}

}  // namespace ds
