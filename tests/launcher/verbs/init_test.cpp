#include <deque>

#include "config/available.h"
#include "config/load.h"
#include "core/status/error.h"
#include "launcher/init/questions.h"
#include "launcher/init/train_file.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

// Answers from a list; what was asked and refused is kept.
class Script final : public Answers {
 public:
  explicit Script(std::deque<std::string> answers) : answers_(std::move(answers)) {}
  std::string ask(const Question& question) override {
    asked.push_back(question.option);
    if (answers_.empty()) throw UsageError("the script has ended");
    std::string answer = answers_.front();
    answers_.pop_front();
    return answer;
  }
  void refuse(const std::string& why) override { refused.push_back(why); }

  std::vector<std::string> asked;
  std::vector<std::string> refused;

 private:
  std::deque<std::string> answers_;
};

InitContext two_ranks() {
  InitContext out;
  out.look = [](const std::string& path) -> InputFacts {
    if (path == "gpt2") return {1024, 50257, 50257};
    if (path == "bare") return {128, 300, std::nullopt};
    if (path == "bytes") return {128, 256, std::nullopt};
    if (path == "bpe") return {std::nullopt, std::nullopt, 1000};
    return {};
  };
  out.exists = [](const std::string& path) {
    return path == "chat.jsonl" || path == "pairs.jsonl" || path == "a.txt" || path == "b.txt" ||
           path == "gpt2" || path == "bare" || path == "bpe" || path == "empty" || path == "bytes";
  };
  out.format_of = [](const std::vector<std::string>& paths) {
    return paths.front() == "chat.jsonl"    ? "chat"
           : paths.front() == "pairs.jsonl" ? "preference"
                                            : "text";
  };
  out.file_bytes = [](const std::string& path) {
    return path.ends_with(".txt") ? std::optional<int64_t>(1'000'000) : std::nullopt;
  };
  out.ranks = 2;
  out.bf16_is_faster = [] { return false; };
  return out;
}

std::string refusal(const InitOptions& options, const InitContext& context = two_ranks()) {
  try {
    choose_training(options, context, nullptr);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

// Whatever is chosen, `check` has no error and no note about the file, and it can be run.
void require_clean(const TrainingChoices& choices) {
  const std::string text = train_file(choices, "train.json");
  INFO(text);
  ReadConfig read = read_config_text(text, "train.json");
  for (const Problem& problem : read.problems.all()) CHECK(problem.text() == "");
  require_runnable(read.config);
}

}  // namespace

TEST_CASE("data is all that has to be said", "[launcher]") {
  const TrainingChoices choices = choose_training({.data = {"a.txt"}}, two_ranks(), nullptr);
  CHECK(choices.model == "small");
  CHECK(choices.tokenizer == "byte");
  CHECK(choices.vocabulary == 256);
  CHECK(choices.sequence_length == 256);
  CHECK(choices.batch == 8);
  CHECK(choices.zero_stage == 2);
  CHECK(choices.steps == 200);
  CHECK_FALSE(choices.bf16);
  CHECK(choices.data_bytes == 1'000'000);
  require_clean(choices);
}

TEST_CASE("without data and without anybody to ask, the option is named", "[launcher]") {
  CHECK_THAT(refusal({}), Catch::StartsWith("--data is needed"));
}

TEST_CASE("an option that cannot be is named with its value", "[launcher]") {
  CHECK_THAT(refusal({.data = {"nowhere.txt"}}), Catch::Contains("there is no nowhere.txt"));
  CHECK(refusal({.data = {"shards/*.txt"}})
            .empty());  // whether a pattern matches is seen by who reads it
  CHECK_THAT(refusal({.data = {"a.txt"}, .model = "smal"}),
             Catch::Contains("--model smal") && Catch::Contains("did you mean small?"));
  CHECK_THAT(refusal({.data = {"a.txt"}, .model = "empty"}), Catch::Contains("no config.json"));
  CHECK_THAT(refusal({.data = {"a.txt"}, .tokenizer = "empty"}),
             Catch::Contains("the folder has no tokenizer"));
  CHECK_THAT(refusal({.data = {"a.txt"}, .model = "bare", .tokenizer = "bpe"}),
             Catch::Contains("1000 tokens, the model 300"));
  CHECK_THAT(refusal({.data = {"a.txt"}, .model = "bare"}),
             Catch::StartsWith("--tokenizer is needed"));
  CHECK_THAT(refusal({.data = {"a.txt"}, .model = "gpt2", .sequence_length = "2048"}),
             Catch::Contains("from 2 to 1024"));
  CHECK_THAT(refusal({.data = {"a.txt"}, .batch = "7"}), Catch::Contains("2 ranks"));
  CHECK_THAT(refusal({.data = {"a.txt"}, .precision = "fp16"}),
             Catch::Contains("expected fp32 or bf16"));
  CHECK_THAT(refusal({.data = {"a.txt"}, .zero_stage = "4"}), Catch::Contains("--zero-stage 4"));
  for (const char* const steps : {"0", "-3", "ten", "1e3", "", "99999999999999999999"}) {
    CHECK_THAT(refusal({.data = {"a.txt"}, .steps = steps}), Catch::StartsWith("--steps"));
  }
}

TEST_CASE("a folder learns from records that are examples", "[launcher]") {
  const TrainingChoices choices =
      choose_training({.data = {"chat.jsonl"}, .finetune = "gpt2"}, two_ranks(), nullptr);
  CHECK(choices.model == "gpt2");
  CHECK(choices.format == "chat");
  CHECK(choices.sequence_length == 1024);
  require_clean(choices);
  const std::string text = train_file(choices, "train.json");
  CHECK_THAT(text, Catch::Contains("\"format\": \"chat\"") && Catch::Contains("\"lr\": 2e-05"));
  const TrainingChoices pairs =
      choose_training({.data = {"pairs.jsonl"}, .finetune = "gpt2"}, two_ranks(), nullptr);
  require_clean(pairs);
  CHECK_THAT(train_file(pairs, "train.json"),
             Catch::Contains("\"format\": \"preference\"") && Catch::Contains("\"lr\": 1e-06") &&
                 Catch::Contains("\"loss_type\": \"sigmoid\"") && !Catch::Contains("packing"));
  CHECK_THAT(refusal({.data = {"a.txt"}, .finetune = "gpt2"}),
             Catch::StartsWith("--finetune: a.txt has no examples"));
  CHECK_THAT(refusal({.data = {"chat.jsonl"}, .model = "gpt2", .lora = true}),
             Catch::StartsWith("--lora: adapters are trained beside a folder's weights"));
  const std::string adapted =
      train_file(choose_training({.data = {"chat.jsonl"}, .finetune = "gpt2", .lora = true},
                                 two_ranks(), nullptr),
                 "tune.json");
  CHECK_THAT(adapted, Catch::Contains("\"lora\": {\"r\": 16, \"lora_alpha\": 32") &&
                          Catch::Contains("\"lr\": 0.0002"));
  CHECK_THAT(refusal({.data = {"chat.jsonl"}, .finetune = "small"}),
             Catch::Contains("expected a folder"));
  CHECK_THAT(refusal({.data = {"chat.jsonl"}, .finetune = "empty"}),
             Catch::StartsWith("--finetune empty"));
  CHECK_THAT(refusal({.data = {"chat.jsonl"}, .model = "gpt2", .finetune = "gpt2"}),
             Catch::Contains("give one of them"));
}

TEST_CASE("what no option says is asked for, a refused answer again", "[launcher]") {
  Script script(
      {"", "nowhere", "a.txt b.txt", "gpt2", "", "4096", "512", "", "bf16", "5", "3", ""});
  const TrainingChoices choices = choose_training({.steps = "70"}, two_ranks(), &script);
  CHECK(script.asked == std::vector<std::string>{"--data", "--data", "--data", "--model",
                                                 "--tokenizer", "--sequence-length",
                                                 "--sequence-length", "--batch", "--precision",
                                                 "--zero-stage", "--zero-stage"});
  REQUIRE(script.refused.size() == 4);
  CHECK(script.refused[0] == "this one has no default");
  CHECK(choices.data == std::vector<std::string>{"a.txt", "b.txt"});
  CHECK(choices.tokenizer == "gpt2");
  CHECK(choices.vocabulary == 50257);
  CHECK(choices.sequence_length == 512);
  CHECK(choices.bf16);
  CHECK(choices.zero_stage == 3);
  CHECK(choices.steps == 70);
  require_clean(choices);
}

TEST_CASE("when nobody answers any more, nothing is chosen", "[launcher]") {
  Script script({"a.txt", "tiny"});
  CHECK_THROWS_AS(choose_training({}, two_ranks(), &script), UsageError);
}

TEST_CASE("defaults fit the machine", "[launcher]") {
  InitContext many = two_ranks();
  many.ranks = 24;
  many.bf16_is_faster = [] { return true; };
  const TrainingChoices choices = choose_training({.data = {"a.txt"}}, many, nullptr);
  CHECK(choices.batch == 24);
  CHECK(choices.bf16);
}

TEST_CASE("every file that can be chosen is valid, without a note", "[launcher]") {
  for (const char* const model : {"tiny", "small", "medium", "large", "gpt2"}) {
    for (const char* const stage : {"0", "1", "2", "3"}) {
      for (const char* const steps : {"1", "2", "3", "1000000"}) {
        for (const char* const precision : {"fp32", "bf16"}) {
          require_clean(choose_training({.data = {"a.txt"},
                                         .model = model,
                                         .sequence_length = steps == std::string("1") ? "2" : "100",
                                         .precision = precision,
                                         .zero_stage = stage,
                                         .steps = steps},
                                        two_ranks(), nullptr));
        }
      }
    }
  }
}

TEST_CASE("the vocabulary of a new model covers the tokenizer, padded", "[launcher]") {
  const TrainingChoices choices =
      choose_training({.data = {"a.txt"}, .tokenizer = "bpe"}, two_ranks(), nullptr);
  const Config config = parse_config(train_file(choices, "train.json"));
  CHECK(std::get<LlamaConfig>(config.model.built).vocab_size == 1024);
}

TEST_CASE("a model folder brings its tokenizer, or has 256 ids, or one has to be named",
          "[launcher]") {
  CHECK(choose_training({.data = {"a.txt"}, .model = "gpt2"}, two_ranks(), nullptr).tokenizer ==
        "gpt2");
  CHECK(choose_training({.data = {"a.txt"}, .model = "bytes"}, two_ranks(), nullptr).tokenizer ==
        "byte");
  CHECK_THAT(refusal({.data = {"a.txt"}, .model = "bare"}),
             Catch::StartsWith("--tokenizer is needed"));
}

TEST_CASE("names with quotes and control characters stay what they are", "[launcher]") {
  TrainingChoices choices = choose_training({.data = {"a.txt"}}, two_ranks(), nullptr);
  choices.data = {"a \"b\" \\ c.txt", "tab\there"};
  CHECK(parse_config(train_file(choices, "train.json")).data.train == choices.data);
}

TEST_CASE("only data with room for it is held out for validation", "[launcher]") {
  TrainingChoices choices = choose_training({.data = {"a.txt"}}, two_ranks(), nullptr);
  CHECK(parse_config(train_file(choices, "t")).data.validation_fraction > 0);
  for (const std::optional<int64_t> bytes :
       {std::optional<int64_t>(5000), std::optional<int64_t>()}) {
    choices.data_bytes = bytes;
    CHECK(parse_config(train_file(choices, "t")).data.validation_fraction == 0);
    require_clean(choices);
  }
}

TEST_CASE("what rankd says of a folder is read, and anything else is refused", "[launcher]") {
  const InputFacts facts =
      parse_input_facts(R"({"positions": 1024, "vocabulary": 50257, "tokenizer": null})");
  CHECK(facts.positions == 1024);
  CHECK_FALSE(facts.tokenizer.has_value());
  CHECK_THROWS_AS(parse_input_facts(R"({"positions": 1024})"), DataError);
}

}  // namespace ds
