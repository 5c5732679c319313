#include "config/load.h"

#include <sys/stat.h>

#include <algorithm>

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {

namespace {

std::string error_of(const std::string& text) {
  try {
    parse_config(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an engine's keys arrive as typed fields", "[config]") {
  const Config config = parse_config(R"({
    "model": {"family": "gpt2", "n_layer": 6, "n_head": 6, "n_embd": 384, "n_positions": 256,
        "vocab_size": 256},
    "data": {"train": "corpus.txt", "tokenizer": "byte", "sequence_length": 256,
        "order": "sequential"},
    "train": {"steps": 2000, "seed": 7, "eval_every": 200, "save_every": 500, "resume": "never"},
    "train_batch_size": 32, "train_micro_batch_size_per_gpu": 4,
    "optimizer": {"type": "adamw", "params": {"lr": 3e-4, "betas": [0.9, 0.95],
        "weight_decay": 0.1}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 2000,
        "warmup_num_steps": 100}},
    "bf16": {"enabled": true}, "gradient_clipping": 0.5,
    "zero_optimization": {"stage": 3, "reduce_bucket_size": 5e7,
        "stage3_prefetch_bucket_size": "1000"}
  })");
  const std::optional<ModelConfig> model = described_model(config.model);
  REQUIRE(model);
  CHECK(family_name(*model) == "gpt2");
  CHECK(std::get<Gpt2Config>(*model).n_embd == 384);
  CHECK(config.data.train == std::vector<std::string>{"corpus.txt"});
  CHECK(config.data.order == DataOrder::kSequential);
  CHECK(config.train.steps == 2000);
  CHECK(config.train.resume == ResumeMode::kNever);
  CHECK(config.train_batch_size == 32);
  CHECK(config.optimizer.type == OptimizerType::kAdamW);
  CHECK(config.optimizer.adam.lr == 3e-4);
  CHECK(config.optimizer.adam.betas == Pair{0.9, 0.95});
  CHECK(config.optimizer.adam.eps == 1e-8);
  CHECK(config.scheduler.type == SchedulerType::kWarmupDecayLR);
  CHECK(config.scheduler.warmup_decay.total_num_steps == 2000);
  CHECK(config.bf16.enabled);
  CHECK(config.gradient_clipping == 0.5);
  CHECK(config.zero_optimization.stage == 3);
  CHECK(config.zero_optimization.reduce_bucket_size == 50'000'000);
  CHECK(config.zero_optimization.stage3_prefetch_bucket_size == 1000);
}

TEST_CASE("a NUL character in a name or path is refused with its key", "[config]") {
  CHECK_THAT(error_of("{\"data\": {\"tokenizer\": \"a\\u0000b\"}}"),
             Catch::StartsWith("config:1:24: data.tokenizer: got") && Catch::Contains("NUL"));
  CHECK_THAT(error_of("{\"data\": {\"train\": [\"a\", \"a\\u0000b\"]}}"),
             Catch::Contains("data.train: got") && Catch::Contains("NUL"));
  CHECK_THAT(error_of("{\"model\": \"a\\u0000b\"}"),
             Catch::Contains("model.folder") && Catch::Contains("NUL"));
}

TEST_CASE("a FIFO or folder as configuration or include is refused at once", "[config]") {
  const testing::TemporaryDirectory scratch;
  const std::string fifo = scratch.path() / "fifo.json";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK_THROWS_AS(read_config(fifo), DataError);
  CHECK_THROWS_WITH(read_config(fifo), Catch::Contains("fifo.json: it is a FIFO"));
  CHECK_THROWS_AS(read_config(scratch.path()), DataError);
  CHECK_THROWS_WITH(
      read_config_text(R"({"include": ["fifo.json"]})", "train.json", {}, scratch.path()),
      Catch::Contains("fifo.json: it is a FIFO"));
  CHECK_THROWS_AS(read_config("/dev/null"), DataError);
}

TEST_CASE("weights of data are one for each entry, and mix", "[config]") {
  CHECK(parse_config(R"({"data": {"train": ["a", "b"], "weights": [1, 0.5]}})").data.weights ==
        std::vector<double>{1, 0.5});
  CHECK_THAT(error_of(R"({"data": {"train": ["a", "b"], "weights": [1]}})"),
             Catch::Contains("data.weights: has 1"));
  CHECK_THAT(error_of(R"({"data": {"train": ["a"], "weights": [0]}})"),
             Catch::Contains("data.weights: got"));
  CHECK_THAT(error_of(R"({"data": {"train": ["a"], "weights": [2], "order": "sequential"}})"),
             Catch::Contains("data.weights: mixes"));
}

TEST_CASE("a number in quotes has one sign at most", "[config]") {
  const auto said = [](const std::string& digits) {
    return error_of("{\"zero_optimization\": {\"sub_group_size\": \"" + digits + "\"}}");
  };
  CHECK(said("+4").empty());
  CHECK_THAT(said("+-4"), Catch::Contains("sub_group_size: got \"+-4\", expected integer"));
}

TEST_CASE("unknown keys and bad values are errors with their position", "[config]") {
  CHECK(error_of("{\"gradient_clipp1ng\": 1}") ==
        "config:1:2: gradient_clipp1ng: unknown key, did you mean \"gradient_clipping\"?");
  CHECK(error_of("{\n  \"zero_optimization\": {\"stage\": 7}\n}") ==
        "config:2:34: zero_optimization.stage: got 7, expected integer >= 0, <= 3");
  CHECK(
      error_of("{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"freeze_step\": 3}}}") ==
      "config:1:43: optimizer.params.freeze_step: has a meaning only where type is OneBitAdam, or "
      "type is OneBitLamb");
}

TEST_CASE("a model's folder brings the tokenizer where none is named", "[config]") {
  const auto tokenizer = [](const std::string& text) { return parse_config(text).data.tokenizer; };
  CHECK(tokenizer(R"({"model": "gpt2/"})") == "gpt2/");
  CHECK(tokenizer(R"({"model": {"folder": "/m"}, "data": {"train": ["a"]}})") == "/m");
  CHECK(tokenizer(R"({"model": "gpt2/", "data": {"tokenizer": "byte"}})") == "byte");
  CHECK(tokenizer(R"({"model": {"family": "gpt2"}})") == "byte");
  CHECK(tokenizer(to_config_text(parse_config(R"({"model": "/m"})"))) == "/m");
}

TEST_CASE("16-bit weights are gathered at stage 3 in a 16-bit type", "[config]") {
  const auto gathered = [](const std::string& more, int stage) {
    return gathered_dtype(parse_config(fmt::format(
        R"({{"zero_optimization": {{"stage": {}, "gather_16bit_weights_on_model_save": true}}{}}})",
        stage, more)));
  };
  const std::string bf16 = R"(, "bf16": {"enabled": true})";
  CHECK(gathered(bf16, 3) == FloatType::kBf16);
  CHECK(gathered(R"(, "fp16": {"enabled": true})", 3) == FloatType::kFp16);
  CHECK_FALSE(gathered("", 3));
  CHECK_FALSE(gathered(bf16, 2));
  CHECK(gathered(bf16 + R"(, "train": {"final_dtype": "bf16"})", 3) == FloatType::kBf16);
  CHECK_THROWS_WITH(gathered(bf16 + R"(, "train": {"final_dtype": "fp32"})", 3),
                    Catch::Contains("train.final_dtype: contradicts"));
}

TEST_CASE("an optimizer's groups are a list, whose patterns may be one", "[config]") {
  const Config config = parse_config(R"({"optimizer": {"type": "AdamW", "moment_dtype": "mxfp8",
      "param_groups": [{"max_dims": 1, "weight_decay": 0},
                       {"match": "*.mlp.*", "lr": 0.1}, {"match": ["a", "b?"]}]}})");
  REQUIRE(config.optimizer.param_groups.size() == 3);
  CHECK(config.optimizer.param_groups[0].max_dims == 1);
  CHECK(config.optimizer.param_groups[0].weight_decay == 0.0);
  CHECK(config.optimizer.param_groups[1].match == std::vector<std::string>{"*.mlp.*"});
  CHECK(config.optimizer.param_groups[1].lr == 0.1);
  CHECK(config.optimizer.param_groups[2].match.size() == 2);
  CHECK(config.optimizer.moment_dtype == MomentType::kMxFp8);
  const std::string text = to_config_text(config);
  CHECK(to_config_text(parse_config(text)) == text);
}

TEST_CASE("what an optimizer cannot do with groups and moments is refused", "[config]") {
  CHECK_THROWS_WITH(
      parse_config(R"({"optimizer": {"type": "Muon", "moment_dtype": "bf16"}})"),
      Catch::Contains("optimizer.moment_dtype: Lamb and Muon keep their state in fp32"));
  CHECK_THROWS_WITH(
      parse_config(R"({"optimizer": {"type": "AdamW", "param_groups": [{"use_muon": true}]}})"),
      Catch::Contains("optimizer.param_groups: use_muon is for type Muon"));
  CHECK_THROWS_WITH(
      parse_config(
          R"({"optimizer": {"type": "OneBitLamb", "param_groups": [{"non_freeze": true}]}})"),
      Catch::Contains("optimizer.param_groups: non_freeze is for type OneBitAdam"));
  const ReadConfig adam = read_config_text(
      R"({"optimizer": {"type": "Adam", "base_shapes": [{"shape": [1]}]}})", "f", {});
  CHECK(std::ranges::any_of(adam.problems.all(), [](const Problem& problem) {
    return problem.path.starts_with("optimizer.base_shapes");
  }));
}

TEST_CASE("the canonical text reads back to the same configuration", "[config]") {
  const Config config = parse_config(
      R"({"model": "gpt2/", "train_batch_size": 8, "zero_optimization": {"stage": 2},
          "optimizer": {"type": "Lamb", "params": {"lr": 0.1}},
              "sparse_attention": {"mode": "bigbird"},
          "compression_training": {"weight_quantization": {
             "different_groups": {"a": {"modules": "x"}}}}})");
  const std::string text = to_config_text(config);
  CHECK(to_config_text(parse_config(text)) == text);
}

TEST_CASE("overrides replace, add and remove", "[config]") {
  const std::vector<std::string> overrides = {"zero_optimization.stage=3", "~scheduler",
                                              "+data.train=b.txt", "train.steps=5"};
  const Config config = parse_config(
      R"({"data": {"train": ["a.txt"]}, "scheduler": {"type": "WarmupLR"}})", overrides);
  CHECK(config.zero_optimization.stage == 3);
  CHECK(!config.scheduler.type);
  CHECK(config.data.train == std::vector<std::string>{"a.txt", "b.txt"});
  CHECK(config.train.steps == 5);
  CHECK_THROWS_WITH(parse_config("{}", std::vector<std::string>{"~scheduler"}),
                    Catch::Contains("nothing to remove"));
  CHECK_THROWS_WITH(parse_config("{}", std::vector<std::string>{"scheduler"}),
                    Catch::Contains("expected key=value"));
}

}  // namespace ds
