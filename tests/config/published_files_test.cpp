// The shapes that published DeepSpeed configurations have: what DeepSpeed passes over is worth a
// note here, and what this build lacks is refused by name.
#include "config/available.h"
#include "config/load.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {

namespace {

// "error path: message" and "note path: message", one a line, as `dslaunch check` counts them.
std::string said_of(const std::string& text) {
  ReadConfig read = read_config_text(text, "f");
  check_available(read.config, read.origins, read.problems);
  std::string out;
  for (const Problem& problem : read.problems.all()) {
    out += problem.severity == Severity::kError ? "error " : "note ";
    out += problem.path + ": " + problem.message + "\n";
  }
  return out;
}

// Every error is that of a missing feature.
bool only_lacks_features(const std::string& text) {
  ReadConfig read = read_config_text(text, "f");
  check_available(read.config, read.origins, read.problems);
  for (const Problem& problem : read.problems.all()) {
    const bool named = problem.message.find("not available in this build") != std::string::npos;
    if (problem.severity == Severity::kError && (!named || problem.path.empty())) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("harmless and null values of published files get notes", "[config]") {
  for (const char* text : {
           R"({"autotuning": {"results_dir": null, "exps_dir": null, "overwrite": null}})",
           R"({"wall_clock_breakdown": null, "prescale_gradients": null,
              "gradient_clipping": null})",
           R"({"sparse_attention": {"mode": "dense", "local_window_blocks": [4],
              "num_random_blocks": 1,
                "global_block_indices": [0], "num_sliding_window_blocks": 3}})",
           R"({"optimizer": {"params": {"lr": 1e-3}},
              "scheduler": {"params": {"warmup_num_steps": 3}}})",
           R"({"zero_optimization": {"stage": 0, "offload_optimizer": {"device": "cpu"},
                "offload_param": {"device": "nvme", "nvme_path": "/x"}, "mics_shard_size": -5}})",
           R"({"zero_optimization": {"stage": 2, "stage3_gather_16bit_weights_on_model_save": true,
                "zero_quantized_weights": true, "zero_hpz_partition_size": 8,
                    "mics_shard_size": 2}})",
           R"({"activation_checkpointing": {"number_checkpoints": 4, "profile": true,
                "synchronize_checkpoint_boundary": true}})",
           R"({"bf16": {"enabled": true}, "bfloat16": {"enabled": true}})",
           R"({"zero_optimization": {"stage": 1}, "allgather_size": 7})",
           R"({"cuda_visible_devices": "0,1", "grandient_accumulation_steps": 1, "_comment": "x",
              "// doc": [1]})",
           R"({"compile": {"enabled": true, "backend": "inductor"}})",
           R"({"eigenvalue": {"enabled": false, "model_name": "bert", "max_iter": 0}})",
           R"({"progressive_layer_drop": {"enabled": false, "theta": 2}})",
           R"({"fp16": {"enabled": "auto", "loss_scale": 0}, "train_batch_size": "auto",
              "scheduler": {
                "type": "WarmupDecayLR", "params": {"total_num_steps": "auto",
                    "warmup_num_steps": "auto"}}})",
       }) {
    CAPTURE(text);
    CHECK_THAT(said_of(text), !Catch::Contains("error"));
    CHECK_THAT(said_of(text), Catch::Contains("note"));
  }
}

TEST_CASE("a quantization period of nothing is a value", "[config]") {
  CHECK(said_of(
            R"({"compression_training": {"weight_quantization": {
                 "shared_parameters": {"enabled": false},
                    "different_groups": {"g": {"params": {"quantization_period": 0}}}}}})")
            .empty());
}

TEST_CASE("what DeepSpeed takes for a value is taken for the same here", "[config]") {
  for (const char* text : {
           R"({"data_types": {"grad_accum_dtype": "float32", "param_dtype": "torch.float32",
              "buffer_dtype": null}})",
           R"({"torch_autocast": {"enabled": false, "dtype": "torch.bfloat16"}})",
           R"({"optimizer": {"type": "Adam", "params": null}})",
           R"({"amp": {"enabled": "auto", "opt_level": "auto"}})",
           R"({"quantize_training": {"enabled": false, "quantize_bits": {"start_bits": 16}}})",
           R"({"weight_quantization": {}, "quantize_training": {}})",
       }) {
    CAPTURE(text);
    CHECK_THAT(said_of(text), !Catch::Contains("error"));
  }
  const Config config =
      parse_config(R"({"zero_optimization": {"stage": 1}, "bf16": {"enabled": true},
                                         "data_types": {"grad_accum_dtype": "torch.bfloat16"}})");
  CHECK(config.data_types.grad_accum_dtype == FloatType::kBf16);
}

TEST_CASE("null takes the default, and the note says which", "[config]") {
  const ReadConfig read =
      read_config_text(R"({"gradient_clipping": null, "data": {"order": null}})", "f");
  CHECK(read.config.gradient_clipping == 1.0);
  CHECK_FALSE(read.origins.contains("gradient_clipping"));
  CHECK_THAT(said_of(R"({"gradient_clipping": null})"),
             Catch::Contains("null is taken as not given: it is 1"));
}

TEST_CASE("what is missing in this build is named, with what there is", "[config]") {
  CHECK_THAT(
      said_of(R"({"model": {"family": "resnet"}})"),
      Catch::Contains("model.family: not available in this build as \"resnet\"; available are "
                      "gpt2, llama, mistral, qwen2, qwen3, gemma, gemma2, granite, "
                      "gemma3_text, phi3, smollm3, stablelm, starcoder2, gpt_neox, opt, bert, "
                      "roberta, olmo2, olmo3, modernbert, xlm-roberta, distilbert, mixtral, "
                      "qwen2_moe, qwen3_moe, olmoe"));
  CHECK_THAT(said_of(R"({"optimizer": {"type": "NAdam"}})"),
             Catch::Contains("PyTorch's NAdam is not available"));
  CHECK_THAT(said_of(R"({"scheduler": {"type": "CosineAnnealingLR"}})"),
             Catch::Contains("PyTorch's CosineAnnealingLR is not available in this build"));
  CHECK_THAT(said_of(R"({"train_micro_batch_size_per_gpu": [1, 4]})"),
             Catch::Contains("autotuning, which is not available in this build"));
}

TEST_CASE("a feature that is missing is the one error of its section", "[config]") {
  for (const char* text : {
           R"({"compression_training": {"weight_quantization": {
                 "shared_parameters": {"enabled": true},
                "different_groups": {}}}})",
           R"({"expert_parallel": {"enabled": true, "autoep_size": 2, "expert_w1": "w1",
              "routing": 1}})",
       }) {
    CAPTURE(text);
    CHECK(only_lacks_features(text));
    CHECK_THAT(said_of(text), Catch::Contains("error"));
  }
}

TEST_CASE("keys that choose how DeepSpeed does the same are valid, and told what is so here",
          "[config]") {
  const std::string said = said_of(
      R"({"graph_harvesting": true, "bf16": {"enabled": true, "check_grad_overflow": true},
          "zero_optimization": {"stage": 3, "overlap_comm": true, "reduce_scatter": true,
              "stage3_model_persistence_threshold": 1, "elastic_checkpoint": true,
              "stage3_use_all_reduce_for_fetch_params": true}})");
  CHECK_THAT(said, !Catch::Contains("error"));
  for (const char* key : {"graph_harvesting", "bf16.check_grad_overflow",
                          "zero_optimization.stage3_model_persistence_threshold",
                          "zero_optimization.stage3_use_all_reduce_for_fetch_params"}) {
    CHECK_THAT(said, Catch::Contains(std::string("note ") + key + ": has no effect here: "));
  }
  // What they ask for is so anyway.
  CHECK_THAT(said,
             !Catch::Contains("reduce_scatter:") && !Catch::Contains("elastic_checkpoint: has no"));
}

TEST_CASE("a value that is refused is not called idle as well", "[config]") {
  const std::string said = said_of(R"({"train": {"log_every": 0}})");
  CHECK_THAT(said, Catch::Contains("error train.log_every"));
  CHECK_THAT(said, !Catch::Contains("note train.log_every"));
}

TEST_CASE("what is missing in a section that is off, or at another stage, is not asked for",
          "[config]") {
  for (const char* text : {
           R"({"zero_optimization": {"stage": 2, "zeropp_loco_param": {"err_beta": 0.5}}})",
           R"({"zero_optimization": {"stage": 2, "zero_quantized_nontrainable_weights": true}})",
           R"({"zero_optimization": {"stage": 0, "zenflow": {"topk_ratio": 0.1}}})",
           R"({"fp16": {"enabled": false, "auto_cast": true}})",
           R"({"prescale_gradients": false, "comet": {"enabled": false, "project": "x"}})",
       }) {
    CAPTURE(text);
    CHECK_THAT(said_of(text), !Catch::Contains("error"));
    CHECK_THAT(said_of(text), Catch::Contains("has no effect "));
  }
  CHECK_THAT(said_of(R"({"pipeline": {"stages": 1}, "sequence_parallel_size": 1,
                         "tensor_parallel": {"autotp_size": 1}, "quantize_training": {}})"),
             !Catch::Contains("error") && !Catch::Contains("has no effect"));
  CHECK_THAT(said_of(R"({"quantize_training": {"a": 1}, "datastates_ckpt": {}})"),
             Catch::Contains("error quantize_training: not available") &&
                 Catch::Contains("error datastates_ckpt: not available"));
}

TEST_CASE("error feedback of quantized gradients goes with them, and its numbers are looked at",
          "[config]") {
  const auto said = [](const char* keys) {
    return said_of(fmt::format(R"({{"zero_optimization": {{"stage": 3, {}}}}})", keys));
  };
  CHECK_THAT(said(R"("zeropp_loco_param": {})"),
             Catch::Contains("note zero_optimization.zeropp_loco_param: has no effect without "
                             "zero_quantized_gradients"));
  CHECK_THAT(said(R"("zero_quantized_gradients": true,
                     "zeropp_loco_param": {"err_beta": 0.5, "reset_T": 10})"),
             !Catch::Contains("loco"));
  CHECK_THAT(said(R"("zero_quantized_gradients": true,
                     "zeropp_loco_param": {"err_beta": 1.5, "reset_T": 0})"),
             Catch::Contains("error zero_optimization.zeropp_loco_param.err_beta") &&
                 Catch::Contains("error zero_optimization.zeropp_loco_param.reset_T"));
}

TEST_CASE("embeddings' gradients travel by rows at stage 0 alone, and not where they have all rows",
          "[config]") {
  CHECK_THAT(said_of(R"({"sparse_gradients": true, "zero_optimization": {"stage": 1}})"),
             Catch::Contains("error sparse_gradients: works with ZeRO stage 0, the stage is 1"));
  CHECK_THAT(said_of(R"({"sparse_gradients": true, "optimizer": {"type": "OneBitAdam"}})"),
             Catch::Contains("error sparse_gradients: excludes 1-bit optimizers"));
  const char* const gpt2 = R"({{"sparse_gradients": true, "model": {{"family": "gpt2",
      "tie_word_embeddings": {}}}}})";
  CHECK_THAT(said_of(fmt::format(fmt::runtime(gpt2), true)),
             Catch::Contains("note sparse_gradients: has no effect where the embedding's table is "
                             "the head's weight, too"));
  CHECK_THAT(said_of(fmt::format(fmt::runtime(gpt2), false)), !Catch::Contains("sparse_gradients"));
  CHECK_THAT(said_of(R"({"sparse_gradients": true, "model": "folder"})"),
             Catch::Contains("note sparse_gradients: has no effect if"));
}

TEST_CASE("what 1-bit optimizers do in one way only is said, and what they cannot is refused",
          "[config]") {
  for (const char* type : {"OneBitAdam", "ZeroOneAdam", "OneBitLamb"}) {
    const auto said = [&](const std::string& params, const std::string& rest = "") {
      return said_of(fmt::format(R"({{"optimizer": {{"type": "{}", "params": {{{}}}{}}}}})", type,
                                 params, rest));
    };
    CAPTURE(type);
    CHECK_THAT(said(R"("lr": 0.1, "comm_backend_name": "nccl", "bias_correction": false)"),
               !Catch::Contains("optimizer"));
    CHECK_THAT(said(R"("bias_correction": true)"),
               Catch::Contains("note optimizer.params.bias_correction: has no effect here: no bias "
                               "is corrected, as in DeepSpeed"));
    CHECK_THAT(said(R"("comm_backend_name": "mpi", "cuda_aware": true)"),
               Catch::Contains("note optimizer.params.comm_backend_name: has no effect here: the "
                               "compressed exchange goes the way of the run's other tensors") &&
                   Catch::Contains("note optimizer.params.cuda_aware: has no effect here"));
    CHECK_THAT(said(R"("eps_inside_sqrt": true)"),
               Catch::Contains("note optimizer.params.eps_inside_sqrt: has no effect here"));
    CHECK_THAT(said(R"("amsgrad": true)"),
               Catch::Contains("error optimizer.params.amsgrad: not available"));
    CHECK_THAT(said("", R"(, "moment_dtype": "bf16")"),
               Catch::Contains("error optimizer.moment_dtype: 1-bit optimizers keep their state"));
  }
}

TEST_CASE("of a kind that is missing nothing else is asked for", "[config]") {
  const std::string said = said_of(R"({"model": {"family": "resnet", "num_labels": 10}})");
  CHECK_THAT(said, Catch::Contains("error model.family: "));
  CHECK_THAT(said, !Catch::Contains("num_labels"));
  CHECK_THAT(said_of(R"({"model": {"family": "llama", "hidden_act": "gelu"}})"),
             Catch::Contains("error model.hidden_act: not available in this build as \"gelu\"; "
                             "available is silu"));
}

TEST_CASE("a slip stays an error: unknown names, in sections that are off too", "[config]") {
  CHECK_THAT(said_of(R"({"gradient_clip": 1})"),
             Catch::Contains("error") && Catch::Contains("gradient_clipping"));
  CHECK_THAT(said_of(R"({"flops_profiler": {"enable": true}})"),
             Catch::Contains("error flops_profiler.enable"));
  CHECK_THAT(said_of(R"({"elasticity": {"max_train_batch_sizes": 3}})"),
             Catch::Contains("error elasticity.max_train_batch_sizes"));
  CHECK_THAT(said_of(R"({"model": {"family": "gpt2", "num_hidden_layers": 2}})"),
             Catch::Contains("error model"));
}

TEST_CASE("a template that was not filled in is told so", "[config]") {
  for (const char* text :
       {"{train_batch_size: GB_SIZE,\n}", R"({"steps_per_print": "{{ steps }}"})",
        R"({"gradient_clipping": "<clip>"})",
        R"({"seed_everything": 1, "fp16": {"enabled": "$FP"}})"}) {
    CAPTURE(text);
    CHECK_THAT(said_of(text), Catch::Contains("placeholder of a template"));
  }
}

TEST_CASE("a duplicate key and a malformed override hide no other error", "[config]") {
  const std::vector<std::string> overrides = {"~nothing.there", "train.steps=-1"};
  const ReadConfig read = read_config_text(
      R"({"train_batch_size": 8, "train_batch_size": 9, "gradient_clip": 1})", "f", overrides);
  std::string errors;
  for (const Problem& problem : read.problems.all()) errors += problem.text() + "\n";
  CHECK_THAT(errors,
             Catch::Contains("f:1:25: duplicate key \"train_batch_size\", first given at f:1:2"));
  CHECK_THAT(errors, Catch::Contains("gradient_clip: unknown key"));
  CHECK_THAT(errors, Catch::Contains("nothing.there"));
  CHECK_THAT(errors, Catch::Contains("train.steps: got -1"));
  CHECK(read.config.train_batch_size == 8);
  CHECK_THROWS_AS(parse_config(R"({"a": 1, "a": 2})"), ConfigError);
}

TEST_CASE("torch_adam with decoupled decay decays by PyTorch's default", "[config]") {
  const auto decay = [](const std::string& type, const std::string& params) {
    return parse_config(R"({"optimizer": {"type": ")" + type + R"(", "params": {)" + params + "}}}")
        .optimizer.adam.weight_decay;
  };
  CHECK(decay("AdamW", R"("torch_adam": true)") == 0.01);
  CHECK(decay("Adam", R"("torch_adam": true)") ==
        0.01);  // adam_w_mode is on unless it is turned off
  CHECK(decay("Adam", R"("torch_adam": true, "adam_w_mode": false)") == 0.0);
  CHECK(decay("AdamW", R"("torch_adam": true, "weight_decay": 0)") == 0.0);
  CHECK(decay("AdamW", R"("torch_adam": false)") == 0.0);
  CHECK(decay("AdamW", "") == 0.0);
  const Config once =
      parse_config(R"({"optimizer": {"type": "AdamW", "params": {"torch_adam": true}}})");
  CHECK(parse_config(to_config_text(once)).optimizer.adam.weight_decay == 0.01);
}

TEST_CASE("steps_per_print takes every way to say never", "[config]") {
  for (const char* value : {"Infinity", "null", "0", "-1", "\"inf\""}) {
    CAPTURE(value);
    const ReadConfig read =
        read_config_text(fmt::format("{{\"steps_per_print\": {}}}", value), "f");
    CHECK_FALSE(read.problems.has_errors());
    CHECK(printing_interval(read.config) == 0);
  }
  CHECK(printing_interval(parse_config("steps_per_print: 1e9")) == 1'000'000'000);
  CHECK(printing_interval(parse_config("{}")) == 10);
}

TEST_CASE("values that DeepSpeed takes at the edge are taken", "[config]") {
  for (const char* text : {
           R"({"zero_optimization": {"stage": 3, "sub_group_size": 0}})",
           R"({"activation_checkpointing": {"partition_activations": true,
                "contiguous_memory_optimization": true}})",
           R"({"activation_checkpointing": {"contiguous_memory_optimization": true,
                "number_checkpoints": false}})",
           R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 0}}})",
           R"({"fp16": {"enabled": true, "min_loss_scale": 0.5}})",
           R"({"fp16": {"enabled": true, "min_loss_scale": 1e-10}})",
           R"({"fp16": {"enabled": true, "initial_scale_power": -1}})",
       }) {
    CAPTURE(text);
    CHECK_THAT(said_of(text), !Catch::Contains("error"));
  }
}

TEST_CASE("a number with a misprint is no placeholder", "[config]") {
  const std::string said =
      said_of(R"({"optimizer": {"type": "AdamW", "params": {"eps": "1.0e_8"}}})");
  CHECK_THAT(said, Catch::Contains("expected number >= 0; there is no _ in numbers") &&
                       !Catch::Contains("placeholder"));
}

}  // namespace ds
