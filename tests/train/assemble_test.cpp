// From keys to constructor options: what every optimizer and schedule of the file becomes.
#include "train/assemble.h"

#include "config/available.h"
#include "config/load.h"
#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/support/memory_file_system.h"

namespace ds {
namespace {

Config config_of(const std::string& more) {
  return parse_config(R"({"model": {"family": "gpt2"}, "data": {"train": ["/t.txt"]},
      "train_batch_size": 4, "optimizer": {"type": "AdamW"}, )" +
                      more + "}");
}

EngineOptions options_of(const std::string& more) {
  return engine_options(config_of(more), Gpt2Config{}, 2);
}

EngineOptions options_with(const std::string& type, const std::string& params) {
  Config config = parse_config(fmt::format(
      R"({{"model": {{"family": "gpt2"}}, "data": {{"train": ["/t.txt"]}}, "train": {{"steps": 40}},
          "train_batch_size": 4, "optimizer": {{"type": "{}", "params": {{{}}}}}}})",
      type, params));
  require_runnable(config);
  return engine_options(config, Gpt2Config{}, 2);
}

TEST_CASE("limits of memory are sizes, and what is none is refused by key", "[rankd]") {
  CHECK(memory_limits(config_of(R"("train_micro_batch_size_per_gpu": 1)")) == MemoryLimits{});
  const MemoryLimits limits =
      memory_limits(config_of(R"("memory": {"device_limit": "4GiB", "host_limit": "200 MB"})"));
  CHECK(limits == MemoryLimits{.device = size_t{4} << 30, .host = 200'000'000});
  CHECK_THROWS_WITH(config_of(R"("memory": {"host_limit": "much"})"),
                    Catch::Contains("memory.host_limit") && Catch::Contains("\"much\" is no size"));
}

TEST_CASE("batches and runs beyond their limits are refused by key", "[rankd]") {
  const auto options = [](const std::string& sizes) {
    return engine_options(
        parse_config(R"({"model": {"family": "gpt2"}, "data": {"train": ["/t.txt"]},
        "optimizer": {"type": "AdamW"}, )" +
                     sizes + "}"),
        Gpt2Config{}, 2);
  };
  CHECK_THROWS_WITH(
      options(R"("train_micro_batch_size_per_gpu": 16385)"),
      Catch::Contains("train_micro_batch_size_per_gpu: 16385 samples of 1024 tokens"));
  CHECK_THROWS_WITH(options(R"("train_micro_batch_size_per_gpu": 4611686018427387904)"),
                    Catch::Contains("does not fit 64 bits"));
  CHECK_THROWS_WITH(options(R"("train_batch_size": 9223372036854775806)"),
                    Catch::Contains("expected at most"));
  CHECK_THROWS_WITH(
      options(R"("train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2147483648)"),
      Catch::Contains("gradient_accumulation_steps: 2147483648, expected at most 65536"));
  MemoryFileSystem fs;
  fs.create("/t.txt")->write(0, std::as_bytes(std::span(std::string_view("0123456789"))));
  const SampleSet samples(
      open_token_sources(fs, std::vector<std::string>{"/t.txt"}, ByteTokenizer()), 4, 256);
  const BatchShape batch{.micro_batch = 4, .accumulation = 1, .ranks = 2};
  TrainSection train;
  train.steps = 7;
  CHECK(total_steps(train, batch, samples.size()) == 7);
  train.steps = INT64_MAX;
  CHECK_THROWS_WITH(total_steps(train, batch, samples.size()), Catch::Contains("train.steps: "));
  train.steps.reset();
  train.epochs = 8;
  CHECK(total_steps(train, batch, samples.size()) == 2);
  train.epochs = 1e300;
  CHECK_THROWS_WITH(total_steps(train, batch, samples.size()), Catch::Contains("train.epochs: "));
}

TEST_CASE("a Llama built from keys has the dropout that the file asks for", "[rankd]") {
  const Config config =
      parse_config(R"({"model": {"family": "llama", "attention_dropout": 0.25}})");
  MemoryFileSystem fs;
  CHECK(std::get<LlamaConfig>(model_config(config.model, fs)).attention_dropout == 0.25);
}

TEST_CASE("JSON lines end with the token that the tokenizer's folder names, wherever it does",
          "[rankd]") {
  MemoryFileSystem fs;
  fs.make_directory("/m");
  fs.write_text_atomically("/m/tokenizer.json", R"({"added_tokens": [{"id": 2, "content": "<end>"}],
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u010a": 3}, "merges": []},
          "decoder": {"type": "ByteLevel"}})");
  fs.write_text_atomically("/d.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"ba\"}\n");
  const auto tokens = [&] {
    DataSection section;
    section.train = {"/d.jsonl"};
    section.tokenizer = "/m";
    section.sequence_length = 5;
    const TrainingData data = open_data(section, Gpt2Config{.n_positions = 8, .vocab_size = 4}, fs);
    std::vector<int32_t> ids(6);
    data.train.read(0, ids);
    return ids;
  };
  using Ids = std::vector<int32_t>;
  CHECK(tokens() == Ids{0, 1, 3, 1, 0, 3});
  fs.write_text_atomically("/m/config.json", R"({"eos_token_id": [2, 1]})");
  CHECK(tokens() == Ids{0, 1, 2, 1, 0, 2});
  fs.write_text_atomically("/m/config.json",
                           R"({"eos_token_id": 50256})");  // of another vocabulary
  CHECK(tokens() == Ids{0, 1, 3, 1, 0, 3});
  fs.write_text_atomically("/m/special_tokens_map.json", R"({"eos_token": {"content": "<end>"}})");
  CHECK(tokens() == Ids{0, 1, 2, 1, 0, 2});
  fs.write_text_atomically("/m/tokenizer_config.json", R"({"eos_token": "a"})");
  CHECK(tokens() == Ids{0, 1, 0, 1, 0, 0});
}

TEST_CASE("token ids need no tokenizer, text one that fits the model", "[rankd]") {
  MemoryFileSystem fs;
  fs.make_directory("/m");
  fs.write_text_atomically("/t.txt", "0123456789");
  const auto open = [&](const std::string& file, const std::string& tokenizer, int64_t vocabulary) {
    DataSection section;
    section.train = {file};
    section.tokenizer = tokenizer;
    section.sequence_length = 4;
    return open_data(section, Gpt2Config{.n_positions = 8, .vocab_size = vocabulary}, fs);
  };
  CHECK_THROWS_WITH(open("/t.txt", "/m", 256),
                    Catch::Contains("/m: the folder holds no tokenizer"));
  CHECK_THROWS_WITH(open("/t.txt", "byte", 255),
                    Catch::Contains("256 tokens") && Catch::Contains("255"));
  CHECK(open("/t.txt", "byte", 256).tokenizer != nullptr);
  const std::array<int32_t, 256> header{20240801, 7, 9};
  const std::array<int32_t, 9> ids{0, 1, 2, 3, 4, 5, 6, 7, 8};
  const auto shard = fs.create("/ids.bin");
  shard->append(std::as_bytes(std::span(header)));
  shard->append(std::as_bytes(std::span(ids)));
  CHECK(open("/ids.bin", "/m", 9).tokenizer == nullptr);
}

TEST_CASE("each optimizer gets its own parameters and rate", "[rankd]") {
  const OptimizerConfig adam = options_with("Adam", R"("lr": 0.5, "betas": [0.8, 0.7])").optimizer;
  CHECK(learning_rate(adam) == 0.5);
  CHECK(adam.adam.betas == std::array{0.8, 0.7});
  const OptimizerConfig lion = options_with("Lion", R"("weight_decay": 0.2)").optimizer;
  CHECK(learning_rate(lion) == 0.001);
  CHECK(lion.lion.weight_decay == 0.2);
  CHECK(learning_rate(options_with("Adagrad", "").optimizer) == 0.01);
  CHECK(learning_rate(options_with("SGD", R"("lr": 0.1)").optimizer) == 0.1);
}

TEST_CASE("weight decay is decoupled for AdamW, and for Adam unless it says otherwise", "[rankd]") {
  CHECK(decays_decoupled(options_with("Adam", "").optimizer));
  CHECK_FALSE(decays_decoupled(options_with("Adam", R"("adam_w_mode": false)").optimizer));
  CHECK(decays_decoupled(options_with("AdamW", R"("adam_w_mode": false)").optimizer));
}

TEST_CASE("what an optimizer does not have here is refused by name", "[rankd]") {
  CHECK_THROWS_WITH(options_with("Lamb", ""), Catch::Contains("optimizer.type"));
  CHECK_THROWS_WITH(options_with("Adam", R"("amsgrad": true)"), Catch::Contains("amsgrad"));
  CHECK_THROWS_WITH(options_with("Adagrad", R"("lr_decay": 0.1)"), Catch::Contains("lr_decay"));
  CHECK_THROWS_WITH(options_with("Adagrad", R"("initial_accumulator_value": 0.1)"),
                    Catch::Contains("initial_accumulator_value"));
  CHECK_THROWS_WITH(options_with("SGD", R"("maximize": true)"), Catch::Contains("maximize"));
  CHECK_THROWS_WITH(options_with("SGD", R"("nesterov": true)"),
                    Catch::Contains("needs momentum > 0"));
}

TEST_CASE("a decay ends with the run unless it says when", "[rankd]") {
  const auto total = [](const std::string& params) {
    return options_of(R"("train": {"steps": 40}, "scheduler": {"type": "WarmupCosineLR",
                   "params": {)" +
                      params + "}}")
        .schedule.warmup_cosine.total_num_steps;
  };
  CHECK(total("") == 40);
  CHECK(total(R"("total_num_steps": 90)") == 90);
  Config endless = config_of(R"("train": {"steps": 1}, "scheduler": {"type": "WarmupDecayLR"})");
  endless.train.steps.reset();
  const EngineOptions options = engine_options(endless, Gpt2Config{}, 2);
  CHECK_THROWS_WITH(StepRules({.schedule = options.schedule}), Catch::Contains("total_num_steps"));
}

}  // namespace
}  // namespace ds
