// What DeepSpeed makes of a configuration when it reads it, where that is easily taken for
// something else.
#include <fmt/format.h>

#include "config/load.h"
#include "tests/support/catch.h"

namespace ds {

namespace {

ReadConfig read_text(const std::string& text) { return read_config_text(text, "t"); }

// Its newest release: what older ones took is a note here.
bool deepspeed_refuses(const std::string& text) {
  const ReadConfig read = read_text(text);
  for (const Problem& problem : read.problems.all()) {
    if (problem.basis == Basis::kDeepSpeed) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("DeepSpeed's bounds are refused as its own", "[config]") {
  for (const char* text : {
           "{zero_optimization: {reduce_bucket_size: 0}}",
           "{zero_optimization: {zenflow: {topk_ratio: 0}}}",
           "{zero_optimization: {zenflow: {topk_ratio: 1.0}}}",
           "{zero_optimization: {zenflow: {update_interval: 0}}}",
           "{zero_optimization: {zenflow: {select_interval: \"4\"}}}",
           "{zero_optimization: {zenflow: {select_interval: null}}}",
           "{zero_optimization: {cpu_offload: 2}}",
           "{zero_optimization: {cpu_offload: false, offload_optimizer: null}}",
           "{compile: {passes: [\"z2\"]}}",
           "{fp16: {min_loss_scale: 0.5}}",
           "{fp16: {enabled: true, min_loss_scale: 0}}",
           "{fp16: {enabled: true, fp16: true}}",
           "{zero_optimization: {stage: 1, find_unused_parameters: true}}",
           "{tensor_parallel: {tp: {tp_size: \"x\"}}}",
           "{checkpoint: {writer: {type: \"slow\"}}}",
           "{train_batch_size: \"8\"}",
           "{optimizer: {type: \"Adam\", params: {max_grad_norm: \"1\"}}}",
       }) {
    CAPTURE(text);
    CHECK(deepspeed_refuses(text));
  }
}

TEST_CASE("our own bounds are not taken for DeepSpeed's", "[config]") {
  for (const char* text : {
           "{zero_optimization: {stage: 1, zenflow: {select_strategy: \"step\"}}}",
           "{zero_optimization: {stage: 1, zenflow: {select_interval: 1, update_interval: 8}}}",
           "{zero_optimization: {stage: 3, mics_shard_size: -5}}",
           "{hybrid_engine: {enabled: true, max_out_tokens: 0}}",
           "{comet: {enabled: true, samples_log_interval: -1}}",
       }) {
    CAPTURE(text);
    CHECK_FALSE(deepspeed_refuses(text));
    CHECK(read_text(text).problems.has_errors());
  }
  CHECK(read_text("{bf16: {enabled: true}, bfloat16: {enabled: false}}").config.bf16.enabled);
}

TEST_CASE("null is as if not given, though DeepSpeed takes it for sections that can be absent only",
          "[config]") {
  for (const char* text :
       {"fp16: null", "optimizer: null", "checkpoint: null", "amp: null", "zero_optimization: null",
        "{bf16: null, bfloat16: null}", "{zero_optimization: {reduce_bucket_size: null}}",
        "{wandb: {enabled: true, project: null}}"}) {
    CAPTURE(text);
    CHECK(deepspeed_refuses(text));
    CHECK_FALSE(read_text(text).problems.has_errors());
  }
  CHECK(read_text("{zero_optimization: {reduce_bucket_size: null}}")
            .config.zero_optimization.reduce_bucket_size == ZeroConfig{}.reduce_bucket_size);
  for (const char* text :
       {"bf16: null", "aio: null", "{zero_optimization: {offload_param: null}}",
        "{zero_optimization: {leaf_module: null}}", "{zero_optimization: {overlap_comm: null}}",
        "{zero_optimization: {offload_param: \"auto\"}}"}) {
    CAPTURE(text);
    CHECK_FALSE(read_text(text).problems.has_errors());
  }
  CHECK(read_text("{bf16: null, bfloat16: {enabled: true}}").config.bf16.enabled);
}

TEST_CASE("old switches are read as booleans are", "[config]") {
  const auto offload = [](const char* value) {
    const std::string text = fmt::format("{{zero_optimization: {{cpu_offload: {}}}}}", value);
    return read_text(text).config.zero_optimization.offload_optimizer.has_value();
  };
  for (const char* value : {"true", "1", "\"on\"", "\"Yes\""}) CHECK(offload(value));
  for (const char* value : {"false", "0", "\"off\"", "null", "\"auto\""}) {
    CHECK_FALSE(offload(value));
  }
  const auto bucket = [](const char* zero) {
    const std::string text = fmt::format("{{zero_optimization: {}, allgather_size: 7}}", zero);
    return read_text(text).config.zero_optimization.allgather_bucket_size;
  };
  CHECK(bucket("true") == 7);
  CHECK(bucket("false") == 500000000);
  CHECK(bucket("{}") == 500000000);
}

TEST_CASE("max_grad_norm is zeroed where DeepSpeed zeroes it", "[config]") {
  const auto norm = [](const char* value, const char* fp16) {
    const ReadConfig read = read_text(fmt::format(
        "{{optimizer: {{type: \"Adam\", params: {{max_grad_norm: {}}}}}, fp16: {{enabled: {}}}}}",
        value, fp16));
    return read.document.find("optimizer")->find("params")->find("max_grad_norm")->as_number();
  };
  CHECK(norm("1.5", "false") == 0.0);
  CHECK(norm("1.5", "true") == 1.5);
  CHECK(norm("1.5", "\"yes\"") == 1.5);
  CHECK(norm("-1.5", "false") == -1.5);
}

}  // namespace ds
