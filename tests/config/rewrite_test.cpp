// Old spellings: the document after it was rewritten, beside all that is said of it.
#include "config/reader/rewrite.h"

#include "config/reader/json_reader.h"
#include "tests/support/catch.h"

namespace ds {

namespace {

struct Rewritten {
  std::string document;
  std::string said;  // "note path: text" and "error path: text", one a line
};

Rewritten rewritten(std::string_view text) {
  Value document = read_config_document(text, "f");
  Problems problems;
  rewrite_old_spellings(document, problems);
  Rewritten out{.document = to_compact_json(document), .said = ""};
  for (const Problem& problem : problems.all()) {
    const bool error = problem.severity == Severity::kError;
    out.said += (error ? "error " : "note ") + problem.path + ": " + problem.message + "\n";
  }
  return out;
}

struct Case {
  const char* before;
  const char* after;
  const char* said;
};

void check_all(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    CAPTURE(one.before);
    const Rewritten out = rewritten(one.before);
    CHECK(out.document == one.after);
    CHECK(out.said == one.said);
  }
}

}  // namespace

TEST_CASE("what is not old stays as it is, and nothing is said", "[config]") {
  check_all({
      {R"({"train_batch_size": 8})", R"({"train_batch_size":8})", ""},
      {R"({"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}}})",
       R"({"zero_optimization":{"stage":1,"offload_optimizer":{"device":"cpu"}}})", ""},
      {R"({"zero_optimization": 3, "fp16": 5, "optimizer": "x", "model": 7})",
       R"({"zero_optimization":3,"fp16":5,"optimizer":"x","model":7})", ""},
      {R"({"model": {"folder": "m"}, "bf16": {"enabled": true}})",
       R"({"model":{"folder":"m"},"bf16":{"enabled":true}})", ""},
  });
}

TEST_CASE("a model given as text is its folder, without a word", "[config]") {
  check_all({{R"({"model": "gpt2/"})", R"({"model":{"folder":"gpt2/"}})", ""}});
  Value document = read_config_document("{\n \"model\": \"m\"}", "f");
  Problems problems;
  rewrite_old_spellings(document, problems);
  CHECK(document.find("model")->find("folder")->origin().text() == "f:2:11");
}

TEST_CASE("bfloat16 is bf16 unless that is given too", "[config]") {
  check_all({
      {R"({"bfloat16": {"enabled": true}})", R"({"bf16":{"enabled":true}})",
       "note bfloat16: is an older spelling of bf16\n"},
      {R"({"bf16": {"enabled": true}, "bfloat16": {"enabled": false}})",
       R"({"bf16":{"enabled":true}})",
       "note bfloat16: is an older spelling of bf16, which is given too and counts\n"},
      {R"({"bf16": null, "bfloat16": {"enabled": true}})", R"({"bf16":{"enabled":true}})",
       "note bfloat16: is an older spelling of bf16\n"},
      {R"({"bf16": null})", "{}", ""},
  });
}

TEST_CASE("null is as good as absent where DeepSpeed takes it so", "[config]") {
  check_all({
      {R"({"aio": null, "optimizer": {"type": "Adam", "params": null}})",
       R"({"optimizer":{"type":"Adam"}})", ""},
      {R"({"zero_optimization": {"overlap_comm": null, "leaf_module": null,
           "offload_optimizer": {"nvme_path": null}, "offload_param": {"nvme_path": null}}})",
       R"({"zero_optimization":{"offload_optimizer":{},"offload_param":{}}})", ""},
      {R"({"scheduler": {"params": null}, "fp16": null})",
       R"({"scheduler":{"params":null},"fp16":null})", ""},
  });
}

TEST_CASE("PyTorch's names of the three types are ours", "[config]") {
  for (const auto& [torch, ours] :
       std::vector<std::pair<std::string, std::string>>{{"float32", "fp32"},
                                                        {"torch.float32", "fp32"},
                                                        {"float", "fp32"},
                                                        {"torch.half", "fp16"},
                                                        {"float16", "fp16"},
                                                        {"bfloat16", "bf16"},
                                                        {"torch.bfloat16", "bf16"},
                                                        {"torch.int8", "int8"},
                                                        {"Float32", "Float32"}}) {
    CAPTURE(torch);
    for (const std::string key : {"grad_accum_dtype", "param_dtype", "buffer_dtype"}) {
      CHECK(rewritten("{\"data_types\": {\"" + key + "\": \"" + torch + "\"}}").document ==
            "{\"data_types\":{\"" + key + "\":\"" + ours + "\"}}");
    }
    CHECK(rewritten("{\"torch_autocast\": {\"dtype\": \"" + torch + "\"}}").document ==
          "{\"torch_autocast\":{\"dtype\":\"" + ours + "\"}}");
  }
  check_all({{R"({"communication_data_type": "float32"})",
              R"({"communication_data_type":"float32"})", ""}});
}

TEST_CASE("train_step_batch_size is the micro batch, and both are one too many", "[config]") {
  check_all({
      {R"({"train_step_batch_size": 4})", R"({"train_micro_batch_size_per_gpu":4})",
       "note train_step_batch_size: is an older spelling of train_micro_batch_size_per_gpu\n"},
      {R"({"train_step_batch_size": 4, "train_micro_batch_size_per_gpu": 4})",
       R"({"train_step_batch_size":4,"train_micro_batch_size_per_gpu":4})",
       "error train_step_batch_size: is an older spelling of train_micro_batch_size_per_gpu, which "
       "is given too; remove one\n"},
  });
}

TEST_CASE("zero_optimization as a switch is stage 1 or 0", "[config]") {
  check_all({
      {R"({"zero_optimization": true})", R"({"zero_optimization":{"stage":1}})",
       "note zero_optimization: is an older spelling of {\"stage\": 1}\n"},
      {R"({"zero_optimization": false})", R"({"zero_optimization":{"stage":0}})",
       "note zero_optimization: is an older spelling of {\"stage\": 0}\n"},
  });
}

TEST_CASE("allgather_size counts beside the switch only", "[config]") {
  const std::string ignored =
      "note allgather_size: is ignored, as by DeepSpeed: it is read beside \"zero_optimization\": "
      "true only; use zero_optimization.allgather_bucket_size\n";
  check_all({
      {R"({"zero_optimization": true, "allgather_size": 7})",
       R"({"zero_optimization":{"stage":1,"allgather_bucket_size":7}})",
       "note allgather_size: is an older spelling of zero_optimization.allgather_bucket_size\n"
       "note zero_optimization: is an older spelling of {\"stage\": 1}\n"},
      {R"({"zero_optimization": false, "allgather_size": 7})",
       R"({"zero_optimization":{"stage":0}})",
       "note allgather_size: is an older spelling of zero_optimization.allgather_bucket_size\n"
       "note zero_optimization: is an older spelling of {\"stage\": 0}\n"},
      {R"({"zero_optimization": {"stage": 1}, "allgather_size": 7})",
       R"({"zero_optimization":{"stage":1}})", ignored.c_str()},
      {R"({"allgather_size": 7})", "{}", ignored.c_str()},
  });
}

TEST_CASE("one switch for both overlaps of swapping stands for those that are not given",
          "[config]") {
  const std::string note =
      "note zero_optimization.offload_optimizer.pipeline: is an older spelling of pipeline_read "
      "and pipeline_write\n";
  const auto check = [&](const std::string& given, const std::string& expected) {
    const std::string from = R"({"zero_optimization": {"offload_optimizer": {)" + given + "}}}";
    const std::string to = R"({"zero_optimization":{"offload_optimizer":{)" + expected + "}}}";
    check_all({{from.c_str(), to.c_str(), note.c_str()}});
  };
  check(R"("pipeline": true)", R"("pipeline_read":true,"pipeline_write":true)");
  check(R"("pipeline": true, "pipeline_read": false)",
        R"("pipeline_read":false,"pipeline_write":true)");
  check(R"("pipeline": null)", "");
  CHECK_THAT(rewritten(R"({"zero_optimization": {"offload_optimizer": {"pipeline": 2}}})").said,
             Catch::Contains(
                 "error zero_optimization.offload_optimizer.pipeline: got 2, expected boolean"));
}

TEST_CASE("switches of offloading become its sections", "[config]") {
  const std::string note =
      "note zero_optimization.cpu_offload: is an older spelling of offload_optimizer {\"device\": "
      "\"cpu\"}\n";
  check_all({
      {R"({"zero_optimization": {"cpu_offload": true}})",
       R"({"zero_optimization":{"offload_optimizer":{"device":"cpu"}}})", note.c_str()},
      {R"({"zero_optimization": {"cpu_offload": "no"}})", R"({"zero_optimization":{}})",
       note.c_str()},
      {R"({"zero_optimization": {"cpu_offload": null}})", R"({"zero_optimization":{}})",
       note.c_str()},
      {R"({"zero_optimization": {"cpu_offload": "auto"}})",
       R"({"zero_optimization":{"cpu_offload":"auto"}})", ""},
      {R"({"zero_optimization": {"cpu_offload_param": 1}})",
       R"({"zero_optimization":{"offload_param":{"device":"cpu"}}})",
       "note zero_optimization.cpu_offload_param: is an older spelling of offload_param "
       "{\"device\": \"cpu\"}\n"},
      {R"({"zero_optimization": {"cpu_offload_params": true}})",
       R"({"zero_optimization":{"offload_param":{"device":"cpu"}}})",
       "note zero_optimization.cpu_offload_params: is an older spelling of offload_param "
       "{\"device\": \"cpu\"}\n"},
      {R"({"zero_optimization": {"cpu_offload": true, "offload_optimizer": {}}})",
       R"({"zero_optimization":{"offload_optimizer":{}}})",
       "note zero_optimization.cpu_offload: is an older spelling of offload_optimizer, which is "
       "given too and counts\n"},
      {R"({"zero_optimization": {"cpu_offload": true, "offload_optimizer": null}})",
       R"({"zero_optimization":{"offload_optimizer":{"device":"cpu"}}})",
       "note zero_optimization.cpu_offload: is an older spelling of offload_optimizer, which is "
       "given too as null\n"},
  });
  CHECK_THAT(rewritten(R"({"zero_optimization": {"cpu_offload": 2}})").said,
             Catch::Contains("error zero_optimization.cpu_offload: got 2, expected boolean"));
}

TEST_CASE("the pinning of memory goes to the sections that say nothing of it", "[config]") {
  const std::string note =
      "note zero_optimization.cpu_offload_use_pin_memory: is an older spelling of "
      "offload_*.pin_memory\n";
  check_all({
      {R"({"zero_optimization": {"offload_optimizer": {}, "offload_param": {"pin_memory": false},
           "cpu_offload_use_pin_memory": true}})",
       R"({"zero_optimization":{"offload_optimizer":{"pin_memory":true},)"
       R"("offload_param":{"pin_memory":false}}})",
       note.c_str()},
      {R"({"zero_optimization": {"cpu_offload_use_pin_memory": true}})",
       R"({"zero_optimization":{}})", note.c_str()},
      {R"({"zero_optimization": {"offload_param": {}, "cpu_offload_use_pin_memory": null}})",
       R"({"zero_optimization":{"offload_param":{}}})", note.c_str()},
      {R"({"zero_optimization": {"offload_param": {}, "cpu_offload_use_pin_memory": "auto"}})",
       R"({"zero_optimization":{"offload_param":{}}})", note.c_str()},
  });
  CHECK_THAT(
      rewritten(R"({"zero_optimization": {"cpu_offload_use_pin_memory": "perhaps"}})").said,
      Catch::Contains("error zero_optimization.cpu_offload_use_pin_memory: got \"perhaps\""));
}

TEST_CASE("fp32_allreduce is the type of communication, and must not contradict it", "[config]") {
  const std::string note =
      "note fp32_allreduce: is an older spelling of communication_data_type: \"fp32\"\n";
  check_all({
      {R"({"fp32_allreduce": true})", R"({"communication_data_type":"fp32"})", note.c_str()},
      {R"({"fp32_allreduce": false})", "{}", note.c_str()},
      {R"({"fp32_allreduce": "yes", "communication_data_type": "fp32"})",
       R"({"communication_data_type":"fp32"})", note.c_str()},
      {R"({"fp32_allreduce": true, "communication_data_type": null})",
       R"({"communication_data_type":"fp32"})", note.c_str()},
      {R"({"fp32_allreduce": false, "communication_data_type": "bf16"})",
       R"({"communication_data_type":"bf16"})", note.c_str()},
      {R"({"fp32_allreduce": 3})", R"({"fp32_allreduce":3})",
       "error fp32_allreduce: got 3, expected boolean\n"},
  });
  CHECK_THAT(rewritten(R"({"fp32_allreduce": true, "communication_data_type": "bf16"})").said,
             Catch::Contains("error fp32_allreduce: contradicts communication_data_type \"bf16\""));
}

TEST_CASE("clipping among the optimizer's parameters is gradient_clipping, which comes first",
          "[config]") {
  const std::string taken =
      "note optimizer.params.max_grad_norm: is not a parameter of the optimizer, and is taken as "
      "gradient_clipping\n";
  check_all({
      {R"({"optimizer": {"params": {"max_grad_norm": 1.5}}})",
       R"({"optimizer":{"params":{"max_grad_norm":0.0}},"gradient_clipping":1.5})", taken.c_str()},
      {R"({"optimizer": {"params": {"max_grad_norm": 1.5}}, "fp16": {"enabled": true}})",
       R"({"optimizer":{"params":{"max_grad_norm":1.5}},"fp16":{"enabled":true},)"
       R"("gradient_clipping":1.5})",
       taken.c_str()},
      {R"({"optimizer": {"params": {"max_grad_norm": 1.5}}, "gradient_clipping": 2})",
       R"({"optimizer":{"params":{"max_grad_norm":0.0}},"gradient_clipping":2})",
       "note optimizer.params.max_grad_norm: is not a parameter of the optimizer; "
       "gradient_clipping, which is given too, counts\n"},
      {R"({"optimizer": {"params": {"max_grad_norm": "x"}}})",
       R"({"optimizer":{"params":{"max_grad_norm":"x"}}})",
       "error optimizer.params.max_grad_norm: is not a parameter of the optimizer; use the "
       "top-level \"gradient_clipping\"\n"},
  });
}

TEST_CASE("infinitely many steps between two lines are none", "[config]") {
  const char* const note = "note steps_per_print: infinitely many steps are taken as null\n";
  check_all({
      {R"({"steps_per_print": Infinity
          })",
       R"({"steps_per_print":null})", note},
      {R"({"steps_per_print": "inf"})", R"({"steps_per_print":null})", note},
      {R"({"steps_per_print": "many"})", R"({"steps_per_print":"many"})", ""},
  });
}

TEST_CASE("eigenvalue is taken out of its older container", "[config]") {
  check_all({
      {R"({"quantize_training": {"enabled": true, "eigenvalue": {"enabled": true}}})",
       R"({"quantize_training":{"enabled":true},"eigenvalue":{"enabled":true}})",
       "note quantize_training.eigenvalue: is an older spelling of eigenvalue\n"},
      {R"({"quantize_training": {"eigenvalue": {}}, "eigenvalue": {"tol": 1}})",
       R"({"quantize_training":{"eigenvalue":{}},"eigenvalue":{"tol":1}})",
       "error quantize_training.eigenvalue: is an older spelling of eigenvalue, which is given "
       "too; remove one\n"},
      {R"({"quantize_training": {"enabled": true}})", R"({"quantize_training":{"enabled":true}})",
       ""},
  });
}

TEST_CASE("all old spellings of one document are rewritten together, each with its note",
          "[config]") {
  const Rewritten out = rewritten(
      R"({"bfloat16": {"enabled": true}, "train_step_batch_size": 2, "fp32_allreduce": true,
          "zero_optimization": {"stage": 2, "cpu_offload": true,
                                "cpu_offload_use_pin_memory": true}})");
  CHECK(out.document ==
        R"({"zero_optimization":{"stage":2,"offload_optimizer":{"device":"cpu",)"
        R"("pin_memory":true}},"bf16":{"enabled":true},"train_micro_batch_size_per_gpu":2,)"
        R"("communication_data_type":"fp32"})");
  CHECK(std::count(out.said.begin(), out.said.end(), '\n') == 5);
}

}  // namespace ds
