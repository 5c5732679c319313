// What eval says of a text, against the formula over a model that is known in full.
#include "rankd/verbs/evaluate.h"

#include <numbers>
#include <random>

#include "config/reader/json_reader.h"
#include "tests/rankd/table_model.h"
#include "tests/support/catch.h"
#include "tests/support/files/redirected_streams.h"

using namespace ds;
using ds::testing::TableModel;

namespace {

// Seeded logits between -2 and 2.
TableModel::Logits some_logits(uint32_t seed) {
  std::mt19937 random(seed);
  TableModel::Logits out{};
  for (double& logit : out) logit = static_cast<double>(random() % 4001) / 1000 - 2;
  return out;
}

EvalArgs args_for(const TableModel& model, const std::string& file) {
  EvalArgs args;
  args.source = model.folder();
  args.data = {file};
  args.tokenizer = "byte";
  args.threads = 1;
  args.json = true;
  return args;
}

struct Figures {
  double loss = 0, perplexity = 0, bits_per_byte = 0;
  int64_t tokens = 0, predicted = 0, bytes = 0;
};

Figures figures_of(const EvalArgs& args) {
  int code = -1;
  const std::string text = testing::printed_by([&] { code = run_evaluate(args); }).out;
  REQUIRE(code == 0);
  const Value json = read_config_document(text, "eval");
  Figures out;
  out.loss = json.find("loss")->as_number();
  out.perplexity = json.find("perplexity")->as_number();
  out.bits_per_byte = json.find("bits_per_byte")->as_number();
  out.tokens = json.find("tokens")->as_integer();
  out.predicted = json.find("predicted_tokens")->as_integer();
  out.bytes = json.find("bytes")->as_integer();
  return out;
}

}  // namespace

TEST_CASE("the loss of a text is that of the formula, however it is cut into windows", "[rankd]") {
  const TableModel model(some_logits(1));
  const std::string text = "The quick brown fox jumps over the lazy dog.";
  const std::string file = model.add_file("text.txt", text);
  double nats = 0;
  for (const char c : text.substr(1)) nats += model.nats_of(static_cast<unsigned char>(c));
  const auto predicted = static_cast<int64_t>(text.size()) - 1;
  for (const int64_t length : {1, 3, 8}) {
    for (const int64_t stride : {int64_t{1}, (length + 1) / 2, length}) {
      for (const int64_t batch : {1, 4}) {
        CAPTURE(length, stride, batch);
        EvalArgs args = args_for(model, file);
        args.length = length;
        args.stride = stride;
        args.batch = batch;
        const Figures figures = figures_of(args);
        CHECK(figures.predicted == predicted);  // each token but the first, exactly once
        CHECK(figures.tokens == predicted + 1);
        CHECK(figures.bytes == predicted + 1);
        CHECK(figures.loss == Approx(nats / static_cast<double>(predicted)).epsilon(1e-5));
        CHECK(figures.perplexity == Approx(std::exp(figures.loss)));
        CHECK(figures.bits_per_byte ==
              Approx(nats / std::numbers::ln2 / static_cast<double>(text.size())).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("several text files are one text, in their order", "[rankd]") {
  const TableModel model(some_logits(2));
  EvalArgs args = args_for(model, model.add_file("a.txt", "abc"));
  args.data.push_back(model.add_file("b.txt", "defgh"));
  const Figures figures = figures_of(args);
  double nats = 0;
  for (const char c : std::string("bcdefgh")) nats += model.nats_of(static_cast<unsigned char>(c));
  CHECK(figures.tokens == 8);
  CHECK(figures.predicted == 7);
  CHECK(figures.loss == Approx(nats / 7).epsilon(1e-5));
}

TEST_CASE("the figures for people are those for programs", "[rankd]") {
  const TableModel model(TableModel::Logits{});  // every byte is as likely: ln 256, 8 bits
  EvalArgs args = args_for(model, model.add_file("text.txt", "123456789"));
  args.json = false;
  const std::string text = testing::printed_by([&] { run_evaluate(args); }).out;
  CHECK_THAT(text, Catch::Contains("loss           5.545177 nats per token\n"));
  CHECK_THAT(text, Catch::Contains("perplexity     256\n"));
  CHECK_THAT(text, Catch::Contains("bits per byte  7.111111\n"));  // 8 of 9 bytes are predicted
  CHECK_THAT(text,
             Catch::Contains("tokens         9, 8 of them predicted in windows of 8 every 8"));
}

TEST_CASE("what eval cannot do is one clear error", "[rankd]") {
  const TableModel model(TableModel::Logits{});
  const std::string file = model.add_file("text.txt", "some text");
  struct Case {
    std::function<void(EvalArgs&)> change;
    ExitCode code;
    std::string words;
  };
  const std::vector<Case> cases{
      {[](EvalArgs& a) { a.length = 9; }, ExitCode::kUsage,
       "eval: --seq-length 9: expected 1 to 8, the model's positions"},
      {[](EvalArgs& a) { a.length = 0; }, ExitCode::kUsage, "eval: --seq-length 0"},
      {[](EvalArgs& a) { a.length = 4, a.stride = 5; }, ExitCode::kUsage,
       "eval: --stride 5: expected 1 to 4, the length of a window"},
      {[](EvalArgs& a) { a.data = {"/nowhere/text.txt"}; }, ExitCode::kInputMissing,
       "/nowhere/text.txt"},
      {[&](EvalArgs& a) { a.data = {model.add_file("one.txt", "x")}; }, ExitCode::kBadData,
       "the text is one token"},
      {[](EvalArgs& a) { a.source = "/nowhere"; }, ExitCode::kInputMissing,
       "/nowhere is no run directory, checkpoint tag or Hugging Face folder with weights"},
      {[](EvalArgs& a) { a.tokenizer = "/nowhere"; }, ExitCode::kInputMissing, "/nowhere"},
  };
  for (const Case& bad : cases) {
    INFO(bad.words);
    EvalArgs args = args_for(model, file);
    bad.change(args);
    try {
      testing::printed_by([&] { run_evaluate(args); });
      FAIL_CHECK("it was evaluated");
    } catch (const Error& error) {
      CHECK(error.exit_code() == bad.code);
      CHECK_THAT(error.what(), Catch::Contains(bad.words));
    }
  }
}

TEST_CASE("a model whose weights are damaged has no loss", "[rankd]") {
  TableModel::Logits logits{};
  logits['x'] = std::nan("");
  const TableModel model(logits);
  const EvalArgs args = args_for(model, model.add_file("text.txt", "some text"));
  CHECK_THROWS_AS(testing::printed_by([&] { run_evaluate(args); }), ValidationError);
}
