// Masked samples from the keys of a configuration to the batches of ranks.
#include "train/samples/masking.h"

#include <algorithm>

#include "config/config.h"
#include "config/load.h"
#include "core/values/index.h"
#include "data/tokenizer/special_tokens.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/tiny_models.h"
#include "train/assemble.h"
#include "train/batches/loader_source.h"

namespace ds {
namespace {

using testing::tiny_gpt2;
using testing::tiny_like_bert;

ModelConfig bert_of(int64_t vocabulary) {
  auto bert = tiny_like_bert<BertConfig>(1);
  bert.vocab_size = vocabulary;
  return bert;
}

DataSection section_of(const std::string& keys) {
  return parse_config(R"({"data": {"train": ["t"])" + keys + "}}").data;
}

std::optional<MaskingRules> rules_of(const std::string& keys, const ModelConfig& model,
                                     const Tokenizer* tokenizer = nullptr,
                                     std::optional<int32_t> end = std::nullopt) {
  MemoryFileSystem files;
  return masking_rules(section_of(keys), model, tokenizer, end, files);
}

TEST_CASE("the rules of masks are the configuration's", "[train]") {
  CHECK_FALSE(rules_of("", tiny_gpt2(1)));
  const auto plain = rules_of(R"(, "masked_lm": {"mask_token_id": 20})", bert_of(23), nullptr, 4);
  REQUIRE(plain);
  CHECK(plain->share == 0.15);
  CHECK(plain->masked == 0.8);
  CHECK(plain->random == 0.1);
  CHECK(plain->mask == 20);
  CHECK(plain->vocabulary == 23);
  CHECK(plain->never == std::vector<int32_t>{4, 20});
  CHECK(plain->word_edges.empty());
  const auto other = rules_of(R"(, "masked_lm": {"mask_token_id": 3, "mlm_probability": 0.4,
      "mask_replace_prob": 0.5, "random_replace_prob": 0.25})",
                              bert_of(23));
  CHECK(other->share == 0.4);
  CHECK(other->masked == 0.5);
  CHECK(other->random == 0.25);
}

TEST_CASE("words end at white space", "[train]") {
  const ByteTokenizer bytes;
  const auto rules = rules_of(R"(, "masked_lm": {"mask_token_id": 256, "whole_word_mask": true})",
                              bert_of(257), &bytes);
  REQUIRE(rules->word_edges.size() == 257);
  CHECK(rules->word_edges[' '] == WordEdge::kBoth);
  CHECK(rules->word_edges['\n'] == WordEdge::kBoth);
  CHECK(rules->word_edges['a'] == WordEdge::kNone);
  CHECK(rules->word_edges[256] == WordEdge::kNone);
}

TEST_CASE("the token that masks is the tokenizer's own", "[train]") {
  MemoryFileSystem files;
  const auto write = [&](const std::string& path, const std::string& text) {
    files.create(path)->write(0, std::as_bytes(std::span(text)));
  };
  files.make_directories("/t");
  write("/t/tokenizer.json",
        R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġ": 5}, "merges": []},
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
      "added_tokens": [{"id": 2, "content": "<mask>", "special": true, "lstrip": true},
                       {"id": 3, "content": "word", "special": false},
                       {"id": 4, "content": "</s>", "special": true}]})");
  write("/t/tokenizer_config.json", R"({"mask_token": {"content": "<mask>"}})");
  const auto tokenizer = make_tokenizer(files, "/t");
  const std::map<std::string, int32_t> specials{{"<mask>", 2}, {"</s>", 4}};
  CHECK(special_tokens(files, "/t") == specials);
  CHECK(special_tokens(files, "/t/tokenizer.json") == specials);
  CHECK(special_tokens(files, "/nowhere").empty());
  CHECK(special_tokens(files, "byte").empty());
  DataSection data = section_of("");
  data.tokenizer = "/t";
  const auto rules = masking_rules(data, bert_of(23), tokenizer.get(), std::nullopt, files);
  CHECK(rules->mask == 2);
  CHECK(rules->never == std::vector<int32_t>{2, 2, 4});
  // Token ids are no text, but have the same special tokens.
  CHECK(masking_rules(data, bert_of(23), nullptr, std::nullopt, files)->never == rules->never);
  CHECK_THROWS_WITH(masking_rules(data, bert_of(2), nullptr, std::nullopt, files),
                    Catch::Contains("\"<mask>\" is no special token"));
  files.remove("/t/tokenizer_config.json");
  CHECK(masking_rules(data, bert_of(23), nullptr, std::nullopt, files)->mask == 2);
  write("/t/tokenizer_config.json", R"({"mask_token": "ab"})");
  CHECK_THROWS_WITH(masking_rules(data, bert_of(23), tokenizer.get(), std::nullopt, files),
                    Catch::Contains("mask_token \"ab\" is no special token"));
  files.remove("/t/tokenizer.json");
  write("/t/tokenizer.json", R"({"added_tokens": [{"id": "2", "content": "<mask>"}]})");
  CHECK_THROWS_WITH(special_tokens(files, "/t"), Catch::Contains("no list of objects"));
}

TEST_CASE("what looks at losses that all count alike is refused for encoders", "[train]") {
  const Config plain = parse_config("{}");
  CHECK(uneven_conflict(plain, bert_of(23)).empty());
  Config early = plain;
  early.zero_optimization.offload_optimizer.emplace().super_offload = true;
  CHECK_THAT(uneven_conflict(early, bert_of(23)), Catch::Contains("super_offload"));
  CHECK(uneven_conflict(early, tiny_gpt2(1)).empty());
  Config curved = plain;
  curved.eigenvalue.enabled = true;
  CHECK_THAT(uneven_conflict(curved, bert_of(23)), Catch::StartsWith("eigenvalue: "));
}

TEST_CASE("masks that cannot be are refused, with what to do", "[train]") {
  using Catch::Contains;
  const std::string id = R"("mask_token_id": 20)";
  CHECK_THROWS_WITH(rules_of(R"(, "masked_lm": {)" + id + "}", tiny_gpt2(1)),
                    Contains("data.masked_lm: \"gpt2\" predicts next tokens"));
  CHECK_THROWS_WITH(
      rules_of("", bert_of(23)),
      Contains("mask_token_id: nothing names the token that masks") && Contains("give its id"));
  CHECK_THROWS_WITH(rules_of(R"(, "masked_lm": {"mask_token_id": 23})", bert_of(23)),
                    Contains("23 is no token of the model, which has 23"));
  CHECK_THROWS_WITH(
      rules_of(R"(, "masked_lm": {"whole_word_mask": true, )" + id + "}", bert_of(23)),
      Contains("whole_word_mask: the data are token ids"));
  CHECK_THROWS_WITH(rules_of(R"(, "eod_mask_loss": true, "masked_lm": {)" + id + "}", bert_of(23)),
                    Contains("data.eod_mask_loss: \"bert\""));
  for (const char* const bad :
       {R"("mlm_probability": 0)", R"("mlm_probability": 1.5)", R"("mask_replace_prob": -1)",
        R"("mask_replace_prob": 0.8, "random_replace_prob": 0.3)", R"("mask_token_id": -1)"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(section_of(R"(, "masked_lm": {)" + std::string(bad) + "}"), ConfigError);
  }
  CHECK_NOTHROW(
      section_of(R"(, "masked_lm": {"mask_replace_prob": 0.9, "random_replace_prob": 0.1})"));
  CHECK_THROWS_WITH(
      sample_length(parse_config(R"({"train": {"sample_prompt": "x"}})").train, bert_of(23)),
      Contains("train.sample_prompt: \"bert\" sees both sides"));
}

class CountingTokens final : public TokenSource {
 public:
  int64_t size() const override { return 12 * 8 + 1; }
  void read(int64_t offset, std::span<int32_t> out) const override {
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<int32_t>((offset + static_cast<int64_t>(i)) % 19);
    }
  }
  std::string locate(int64_t token) const override { return std::to_string(token); }
};

constexpr int64_t kLength = 8;

struct Read {
  std::vector<int32_t> tokens, targets;
  bool operator==(const Read&) const = default;
};

// What a place has of the steps [first, last) of global batches of 4 samples.
Read read_steps(const SampleSet& samples, const SamplePlace& place, int64_t ranks, int64_t first,
                int64_t last, uint64_t seed = 5, SampleOrder order = SampleOrder::kShuffled) {
  const MaskingRules rules{.share = 0.5, .mask = 20, .vocabulary = 21, .never = {3}};
  const BatchShape shape{.micro_batch = 4 / ranks, .ranks = ranks};
  LoaderSource source(samples, Sampler(samples.size(), order, 1), shape, place,
                      {.rules = {.masking = rules}, .seed = seed});
  const int64_t rows = shape.micro_batch * kLength / place.parts;
  const BatchSpec spec({{"tokens", DType::kI32, {rows}}, {"targets", DType::kI32, {rows}}});
  Read out;
  for (int64_t step = first; step < last; ++step) {
    const MicroBatch batch = host_batch(spec);
    source.fill(step, 0, batch);
    std::ranges::copy(batch.values<int32_t>("tokens"), std::back_inserter(out.tokens));
    std::ranges::copy(batch.values<int32_t>("targets"), std::back_inserter(out.targets));
  }
  return out;
}

TEST_CASE("a sample is masked alike wherever it is read, and otherwise when it comes again",
          "[train]") {
  const SampleSet samples({std::make_shared<CountingTokens>()}, kLength, 23);
  const auto alone = [&](int64_t first, int64_t last) {
    return read_steps(samples, {}, 1, first, last);
  };
  const Read whole = alone(0, 6);
  CHECK(alone(2, 3).targets ==
        std::vector<int32_t>(whole.targets.begin() + 64, whole.targets.begin() + 96));
  for (size_t t = 0; t < whole.tokens.size(); ++t) {
    if (whole.targets[t] >= 0) CHECK(whole.targets[t] != 3);
  }
  CHECK(std::ranges::count(whole.tokens, 20) > 30);
  // Two ranks have two samples of each four, two parts have half of each sample.
  Read ranks, parts;
  for (int64_t step = 0; step < 6; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      const Read one = read_steps(samples, {.rank = rank}, 2, step, step + 1);
      std::ranges::copy(one.tokens, std::back_inserter(ranks.tokens));
      std::ranges::copy(one.targets, std::back_inserter(ranks.targets));
    }
  }
  CHECK(ranks == whole);
  const Read front = read_steps(samples, {.part = 0, .parts = 2}, 1, 0, 1);
  const Read back = read_steps(samples, {.part = 1, .parts = 2, .copy = 0}, 1, 0, 1);
  for (size_t row = 0; row < 4; ++row) {
    for (size_t t = 0; t < 4; ++t) {
      CHECK(front.targets[row * 4 + t] == whole.targets[row * 8 + t]);
      CHECK(front.tokens[row * 4 + t] == whole.tokens[row * 8 + t]);
      CHECK(back.targets[row * 4 + t] == whole.targets[row * 8 + 4 + t]);
      CHECK(back.tokens[row * 4 + t] == whole.tokens[row * 8 + 4 + t]);
    }
  }
  // Three steps are a pass over the samples: the same ones come again, masked otherwise.
  const auto in_order = [&](int64_t step) {
    return read_steps(samples, {}, 1, step, step + 1, 5, SampleOrder::kSequential);
  };
  CHECK(in_order(0).targets != in_order(3).targets);
  CHECK_FALSE(read_steps(samples, {}, 1, 0, 1, 6) == alone(0, 1));
}

}  // namespace
}  // namespace ds
