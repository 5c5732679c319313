// Rules that join several keys, through whole texts: each is broken by one text and kept by a
// neighbour of it, and what is said stands at the key that is easiest to change.
#include <fmt/format.h>

#include "config/available.h"
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

struct Rule {
  const char* path;
  const char* message;
  std::string broken;
  std::string kept;
};

void check_rules(const std::string& severity, const std::vector<Rule>& rules) {
  for (const Rule& rule : rules) {
    const std::string told = fmt::format("{} {}: {}", severity, rule.path, rule.message);
    CAPTURE(rule.broken, rule.kept);
    CHECK_THAT(said_of(rule.broken), Catch::Contains(told));
    CHECK_THAT(said_of(rule.kept), !Catch::Contains(rule.message));
  }
}

}  // namespace

TEST_CASE("modes of precision exclude each other", "[config]") {
  check_rules(
      "error",
      {{"bf16.enabled", "fp16 and bf16 cannot be simultaneously enabled",
        R"({"fp16": {"enabled": true}, "bf16": {"enabled": true}})",
        R"({"fp16": {"enabled": false}, "bf16": {"enabled": true}})"},
       {"data_types.grad_accum_dtype", "without ZeRO is the model's type or fp32",
        R"({"data_types": {"grad_accum_dtype": "bf16"}})",
        R"({"data_types": {"grad_accum_dtype": "bf16"}, "zero_optimization": {"stage": 1}})"},
       {"fp16.loss_scale_window", "got 0, dynamic loss scaling needs a value > 0",
        R"({"fp16": {"enabled": true, "loss_scale_window": 0}})",
        R"({"fp16": {"enabled": true, "loss_scale_window": 0, "loss_scale": 8}})"},
       {"fp16.min_loss_scale", "got -1, dynamic loss scaling needs a value > 0",
        R"({"fp16": {"enabled": true, "min_loss_scale": -1}})",
        R"({"fp16": {"enabled": true, "min_loss_scale": 1}})"},
       {"fp16.loss_scale", "got 1e-45, expected 2^-126 (1.2e-38) to 2^126 (8.5e37)",
        R"({"fp16": {"enabled": true, "loss_scale": 1e-45}})",
        R"({"fp16": {"enabled": true, "loss_scale": 1e-37}})"},
       {"fp16.loss_scale", "got 1.7014118346046923e+38, expected 2^-126 (1.2e-38) to 2^126",
        R"({"fp16": {"enabled": true, "loss_scale": 1.7014118346046923e+38}})",
        R"({"fp16": {"enabled": true, "loss_scale": 8.507059173023462e37}})"},
       {"fp16.min_loss_scale", "got 1e+40, expected 2^-126 (1.2e-38) to 2^126 (8.5e37)",
        R"({"fp16": {"enabled": true, "min_loss_scale": 1e40}})",
        R"({"fp16": {"enabled": true, "min_loss_scale": 1e-10}})"},
       {"fp16.initial_scale_power", "got 200, expected integer >= -126, <= 126",
        R"({"fp16": {"enabled": true, "initial_scale_power": 200}})",
        R"({"fp16": {"enabled": true, "initial_scale_power": 126}})"},
       {"amp.loss_scale", "got 1e-45, expected 2^-126 (1.2e-38) to 2^126 (8.5e37)",
        R"({"amp": {"enabled": true, "loss_scale": 1e-45}})",
        R"({"amp": {"enabled": true, "loss_scale": 0.5}})"},
       {"zero_optimization.offload_optimizer.nvme_path", "is empty; give the folder",
        R"({"zero_optimization": {"stage": 3,
            "offload_optimizer": {"device": "nvme", "nvme_path": ""}}})",
        R"({"zero_optimization": {"stage": 3,
            "offload_optimizer": {"device": "cpu", "nvme_path": ""}}})"},
       {"zero_optimization.offload_param.nvme_path", "is empty; give the folder",
        R"({"zero_optimization": {"stage": 3,
            "offload_param": {"device": "nvme", "nvme_path": ""}}})",
        R"({"zero_optimization": {"stage": 2,
            "offload_param": {"device": "nvme", "nvme_path": ""}}})"},
       {"fp16.loss_scale", "Lamb and OneBitLamb need dynamic loss scaling",
        R"({"fp16": {"enabled": true, "loss_scale": 8}, "optimizer": {"type": "Lamb"}})",
        R"({"fp16": {"enabled": true, "loss_scale": 8}, "optimizer": {"type": "Adam"}})"},
       {"amp.loss_scale", "expected \"dynamic\" or a number > 0",
        R"({"amp": {"enabled": true, "loss_scale": "static"}})",
        R"({"amp": {"enabled": true, "loss_scale": "dynamic"}})"},
       {"amp.min_loss_scale", "expected a number > 0",
        R"({"amp": {"enabled": true, "min_loss_scale": 0}})",
        R"({"amp": {"enabled": true, "min_loss_scale": 1}})"},
       {"torch_autocast.enabled", "excludes fp16, bf16 and amp",
        R"({"torch_autocast": {"enabled": true, "dtype": "fp16"}, "bf16": {"enabled": true}})",
        R"({"torch_autocast": {"enabled": false}, "bf16": {"enabled": true}})"},
       {"torch_autocast.lower_precision_safe_modules", "no module type \"torch.nn.Lstm\"",
        R"({"torch_autocast": {"enabled": true,
            "lower_precision_safe_modules": ["torch.nn.Lstm"]}})",
        R"({"torch_autocast": {"enabled": true,
            "lower_precision_safe_modules": ["torch.nn.Linear", "torch.nn.Conv2d"]}})"}});
  check_rules("note", {{"amp.verbosity", "has no effect: of Apex's parameters",
                        R"({"amp": {"enabled": true, "verbosity": 1}})",
                        R"({"amp": {"enabled": false, "verbosity": 1}})"},
                       {"fp16.hysteresis", "has no effect at ZeRO stage 0",
                        R"({"fp16": {"enabled": true, "hysteresis": 4}})",
                        R"({"fp16": {"enabled": true, "hysteresis": 4},
                            "zero_optimization": {"stage": 1}})"}});
}

TEST_CASE("master weights of half precision need what keeps them", "[config]") {
  check_rules("error",
              {{"bf16.bf16_master_weights_and_grads", "is only supported with ZeRO stage 1, 2 or 3",
                R"({"bf16": {"enabled": true, "bf16_master_weights_and_grads": true}})",
                R"({"bf16": {"enabled": true, "bf16_master_weights_and_grads": true},
            "zero_optimization": {"stage": 1}})"},
               {"bf16.bf16_optimizer_states", "requires bf16_master_weights_and_grads",
                R"({"bf16": {"enabled": true, "bf16_optimizer_states": true},
            "zero_optimization": {"stage": 1}})",
                R"({"bf16": {"enabled": true, "bf16_optimizer_states": true,
                     "bf16_master_weights_and_grads": true},
            "zero_optimization": {"stage": 1}})"},
               {"bf16.bf16_master_weights_and_grads", "Lamb, Muon and 1-bit optimizers have fp32",
                R"({"bf16": {"enabled": true, "bf16_master_weights_and_grads": true},
            "zero_optimization": {"stage": 1}, "optimizer": {"type": "Lamb"}})",
                R"({"bf16": {"enabled": true, "bf16_master_weights_and_grads": true},
            "zero_optimization": {"stage": 1}, "optimizer": {"type": "Lion"}})"},
               {"fp16.fp16_master_weights_and_grads", "Lamb, Muon and 1-bit optimizers have fp32",
                R"({"fp16": {"enabled": true, "fp16_master_weights_and_grads": true},
            "zero_optimization": {"stage": 1}, "optimizer": {"type": "Muon"}})",
                R"({"fp16": {"enabled": true, "fp16_master_weights_and_grads": true},
            "zero_optimization": {"stage": 1}, "optimizer": {"type": "SGD"}})"},
               {"amp.opt_level", "Lamb, Muon and 1-bit optimizers have fp32",
                R"({"amp": {"enabled": true, "opt_level": "O3"}, "optimizer": {"type": "Muon"}})",
                R"({"amp": {"enabled": true, "opt_level": "O2"}, "optimizer": {"type": "Muon"}})"},
               {"optimizer.weight_rounding", "\"stochastic\" is for weights in bf16 without fp32",
                R"({"bf16": {"enabled": true},
            "optimizer": {"type": "AdamW", "weight_rounding": "stochastic"}})",
                R"({"bf16": {"enabled": true, "bf16_master_weights_and_grads": true},
            "zero_optimization": {"stage": 1},
            "optimizer": {"type": "AdamW", "weight_rounding": "stochastic"}})"},
               {"optimizer.moment_dtype", "contradicts bf16.bf16_optimizer_states",
                R"({"bf16": {"enabled": true, "bf16_optimizer_states": true,
                     "bf16_master_weights_and_grads": true}, "zero_optimization": {"stage": 1},
            "optimizer": {"type": "AdamW", "moment_dtype": "mxfp8"}})",
                R"({"bf16": {"enabled": true, "bf16_optimizer_states": true,
                     "bf16_master_weights_and_grads": true}, "zero_optimization": {"stage": 1},
            "optimizer": {"type": "AdamW", "moment_dtype": "bf16"}})"}});
}

TEST_CASE("sums instead of means of gradients work with few features", "[config]") {
  check_rules(
      "error",
      {{"gradient_allreduce_op", "\"sum\" does not work with ZeRO stage 3",
        R"({"gradient_allreduce_op": "sum", "zero_optimization": {"stage": 3}})",
        R"({"gradient_allreduce_op": "sum", "zero_optimization": {"stage": 2}})"},
       {"gradient_predivide_factor", "must be 1.0 with ZeRO stage 2 or 3 and reduce_scatter",
        R"({"gradient_predivide_factor": 2.0, "zero_optimization": {"stage": 2}})",
        R"({"gradient_predivide_factor": 1.0, "zero_optimization": {"stage": 2}})"}});
}

TEST_CASE("offloading works at the stages that have something to offload", "[config]") {
  check_rules("error", {{"zero_optimization.offload_optimizer.ratio",
                         "partial offload (ratio < 1) works with stage 3 only",
                         R"({"zero_optimization": {"stage": 2,
            "offload_optimizer": {"device": "cpu", "ratio": 0.5}}})",
                         R"({"zero_optimization": {"stage": 3,
            "offload_optimizer": {"device": "cpu", "ratio": 0.5}}})"},
                        {"zero_optimization.offload_optimizer.ratio",
                         "partial offload (ratio < 1) works with Adam and AdamW only",
                         R"({"optimizer": {"type": "SGD"}, "zero_optimization": {"stage": 3,
            "offload_optimizer": {"device": "cpu", "ratio": 0.5}}})",
                         R"({"optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 3,
            "offload_optimizer": {"device": "cpu", "ratio": 0.5}}})"},
                        {"zero_optimization.offload_optimizer.buffer_count",
                         "1 leaves none to read ahead (pipeline_read), expected at least 2",
                         R"({"zero_optimization": {"stage": 3, "offload_optimizer": {
            "device": "nvme", "buffer_count": 1, "pipeline_read": true}}})",
                         R"({"zero_optimization": {"stage": 3, "offload_optimizer": {
            "device": "nvme", "buffer_count": 2, "pipeline_read": true}}})"},
                        {"zero_optimization.offload_optimizer.buffer_count",
                         "2 leaves none to write behind (pipeline_write), expected at least 3",
                         R"({"zero_optimization": {"stage": 3, "offload_optimizer": {
            "device": "nvme", "buffer_count": 2, "pipeline_read": true,
            "pipeline_write": true}}})",
                         R"({"zero_optimization": {"stage": 3, "offload_optimizer": {
            "device": "nvme", "buffer_count": 2, "pipeline_write": true}}})"},
                        {"zero_optimization.offload_optimizer.buffer_count",
                         "1 leaves none to write behind (fast_init), expected at least 2",
                         R"({"zero_optimization": {"stage": 3, "offload_optimizer": {
            "device": "nvme", "buffer_count": 1, "fast_init": true}}})",
                         R"({"zero_optimization": {"stage": 3, "offload_optimizer": {
            "device": "cpu", "buffer_count": 1, "fast_init": true}}})"}});
  check_rules(
      "note",
      {{"zero_optimization.legacy_stage1", "the old stage 1 is gone",
        R"({"zero_optimization": {"stage": 1, "legacy_stage1": true}})",
        R"({"zero_optimization": {"stage": 1, "legacy_stage1": false}})"},
       {"zero_optimization.offload_param", "has no effect at ZeRO stage 2, which leaves parameters",
        R"({"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}})",
        R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}})"},
       {"zero_optimization.offload_optimizer.device", "nvme is for stage 3; at ZeRO stage 1",
        R"({"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "nvme"}}})",
        R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}}})"},
       {"fp16.min_loss_scale", "0 is taken as no floor, as by DeepSpeed before",
        R"({"fp16": {"enabled": true, "min_loss_scale": 0}})",
        R"({"fp16": {"enabled": true, "min_loss_scale": 1e-30}})"},
       {"torch_autocast.enabled", "has no effect beside bf16 or fp16 of the same type",
        R"({"torch_autocast": {"enabled": true, "dtype": "bf16"}, "bf16": {"enabled": true}})",
        R"({"torch_autocast": {"enabled": true, "dtype": "bf16"}, "bf16": {"enabled": false}})"},
       {"fp16.min_loss_scale", "is above the first scale, 16, which initial_scale_power says",
        R"({"fp16": {"enabled": true, "initial_scale_power": 4, "min_loss_scale": 17}})",
        R"({"fp16": {"enabled": true, "initial_scale_power": 4, "min_loss_scale": 16}})"},
       {"scheduler.params.warmup_num_steps", "30 steps of warm-up are more than the 20 of the run",
        R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 30}},
            "train": {"steps": 20}})",
        R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 20}},
            "train": {"steps": 20}})"}});
}

TEST_CASE("one-bit optimizers, nesterov and OneCycle need their companions", "[config]") {
  check_rules("error",
              {{"optimizer.type", "1-bit optimizers do not work with ZeRO",
                R"({"optimizer": {"type": "OneBitAdam"}, "zero_optimization": {"stage": 1}})",
                R"({"optimizer": {"type": "OneBitAdam"}, "zero_optimization": {"stage": 0}})"},
               {"optimizer.params.nesterov", "needs momentum > 0 and dampening 0",
                R"({"optimizer": {"type": "SGD", "params": {"nesterov": true}}})",
                R"({"optimizer": {"type": "SGD", "params": {"nesterov": true, "momentum": 0.9}}})"},
               {"optimizer.params.nesterov", "needs momentum > 0 and dampening 0",
                R"({"optimizer": {"type": "SGD",
            "params": {"nesterov": true, "momentum": 0.9, "dampening": 0.1}}})",
                R"({"optimizer": {"type": "SGD", "params": {"momentum": 0.9, "dampening": 0.1}}})"},
               {"scheduler.params", "OneCycle needs cycle_min_lr and cycle_max_lr",
                R"({"scheduler": {"type": "OneCycle"}})",
                R"({"scheduler": {"type": "OneCycle",
            "params": {"cycle_min_lr": 0.1, "cycle_max_lr": 0.2}}})"}});
}

TEST_CASE("sections without a type say nothing, and are told so", "[config]") {
  check_rules("note",
              {{"optimizer", "without type this section says nothing",
                R"({"optimizer": {"params": {}}})", R"({"optimizer": {"type": "Adam"}})"},
               {"scheduler", "without type this section says nothing",
                R"({"scheduler": {"params": {}}})", R"({"scheduler": {"type": "WarmupLR"}})"}});
}

TEST_CASE("a warm-up that is longer than the schedule is noted", "[config]") {
  for (const char* type : {"WarmupDecayLR", "WarmupCosineLR"}) {
    const auto said = [&](int total, int warmup) {
      return said_of(fmt::format(R"({{"scheduler": {{"type": "{}",
          "params": {{"total_num_steps": {}, "warmup_num_steps": {}}}}}}})",
                                 type, total, warmup));
    };
    CHECK_THAT(said(9, 10), Catch::Contains("note scheduler.params.total_num_steps: 9 is smaller "
                                            "than warmup_num_steps 10: the warm-up never ends"));
    CHECK_THAT(said(10, 10), !Catch::Contains("never ends"));
  }
}

TEST_CASE("a model is a family or a folder, and its numbers divide", "[config]") {
  check_rules("error",
              {{"model.family", "excludes model.folder",
                R"({"model": {"family": "gpt2", "folder": "m"}})", R"({"model": {"folder": "m"}})"},
               {"model.family", "give a family, or a folder with a Hugging Face model",
                R"({"model": {}})", R"({"model": {"family": "gpt2"}})"},
               {"model.labels", "expected at least two classes",
                R"({"model": {"family": "bert", "labels": ["a", "a"]}})",
                R"({"model": {"family": "bert", "labels": ["a"]}})"},
               {"model.labels", "expected at least two classes",
                R"({"model": {"family": "bert", "labels": ["a"],
                              "problem_type": "single_label_classification"}})",
                R"({"model": {"family": "bert", "labels": ["a"],
                              "problem_type": "multi_label_classification"}})"},
               {"model.labels", "expected at least two classes",
                R"({"model": {"family": "bert", "labels": ["a"],
                              "task": "token_classification"}})",
                R"({"model": {"family": "bert", "labels": ["a", "b"],
                              "task": "token_classification"}})"},
               {"model.problem_type", "is for classes of texts, and model.task scores one class",
                R"({"model": {"family": "bert", "labels": ["a", "b"], "problem_type": "regression",
                              "task": "token_classification"}})",
                R"({"model": {"family": "bert", "labels": ["a", "b"], "problem_type": "regression",
                              "task": "sequence_classification"}})"},
               {"model.problem_type", "nothing says which classes there are",
                R"({"model": {"family": "bert", "problem_type": "regression"}})",
                R"({"model": {"family": "bert", "problem_type": "regression", "labels": ["a"]}})"},
               {"model.n_head", "5 does not divide n_embd = 768",
                R"({"model": {"family": "gpt2", "n_head": 5}})",
                R"({"model": {"family": "gpt2", "n_head": 6}})"},
               {"model.num_attention_heads", "3 does not divide hidden_size = 64",
                R"({"model": {"family": "llama", "hidden_size": 64, "num_attention_heads": 3,
                      "num_key_value_heads": 3}})",
                R"({"model": {"family": "llama", "hidden_size": 64, "num_attention_heads": 3,
                      "num_key_value_heads": 3, "head_dim": 16}})"},
               {"model.num_key_value_heads", "3 does not divide num_attention_heads = 8",
                R"({"model": {"family": "llama", "hidden_size": 64, "num_attention_heads": 8,
                      "num_key_value_heads": 3}})",
                R"({"model": {"family": "llama", "hidden_size": 64, "num_attention_heads": 8,
                      "num_key_value_heads": 4}})"}});
}

TEST_CASE("lengths of training and parts of data are given once", "[config]") {
  check_rules("error",
              {{"train.epochs", "excludes train.steps", R"({"train": {"steps": 5, "epochs": 1}})",
                R"({"train": {"epochs": 1}})"},
               {"train.copy_in_memory_every", "5 is no multiple of save_in_memory_every = 2",
                R"({"train": {"save_in_memory_every": 2, "copy_in_memory_every": 5}})",
                R"({"train": {"save_in_memory_every": 2, "copy_in_memory_every": 6}})"},
               {"train.copy_in_memory_every", "4 is no multiple of save_in_memory_every = 0",
                R"({"train": {"copy_in_memory_every": 4}})",
                R"({"train": {"save_in_memory_every": 4, "copy_in_memory_every": 4}})"},
               {"data.validation_fraction", "excludes data.validation",
                R"({"data": {"train": ["a"], "validation": ["b"], "validation_fraction": 0.1}})",
                R"({"data": {"train": ["a"], "validation_fraction": 0.1}})"},
               {"data.weights", "has 3 numbers for the 2 entries of data.train; give one for each",
                R"({"data": {"train": ["a", "b"], "weights": [1, 2, 3]}})",
                R"({"data": {"train": ["a", "b"], "weights": [1, 2]}})"}});
  check_rules("note", {{"vocabulary_size", "is no multiple of 8", R"({"vocabulary_size": 50257})",
                        R"({"vocabulary_size": 50264})"}});
}

TEST_CASE("elastic jobs need their numbers and leave no others", "[config]") {
  const char* const whole =
      R"({"elasticity": {"enabled": true, "max_train_batch_size": 100,
                         "micro_batch_sizes": [2, 4]}})";
  check_rules(
      "error",
      {{"elasticity.max_train_batch_size", "is required when elasticity is enabled",
        R"({"elasticity": {"enabled": true, "micro_batch_sizes": [2]}})", whole},
       {"elasticity.micro_batch_sizes", "is required when elasticity is enabled",
        R"({"elasticity": {"enabled": true, "max_train_batch_size": 100}})", whole},
       {"train_batch_size", "elasticity decides the batch",
        R"({"train_batch_size": 8, "elasticity": {"enabled": true, "max_train_batch_size": 100,
            "micro_batch_sizes": [2, 4]}})",
        R"({"train_batch_size": 8, "elasticity": {"enabled": true, "max_train_batch_size": 100,
            "micro_batch_sizes": [2, 4], "ignore_non_elastic_batch_info": true}})"},
       {"elasticity", "min_gpus 9 exceeds max_gpus 8",
        R"({"elasticity": {"enabled": true, "max_train_batch_size": 100,
            "micro_batch_sizes": [2, 4], "min_gpus": 9, "max_gpus": 8}})",
        R"({"elasticity": {"enabled": true, "max_train_batch_size": 100,
            "micro_batch_sizes": [2, 4], "min_gpus": 8, "max_gpus": 8}})"}});
}

TEST_CASE("an update ahead of the norm is element by element", "[config]") {
  check_rules(
      "error",
      {{"zero_optimization.offload_optimizer.super_offload",
        "updates part by part during the backward pass, but Lamb needs norms of whole parameters",
        R"({"optimizer": {"type": "Lamb"}, "zero_optimization": {"stage": 2,
            "offload_optimizer": {"device": "cpu", "super_offload": true}}})",
        R"({"optimizer": {"type": "Lion"}, "zero_optimization": {"stage": 2,
            "offload_optimizer": {"device": "cpu", "super_offload": true}}})"},
       {"zero_optimization.offload_optimizer.super_offload",
        "updates part by part during the backward pass, but Muon needs whole matrices",
        R"({"optimizer": {"type": "Muon"}, "zero_optimization": {"stage": 2,
            "offload_optimizer": {"device": "cpu", "super_offload": true}}})",
        R"({"optimizer": {"type": "Muon"}, "zero_optimization": {"stage": 2,
            "offload_optimizer": {"device": "cpu"}}})"}});
}

namespace {

// Returns a file with ZenFlow at stage 3, and with more in its sections.
std::string with_zenflow(const std::string& zenflow, const std::string& offload = "",
                         const std::string& zero = "", const std::string& more = "") {
  return fmt::format(
      R"({{"zero_optimization": {{"stage": 3, "offload_optimizer": {{"device": "cpu"{}}},
          "zenflow": {{{}}}{}}}{}}})",
      offload, zenflow, zero, more);
}

}  // namespace

TEST_CASE("ZenFlow is of Adam's state on the cpu, and shares it out alone", "[config]") {
  const std::string plain = with_zenflow("");
  constexpr const char* kPath = "zero_optimization.zenflow";
  check_rules(
      "error",
      {{kPath,
        "keeps the rest's state in the host's memory, expected offload_optimizer.device \"cpu\"",
        R"({"zero_optimization": {"stage": 3, "zenflow": {},
            "offload_optimizer": {"device": "nvme", "nvme_path": "/tmp"}}})",
        plain},
       {kPath, "shares state out by columns; remove offload_optimizer.ratio",
        with_zenflow("", R"(, "ratio": 0.5)"), plain},
       {kPath, "hides the host's update as super_offload does",
        with_zenflow("", R"(, "super_offload": true)"), plain},
       {kPath, "updates important weights on the device, where offload_param does not keep them",
        with_zenflow("", "", R"(, "offload_param": {"device": "cpu"})"), plain},
       {kPath, "works with Adam and AdamW",
        with_zenflow("", "", "", R"(, "optimizer": {"type": "Lion"})"),
        with_zenflow("", "", "", R"(, "optimizer": {"type": "Adam"})")},
       {kPath, "works with Adam and AdamW",
        with_zenflow("", "", "", R"(, "optimizer": {"type": "Muon"})"), plain},
       {kPath, "keeps its moments in fp32",
        with_zenflow("", "", "", R"(, "optimizer": {"type": "AdamW", "moment_dtype": "bf16"})"),
        plain},
       {"zero_optimization.zenflow.offload", "needs overlap_comm at stage 3",
        with_zenflow(R"("offload": true)", "", R"(, "overlap_comm": false)"),
        with_zenflow(R"("offload": true)")},
       {"zero_optimization.zenflow.select_interval", "must be >= update_interval",
        with_zenflow(R"("select_strategy": "step", "select_interval": 3, "update_interval": 4)"),
        with_zenflow(R"("select_strategy": "epoch", "select_interval": 3, "update_interval": 4)")},
       {"zero_optimization.zenflow.select_interval", "0, expected at least 1",
        with_zenflow(R"("select_strategy": "step", "select_interval": 0)"),
        with_zenflow(R"("select_strategy": "step", "select_interval": 1)")}});
}

TEST_CASE("keys of ZenFlow that others make idle are told so, and when its rest is updated",
          "[config]") {
  const std::string all =
      with_zenflow(R"("select_strategy": "epoch", "select_interval": 2, "overlap_step": true,
                      "pt_reserved_cores_perc": 0.25, "auto_ratio": 0.5)");
  check_rules(
      "note",
      {{"zero_optimization.zenflow.select_interval", "has no effect where select_strategy is auto",
        with_zenflow(R"("select_interval": 2)"), all},
       {"zero_optimization.zenflow.auto_ratio", "has no effect unless update_interval is auto",
        with_zenflow(R"("auto_ratio": 0.5, "update_interval": 4)"), all},
       {"zero_optimization.zenflow.pt_reserved_cores_perc",
        "has no effect unless overlap_step is true",
        with_zenflow(R"("pt_reserved_cores_perc": 0.25)"), all},
       {"zero_optimization.offload_optimizer",
        "the host's update of what zenflow finds less important is made every 4 steps, while the "
        "next ones go on",
        with_zenflow(R"("update_interval": 4, "overlap_step": true)"), all}});
}

TEST_CASE("who clips with Muon is told what is clipped", "[config]") {
  check_rules("note", {{"gradient_clipping", "0.5 bounds the norm of the gradients, before Muon's",
                        R"({"optimizer": {"type": "Muon"}, "gradient_clipping": 0.5})",
                        R"({"optimizer": {"type": "AdamW"}, "gradient_clipping": 0.5})"},
                       {"gradient_clipping", "1 bounds the norm of the gradients, before Muon's",
                        R"({"optimizer": {"type": "Muon"}})",
                        R"({"optimizer": {"type": "Muon"}, "gradient_clipping": 0})"}});
}

TEST_CASE("a file is told when the host's update begins, and why", "[config]") {
  constexpr const char* kPath = "zero_optimization.offload_optimizer";
  constexpr const char* kAhead = R"({"zero_optimization": {"stage": 2,
            "offload_optimizer": {"super_offload": true, "cpuadam_cores_perc": 0.5}}})";
  check_rules(
      "note",
      {{kPath, "the host's update begins after the norm is known: gradient_clipping is 1",
        R"({"zero_optimization": {"stage": 2, "offload_optimizer": {}}})", kAhead},
       {kPath, "the host's update begins after the norm is known: fp16 skips steps",
        R"({"fp16": {"enabled": true}, "gradient_clipping": 0,
            "zero_optimization": {"stage": 2, "offload_optimizer": {}}})",
        kAhead},
       {kPath, "the host's update begins after the norm is known: a step that is not finite",
        R"({"gradient_clipping": 0,
            "zero_optimization": {"stage": 2, "offload_optimizer": {}}})",
        kAhead},
       {kPath, "the host's update begins after the norm is known: Lamb needs norms",
        R"({"optimizer": {"type": "Lamb"},
            "zero_optimization": {"stage": 2, "offload_optimizer": {}}})",
        kAhead},
       {"zero_optimization.offload_optimizer.cpuadam_cores_perc",
        "has no effect unless super_offload is true",
        R"({"zero_optimization": {"stage": 2,
            "offload_optimizer": {"cpuadam_cores_perc": 0.5}}})",
        kAhead},
       {"zero_optimization.offload_optimizer.super_offload",
        "keeps the new weights of a rank in the host's memory until the norm is known",
        R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"},
            "offload_optimizer": {"device": "nvme", "super_offload": true}}})",
        kAhead}});
}

TEST_CASE("keys that something else makes idle are told what", "[config]") {
  check_rules(
      "note",
      {{"train.eval_every", "has no effect without validation data",
        R"({"train": {"eval_every": 5}})",
        R"({"train": {"eval_every": 5}, "data": {"train": ["a"], "validation": ["b"]}})"},
       {"train.eval_every", "has no effect without validation data",
        R"({"train": {"eval_every": 5}})", R"({"train": {"eval_every": 5, "sample_prompt": "a"}})"},
       {"train.eval_batches", "has no effect without validation data",
        R"({"train": {"eval_batches": 5, "sample_prompt": "a"}})",
        R"({"train": {"eval_batches": 5}, "data": {"train": ["a"], "validation": ["b"]}})"},
       {"train.sample_length", "has no effect without sample_prompt",
        R"({"train": {"sample_length": 5}})",
        R"({"train": {"sample_length": 5, "sample_prompt": "a"}})"},
       {"zero_optimization.offload_optimizer.nvme_path", "has no effect unless device is nvme",
        R"({"zero_optimization": {"stage": 3,
            "offload_optimizer": {"device": "cpu", "nvme_path": "/x"}}})",
        R"({"zero_optimization": {"stage": 3,
            "offload_optimizer": {"device": "nvme", "nvme_path": "/x"}}})"},
       {"zero_optimization.offload_param.max_in_cpu", "has no effect unless device is nvme",
        R"({"zero_optimization": {"stage": 3,
            "offload_param": {"device": "cpu", "max_in_cpu": 5}}})",
        R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}})"},
       {"fp16.hysteresis", "has no effect with a static loss scale",
        R"({"fp16": {"enabled": true, "loss_scale": 8, "hysteresis": 3}})",
        R"({"fp16": {"enabled": true, "hysteresis": 3}})"}});
}

TEST_CASE("one value under two of its names is refused with both places", "[config]") {
  CHECK_THAT(said_of(R"({"zero_optimization": {"stage3_max_live_parameters": 5,
                          "max_live_parameters": 6}})"),
             Catch::Contains("error zero_optimization.max_live_parameters: is another name of "
                             "\"stage3_max_live_parameters\", which is also given at f:1:24"));
  CHECK_THAT(said_of(R"({"zero_optimization": {"max_live_parameters": 6}})"),
             Catch::Contains("note zero_optimization.max_live_parameters: is an older name of "
                             "\"stage3_max_live_parameters\""));
}

TEST_CASE("the communication log is asked for operations that there are", "[config]") {
  check_rules("error", {{"comms_logger.prof_ops",
                         "no operation \"gather_all\" is known; there are all_reduce, all_gather",
                         R"({"comms_logger": {"enabled": true, "prof_all": false,
            "prof_ops": ["all_gather", "gather_all"]}})",
                         R"({"comms_logger": {"enabled": true, "prof_all": false,
            "prof_ops": ["all_gather", "split"]}})"}});
  check_rules("note",
              {{"comms_logger.prof_ops", "has no effect where prof_all is true",
                R"({"comms_logger": {"enabled": true, "prof_ops": ["all_gather"]}})",
                R"({"comms_logger": {"enabled": true, "prof_all": false,
            "prof_ops": ["all_gather"]}})"},
               {"comms_logger.enabled", "has no effect where prof_all is false and prof_ops names",
                R"({"comms_logger": {"enabled": true, "prof_all": false}})",
                R"({"comms_logger": {"enabled": true, "prof_all": true}})"}});
}

TEST_CASE("curvature is measured where gradients of whole weights in fp32 are", "[config]") {
  const auto with = [](const std::string& others, int blocks = 2) {
    return fmt::format(R"({{"model": {{"family": "gpt2", "n_layer": 2}}{}, "eigenvalue": {{
        "enabled": true, "layer_name": "transformer.h", "layer_num": {}, "verbose": true}}}})",
                       others, blocks);
  };
  const std::string kept = with(R"(, "zero_optimization": {"stage": 1})");
  const auto excludes = [&](const char* what, const std::string& others) {
    return Rule{"eigenvalue.enabled", what, with(", " + others), kept};
  };
  check_rules(
      "error",
      {excludes("excludes ZeRO stages 2 and 3", R"("zero_optimization": {"stage": 2})"),
       excludes("excludes fp16, bf16, amp and torch_autocast", R"("bf16": {"enabled": true})"),
       excludes("excludes fp16, bf16, amp and torch_autocast", R"("fp16": {"enabled": true})"),
       excludes("excludes fp16, bf16, amp and torch_autocast", R"("amp": {"enabled": true})"),
       excludes("excludes fp16, bf16, amp and torch_autocast",
                R"("torch_autocast": {"enabled": true})"),
       excludes("excludes offload_optimizer", R"("zero_optimization": {"stage": 1,
            "offload_optimizer": {"device": "cpu"}})"),
       excludes("excludes tensor and sequence parallelism", R"("sequence_parallel_size": 2)"),
       excludes("excludes tensor and sequence parallelism",
                R"("tensor_parallel": {"autotp_size": 2})"),
       excludes("excludes sparse_gradients", R"("sparse_gradients": true)"),
       excludes("excludes ZeroOneAdam", R"("optimizer": {"type": "ZeroOneAdam"})"),
       {"eigenvalue.layer_name",
        "\"bert.encoder.layer\", but the blocks of this model are "
        "\"transformer.h\"; set that",
        R"({"model": {"family": "gpt2"}, "eigenvalue": {"enabled": true, "layer_num": 1}})", kept},
       {"eigenvalue.layer_name",
        "\"transformer.h\", but the blocks of this model are "
        "\"model.layers\"; set that",
        R"({"model": {"family": "llama"}, "eigenvalue": {"enabled": true, "layer_num": 1,
            "layer_name": "transformer.h"}})",
        kept},
       {"eigenvalue.layer_num", "3, but the model has 2 blocks; expected at most that", with("", 3),
        kept},
       {"eigenvalue.layer_num", "must be greater than 0 when eigenvalue is enabled",
        R"({"eigenvalue": {"enabled": true}})", R"({"eigenvalue": {"enabled": false}})"}});
  check_rules("note",
              {{"eigenvalue.enabled", "eigenvalues are computed, and nobody is told of them",
                R"({"eigenvalue": {"enabled": true, "layer_num": 1}})", kept}});
}

TEST_CASE("auto is as good as not given, and cannot stand for what must be given", "[config]") {
  const ReadConfig read = read_config_text(
      R"({"train_batch_size": "auto", "gradient_clipping": "auto",
          "zero_optimization": {"stage": "auto", "reduce_bucket_size": "auto"}})",
      "f");
  CHECK_FALSE(read.problems.has_errors());
  CHECK_FALSE(read.config.train_batch_size.has_value());
  CHECK(read.config.zero_optimization.stage == 0);
  CHECK(read.config.zero_optimization.reduce_bucket_size == 500'000'000);
  CHECK_THAT(said_of(R"({"scheduler": {"type": "OneCycle",
                          "params": {"cycle_min_lr": "auto", "cycle_max_lr": 1}}})"),
             Catch::Contains("error scheduler.params.cycle_min_lr: \"auto\" has nothing to be "
                             "derived from here; give a value"));
}

TEST_CASE("patterns that are no regular expressions are found where they stand", "[config]") {
  CHECK_THAT(said_of(R"({"activation_checkpointing": {"enabled": true, "modules": ["a("]}})"),
             Catch::Contains("error activation_checkpointing.modules: 'a(' is no regular "
                             "expression (at character 2)"));
  CHECK_THAT(said_of(R"({"pipeline": {"stages": 2, "partition": "type:[a"}})"),
             Catch::Contains("error pipeline.partition: '[a' is no regular expression"));
  CHECK_FALSE(read_config_text(R"({"pipeline": {"partition": "type:[a"}})", "f")
                  .problems.has_errors());  // without stages nobody looks for it
}

}  // namespace ds
