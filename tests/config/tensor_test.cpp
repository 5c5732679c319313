// Tensor parallelism in a file: what cannot be shared out, what excludes it, what has no effect.
#include <fmt/format.h>

#include "config/elastic_options.h"
#include "config/load.h"
#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/config_texts.h"

namespace ds {
namespace {

using test::problems_of;

std::string gpt2(int ranks, const std::string& more = "", const std::string& grain = "") {
  return fmt::format(R"({{"model": {{"family": "gpt2", "n_head": 12, "n_positions": 32}},
                         "tensor_parallel": {{"autotp_size": {}{}}}{}}})",
                     ranks, grain, more);
}

TEST_CASE("heads that ranks of a layer cannot share are one error", "[config]") {
  for (const int ranks : {0, 1, 2, 4, 12}) {
    CHECK(problems_of(gpt2(ranks), Severity::kError).empty());
  }
  CHECK_THAT(problems_of(gpt2(2, R"(, "train": {"sample_prompt": "a"})"), Severity::kError),
             Catch::Contains("train.sample_prompt: ranks that have a part of the model "
                             "(tensor_parallel.autotp_size)"));
  CHECK(problems_of(gpt2(8), Severity::kError) ==
        "tensor_parallel.autotp_size: 8 ranks cannot share 12 heads equally; expected a divisor of "
        "12\n");
  const std::string grouped = R"({"model": {"family": "llama", "num_attention_heads": 12,
      "num_key_value_heads": 4, "hidden_size": 96}, "tensor_parallel": {"tp": {"tp_size": 3}}})";
  CHECK(problems_of(grouped, Severity::kError) ==
        "tensor_parallel.tp.tp_size: 3 ranks cannot share 12 heads and 4 of keys and values "
        "equally; expected a divisor of 4, or a multiple of 4 that divides 12\n");
  CHECK(problems_of(gpt2(2, R"(, "sequence_parallel_size": 2)"), Severity::kError).empty());
  CHECK(
      problems_of(gpt2(6, R"(, "sequence_parallel_size": 4)"), Severity::kError) ==
      "tensor_parallel.autotp_size: 6 ranks for each layer times 4 of sequence_parallel_size that "
      "exchange heads cannot share 12 heads equally; expected a product that divides 12\n");
}

TEST_CASE("norms of heads keep the state of the optimizer on the device", "[config]") {
  const auto qwen3 = [](int ranks, const std::string& more) {
    return fmt::format(R"({{"model": {{"family": "qwen3", "num_attention_heads": 8,
        "num_key_value_heads": 2, "hidden_size": 64}},
        "tensor_parallel": {{"autotp_size": {}}}{}}})",
                       ranks, more);
  };
  const char* const offloaded = R"(, "zero_optimization": {"stage": 1,
      "offload_optimizer": {"device": "cpu"}})";
  CHECK(problems_of(qwen3(2, ""), Severity::kError).empty());
  CHECK(problems_of(qwen3(1, offloaded), Severity::kError).empty());
  CHECK(
      problems_of(qwen3(2, offloaded), Severity::kError) ==
      "tensor_parallel.autotp_size: the ranks of a layer sum gradients of the norms of heads, "
      "which zero_optimization.offload_optimizer would take off the device; remove one of them\n");
}

TEST_CASE("more ranks than heads of keys have them several times, with the state on the device",
          "[config]") {
  const auto grouped = [](int ranks, const std::string& more) {
    return fmt::format(R"({{"model": {{"family": "llama", "num_attention_heads": 8,
        "num_key_value_heads": 2, "hidden_size": 64}},
        "tensor_parallel": {{"autotp_size": {}}}{}}})",
                       ranks, more);
  };
  const char* const offloaded = R"(, "zero_optimization": {"stage": 1,
      "offload_optimizer": {"device": "cpu"}})";
  CHECK(problems_of(grouped(4, ""), Severity::kError).empty());
  CHECK(problems_of(grouped(8, ""), Severity::kError).empty());
  CHECK(problems_of(grouped(2, offloaded), Severity::kError).empty());
  CHECK(problems_of(grouped(4, offloaded), Severity::kError) ==
        "tensor_parallel.autotp_size: 4 ranks have the 2 heads of keys and values several times, "
        "and sum gradients that zero_optimization.offload_optimizer would take off the device; "
        "expected a divisor of 2, or no offload_optimizer\n");
  CHECK_THAT(problems_of(grouped(4, R"(, "sequence_parallel_size": 2)"), Severity::kError),
             Catch::Contains("4 ranks for each layer times 2 of sequence_parallel_size"));
}

TEST_CASE("grains that leave a rank nothing are one error", "[config]") {
  const auto with_grain = [](int64_t grain) {
    return gpt2(2, "", fmt::format(R"(, "tp": {{"tp_grain_size": {}}})", grain));
  };
  CHECK(problems_of(with_grain(64), Severity::kError).empty());
  CHECK_THAT(problems_of(with_grain(2000), Severity::kError),
             Catch::Contains("2 ranks cannot each have some of 3072 columns of the MLP in grains "
                             "of 2000"));
}

TEST_CASE("what looks beyond a rank's part of a layer excludes tensor parallelism", "[config]") {
  for (const char* key : {R"("mics_shard_size": 2)", R"("zero_hpz_partition_size": 2)",
                          R"("zero_quantized_gradients": true)"}) {
    const std::string zero = fmt::format(R"(, "zero_optimization": {{"stage": 3, {}}})", key);
    CHECK_THAT(problems_of(gpt2(2, zero), Severity::kError),
               Catch::StartsWith("tensor_parallel.autotp_size: excludes mics_shard_size"));
    CHECK(problems_of(gpt2(1, zero), Severity::kError).empty());
  }
  for (const char* type : {"Lamb", "Muon", "OneBitAdam", "ZeroOneAdam", "OneBitLamb"}) {
    const std::string optimizer = fmt::format(R"(, "optimizer": {{"type": "{}"}})", type);
    CAPTURE(type);
    CHECK_THAT(problems_of(gpt2(2, optimizer), Severity::kError),
               Catch::Contains("tensor_parallel.autotp_size: excludes optimizers of whole"));
    CHECK_THAT(problems_of(gpt2(1, optimizer), Severity::kError),
               !Catch::Contains("tensor_parallel"));
  }
  const char* const zenflow = R"(, "zero_optimization": {
      "stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow": {}})";
  CHECK_THAT(problems_of(gpt2(2, zenflow), Severity::kError),
             Catch::Contains("tensor_parallel.autotp_size: excludes zenflow"));
  CHECK(problems_of(gpt2(1, zenflow), Severity::kError).empty());
  const char* const rows = R"(, "sparse_gradients": true)";
  CHECK_THAT(problems_of(gpt2(2, rows), Severity::kError),
             Catch::Contains("tensor_parallel.autotp_size: excludes sparse_gradients"));
  CHECK(problems_of(gpt2(1, rows), Severity::kError).empty());
}

TEST_CASE("rows between layers are shared where layers are, with the state on the device",
          "[config]") {
  const char* const rows = R"(, "sequence_parallel": true)";
  CHECK(problems_of(gpt2(2, "", rows), Severity::kError).empty());
  CHECK_THAT(problems_of(gpt2(1, "", rows), Severity::kNote),
             Catch::Contains("sequence_parallel: has no effect without tensor parallelism"));
  const char* const offloaded = R"(, "zero_optimization": {"stage": 1,
      "offload_optimizer": {"device": "cpu"}})";
  CHECK_THAT(problems_of(gpt2(2, offloaded, rows), Severity::kError),
             Catch::Contains("tensor_parallel.sequence_parallel sums gradients of norms"));
  CHECK_THAT(problems_of(gpt2(2, R"(, "pipeline": {"stages": 2})", rows), Severity::kError),
             Catch::Contains("tensor_parallel.sequence_parallel: excludes pipelines"));
}

TEST_CASE("what is said of ranks of a layer has no effect where layers are whole", "[config]") {
  CHECK_THAT(problems_of(R"({"tensor_parallel": {"tp": {"tp_grain_size": 8}}})", Severity::kNote),
             Catch::Contains("tp_grain_size: has no effect without tensor parallelism"));
  CHECK_THAT(problems_of(gpt2(1, "", R"(, "partition_config": {"use_default_specs": false})"),
                         Severity::kNote),
             Catch::Contains("use_default_specs: has no effect without tensor parallelism"));
}

// The first of `rules` (JSON) that matches counts.
std::string llama(const std::string& rules, bool defaults = true, bool tied = false) {
  return fmt::format(R"({{"model": {{"family": "llama", "num_hidden_layers": 2,
                                     "tie_word_embeddings": {}}},
                         "tensor_parallel": {{"autotp_size": 2,
                           "partition_config": {{"use_default_specs": {},
                                                 "layer_specs": [{}]}}}}}})",
                     tied, defaults, rules);
}
constexpr const char* kDown =
    R"({"patterns": [".*\\.(o|down)_proj\\.weight$"], "partition_type": "row"})";
constexpr const char* kUp =
    R"({"patterns": [".*\\.[qkv]_proj\\.weight$", ".*\\.(gate|up)_proj\\.weight$"]})";

TEST_CASE("rules that split layers as their family does are followed", "[config]") {
  const std::string both = fmt::format("{}, {}", kDown, kUp);
  for (const bool defaults : {true, false}) {
    CHECK(problems_of(llama(both, defaults), Severity::kError).empty());
    CHECK(problems_of(llama(both, defaults), Severity::kNote).empty());
  }
  CHECK(problems_of(llama(kDown), Severity::kError).empty());
  // What comes first counts, and what is for other models does not.
  CHECK(problems_of(llama(both + R"(, {"patterns": ["model.layers.*"],
                                       "partition_type": "skip"})"),
                    Severity::kError)
            .empty());
  CHECK_THAT(problems_of(llama(R"({"patterns": [".*"], "partition_type": "skip",
                                   "model_types": ["bloom"]})"),
                         Severity::kNote),
             Catch::Contains("partition_config: layer_specs[0] is for no layer that ranks share"));
  CHECK(problems_of(gpt2(2, "", R"(, "partition_config": {"layer_specs": [
            {"patterns": [".*c_attn.weight"], "shape": [3, -1], "partition_dim": 0},
            {"patterns": [".*c_proj.weight"], "partition_type": "row"}]})"),
                    Severity::kError)
            .empty());
}

TEST_CASE("rules that split layers otherwise, or leave them whole, are one error", "[config]") {
  const auto said = [](const std::string& rules, bool defaults = true, bool tied = false) {
    return problems_of(llama(rules, defaults, tied), Severity::kError);
  };
  CHECK(said(R"({"patterns": [".*o_proj"]})") ==
        "tensor_parallel.partition_config: layer_specs[0] says \"column\" of "
        "model.layers.0.self_attn.o_proj.weight, and its family splits that by \"row\" alone; say "
        "that, or remove the rule\n");
  CHECK_THAT(said(fmt::format(R"({}, {{"patterns": [".*\\.1\\..*up_proj"],
                                      "partition_type": "skip"}})",
                              kDown)),
             Catch::Contains("layer_specs[1] says \"skip\" of model.layers.1.mlp.up_proj.weight"));
  CHECK_THAT(said(kDown, false),
             Catch::Contains("no rule is for model.layers.0.self_attn.q_proj.weight"));
  CHECK_THAT(said(R"({"patterns": ["(unclosed"]})"), Catch::Contains("no regular expression"));
  // Patterns are looked for at the front of names.
  CHECK(said(R"({"patterns": ["o_proj"]})").empty());
  const std::string head = R"({"patterns": ["lm_head"], "partition_type": "skip"})";
  CHECK_THAT(said(head), Catch::Contains("says \"skip\" of lm_head.weight"));
  CHECK(said(head, true, true).empty());
}

TEST_CASE("a world is data times sequence times tensor", "[config]") {
  const Config two = read_config_text(gpt2(2), "f").config;
  CHECK(data_ranks(two, 8) == 4);
  CHECK_THROWS_WITH(data_ranks(two, 3), Catch::Contains("3 ranks cannot be split"));
  const Config both = read_config_text(gpt2(2, R"(, "sequence_parallel_size": 2)"), "f").config;
  CHECK(data_ranks(both, 8) == 2);
  CHECK(tensor_ranks(both) == 2);
  CHECK(tensor_ranks(
            read_config_text(R"({"tensor_parallel": {"tp": {"tp_size": 3}}})", "f").config) == 3);
}

}  // namespace
}  // namespace ds
