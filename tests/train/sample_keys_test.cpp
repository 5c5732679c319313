// From keys to what a sample holds: where documents end in it, and how long it is.
#include "config/available.h"
#include "config/load.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "train/assemble.h"

namespace ds {
namespace {

TEST_CASE("a curriculum of lengths reaches the engine, and ranks can share all of them",
          "[rankd]") {
  const auto with = [](const std::string& more) {
    return fmt::format(R"("data": {{"train": ["/t.txt"], "sequence_length": 64}},
        "curriculum_learning": {{"enabled": true, "curriculum_type": "seqlen", "min_difficulty": 8,
            "max_difficulty": 64, "schedule_type": "fixed_linear",
            "schedule_config": {{"total_curriculum_step": 40, "difficulty_step": {}}}}})",
                       more);
  };
  const auto options = [](const std::string& more) {
    Config config = parse_config(R"({"model": {"family": "gpt2"}, "train": {"steps": 90},
        "train_batch_size": 4, "optimizer": {"type": "AdamW"}, )" +
                                 more + "}");
    require_runnable(config);
    return engine_options(config, Gpt2Config{}, 2);
  };
  const EngineOptions of = options(with("8"));
  REQUIRE(of.lengths);
  CHECK(of.lengths->difficulty_step == 8);
  CHECK(of.lengths->max_difficulty == 64);
  CHECK_THROWS_WITH(options(with("5") + R"(, "sequence_parallel_size": 2)"),
                    Catch::Contains("curriculum_learning: samples of 55 tokens, from step "));
  CHECK_THROWS_WITH(
      options(with("5") + R"(, "tensor_parallel": {"autotp_size": 2,
                        "sequence_parallel": true}, "train_micro_batch_size_per_gpu": 1)"),
      Catch::Contains("samples of 55 tokens") && Catch::Contains("cannot share the 55 tokens"));
}

TEST_CASE("documents end with a token that somebody named", "[rankd]") {
  MemoryFileSystem fs;
  fs.make_directory("/m");
  fs.write_text_atomically("/m/tokenizer.json", R"({"added_tokens": [{"id": 2, "content": "<end>"}],
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u010a": 3}, "merges": []},
          "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
          "decoder": {"type": "ByteLevel"}})");
  fs.write_text_atomically("/d.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"ba\"}\n");
  DataSection section;
  section.train = {"/d.jsonl"};
  section.tokenizer = "/m";
  section.sequence_length = 5;
  const auto rules = [&] {
    return open_data(section, Gpt2Config{.n_positions = 8, .vocab_size = 256}, fs).rules.documents;
  };
  CHECK_FALSE(rules().end);  // nobody asks
  section.reset_attention_mask = true;
  CHECK_THROWS_WITH(rules(),
                    Catch::Contains("data.reset_attention_mask: no token ends documents") &&
                        Catch::Contains("give data.eod_token_id"));
  section.train.emplace_back("/d.txt");
  CHECK_THROWS_WITH(rules(), Catch::Contains("between text files comes no token"));
  section.train.pop_back();
  section.separator = "ab";
  CHECK_THROWS_WITH(rules(), Catch::Contains("data.separator is 2 tokens"));
  section.separator = "<end>";
  CHECK(rules().end == 2);
  CHECK_FALSE(rules().masks_loss);
  section.separator.reset();
  fs.write_text_atomically("/m/special_tokens_map.json", R"({"eos_token": {"content": "<end>"}})");
  CHECK(rules().end == 2);
  section.eod_token_id = 1;
  section.eod_mask_loss = true;
  CHECK(rules().end == 1);
  CHECK(rules().masks_loss);
  section.eod_token_id = 256;
  CHECK_THROWS_WITH(rules(), Catch::Contains("256 is no token of the model, which has 256"));
  section.eod_token_id.reset();
  CHECK_THROWS_WITH(document_rules(section, nullptr, {}, 256),
                    Catch::Contains("token ids do not say which of them ends a document"));
}

}  // namespace
}  // namespace ds
