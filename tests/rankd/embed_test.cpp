// Vectors of texts, against those of Hugging Face's models in tests/golden/embeddings.
#include <cmath>

#include "config/reader/json_reader.h"
#include "core/files/file.h"
#include "core/values/index.h"
#include "rankd/verbs/evaluate.h"
#include "tests/rankd/table_model.h"
#include "tests/support/catch.h"
#include "tests/support/files/redirected_streams.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

const std::string kTexts = "texts.jsonl";

std::string golden_path(const std::string& name) {
  return testing::source_directory() + "/tests/golden/embeddings/" + name;
}

EvalArgs args_for(const std::string& model) {
  EvalArgs args;
  args.source = golden_path(model);
  args.tokenizer = model == "bert" ? "" : "byte";
  args.threads = 1;
  args.json = true;
  args.embed = {.embeds = true, .texts = golden_path(kTexts)};
  return args;
}

testing::Printed printed_of(const EvalArgs& args) {
  int code = -1;
  testing::Printed printed = testing::printed_by([&] { code = run_evaluate(args); });
  REQUIRE(code == 0);
  return printed;
}

std::vector<Value> lines_of(const std::string& text) {
  std::vector<Value> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.push_back(read_config_document(text.substr(begin, end - begin), "line"));
    begin = end + 1;
  }
  return lines;
}

void require_near(const Value& got, const Value& wanted) {
  REQUIRE(got.items().size() == wanted.items().size());
  for (size_t i = 0; i < wanted.items().size(); ++i) {
    CAPTURE(i);
    CHECK(nth(got.items(), i).as_number() ==
          Approx(nth(wanted.items(), i).as_number()).margin(1e-5));
  }
}

TEST_CASE("vectors of texts are those of Hugging Face's hidden states, pooled", "[rankd]") {
  RealFileSystem files;
  const std::string model = GENERATE("bert", "xlm-roberta", "mistral", "qwen3");
  const std::string pooling = GENERATE("mean", "cls", "last");
  const bool normalizes = GENERATE(false, true);
  CAPTURE(model, pooling, normalizes);
  const Value golden =
      read_config_document(files.read_text(golden_path(model) + "/golden.json", 1 << 20), "golden");
  EvalArgs args = args_for(model);
  args.embed.pooling = pooling;
  args.embed.normalize = normalizes ? "yes" : "no";
  args.batch = GENERATE(1, 3);
  const std::vector<Value> lines = lines_of(printed_of(args).out);
  const std::vector<Value>& wanted =
      golden.find(normalizes ? "of_length_1" : "as_they_are")->find(pooling)->items();
  REQUIRE(lines.size() == wanted.size());
  for (size_t text = 0; text < wanted.size(); ++text) {
    CAPTURE(text);
    CHECK(lines[text].find("tokens")->as_integer() ==
          golden.find("tokens")->items()[text].as_integer());
    CHECK(lines[text].find("id")->as_integer() == narrow<int64_t>(text));  // what the line carries
    require_near(*lines[text].find("embedding"), wanted[text]);
  }
}

TEST_CASE("a folder of sentence-transformers says itself how, and how long texts are", "[rankd]") {
  RealFileSystem files;
  const Value golden = read_config_document(
      files.read_text(golden_path("bert") + "/golden.json", 1 << 20), "golden");
  const testing::Printed printed = printed_of(args_for("bert"));
  CHECK_THAT(printed.error, Catch::Contains("note: 1 of 4 texts have more than 8 tokens"));
  const std::vector<Value> lines = lines_of(printed.out);
  for (size_t text = 0; text < lines.size(); ++text) {
    CHECK(lines[text].find("truncated")->as_boolean() == (text == 1));
    require_near(*lines[text].find("embedding"),
                 golden.find("of_length_1")->find("mean")->items()[text]);
  }
}

TEST_CASE("vectors are printed as numbers of a line, too", "[rankd]") {
  EvalArgs args = args_for("qwen3");
  const std::vector<Value> lines = lines_of(printed_of(args).out);
  args.json = false;
  const std::string text = printed_of(args).out;
  CHECK(std::ranges::count(text, '\n') == std::ssize(lines));
  CHECK(std::ranges::count(text, ' ') == 15 * std::ssize(lines));
  CHECK(text.starts_with(
      fmt::format("{} ", static_cast<float>(lines[0].find("embedding")->items()[0].as_number()))));
}

TEST_CASE("a class without a head makes vectors, and is refused where a head is asked for",
          "[rankd]") {
  EvalArgs args = args_for("mistral");
  args.embed = {};
  args.data = {golden_path(kTexts)};
  CHECK_THROWS_WITH(run_evaluate(args),
                    Catch::Contains("MistralModel") && Catch::Contains("a class without a head"));
}

TEST_CASE("texts that cannot be made vectors of are refused", "[rankd]") {
  const testing::TableModel model{testing::TableModel::Logits{}};
  const auto refusal = [&](const std::string& lines, std::optional<int64_t> length = {}) {
    EvalArgs args = args_for("bert");
    args.embed.texts = model.add_file("texts.jsonl", lines);
    args.length = length;
    try {
      run_evaluate(args);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK_THAT(refusal(R"({"text": "a", "embedding": 1})"),
             Catch::Contains("\"embedding\" has the name"));
  CHECK_THAT(refusal(R"({"text": "a", "truncated": 1})"),
             Catch::Contains("\"truncated\" has the name"));
  CHECK_THAT(refusal("\n"), Catch::Contains("no line of"));
  CHECK_THAT(refusal(R"({"text": "a"})", 81), Catch::Contains("--seq-length 81: expected 1 to 80"));
  CHECK_THAT(refusal(R"({"text": "a"})", 2),
             Catch::Contains("2 of which the tokenizer puts around"));
  EvalArgs args = args_for("qwen3");
  args.embed.texts = model.add_file("empty.jsonl", R"({"text": ""})");
  CHECK_THROWS_WITH(run_evaluate(args), Catch::Contains("a text is empty"));
}

}  // namespace
}  // namespace ds
