// What eval says of records with classes, against what Hugging Face's models make of them
// (tests/golden/classifiers, tests/golden/token_classifiers).
#include <filesystem>

#include "config/reader/json_reader.h"
#include "core/files/file.h"
#include "core/status/error.h"
#include "rankd/verbs/evaluate.h"
#include "tests/support/catch.h"
#include "tests/support/files/redirected_streams.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/golden.h"

using namespace ds;

namespace {

// A folder with the weights after training.
struct TrainedFolder {
  TrainedFolder(const std::string& list, const std::string& family)
      : from(testing::source_directory() + "/tests/golden/" + list + "/" + family) {
    for (const char* const name : {"config.json", "tokenizer.json"}) {
      std::filesystem::copy_file(from + "/" + name, path(name));
    }
    std::filesystem::copy_file(from + "/final.safetensors", path("model.safetensors"));
  }
  std::string path(const std::string& name) const { return (folder.path() / name).string(); }
  EvalArgs args(const std::string& data) const {
    EvalArgs args;
    args.source = folder.path().string();
    args.data = {from + "/" + data};
    args.length = 12;
    args.batch = 3;
    args.threads = 1;
    args.json = true;
    return args;
  }

  std::string from;
  testing::TemporaryDirectory folder;
};

Value figures_of(const EvalArgs& args) {
  int code = -1;
  const std::string text = testing::printed_by([&] { code = run_evaluate(args); }).out;
  REQUIRE(code == 0);
  return read_config_document(text, "eval");
}

double golden(const TrainedFolder& folder, const char* name) {
  RealFileSystem files;
  const Value all =
      read_config_document(files.read_text(folder.from + "/golden.json", 1 << 20), "golden");
  return all.find(name)->as_number();
}

void check_figures(const TrainedFolder& folder, const EvalArgs& args) {
  const Value figures = figures_of(args);
  CHECK(figures.find("loss")->as_number() ==
        Approx(golden(folder, "validation_loss")).epsilon(1e-5));
  CHECK(figures.find("accuracy")->as_number() ==
        Approx(golden(folder, "validation_accuracy")).epsilon(1e-6));
  int64_t scored = 0, right = 0, predicted = 0;
  for (const Value& one : figures.find("classes")->items()) {
    scored += one.find("scored")->as_integer();
    right += one.find("right")->as_integer();
    predicted += one.find("predicted")->as_integer();
  }
  CHECK(scored == figures.find("scored")->as_integer());
  CHECK(right == figures.find("right")->as_integer());
  CHECK(predicted == scored);
  CHECK(figures.find("samples")->as_integer() == 20);
}

}  // namespace

TEST_CASE("eval scores records as Hugging Face's models score them", "[rankd]") {
  const TrainedFolder bert("classifiers", "bert");
  EvalArgs args = bert.args("data.jsonl");
  args.text_pair = "second";
  check_figures(bert, args);
  args.batch = 20;
  check_figures(bert, args);
  for (const int64_t batch : {1, 3, 20}) {
    const TrainedFolder mean("classifiers", "modernbert_mean");
    EvalArgs of_mean = mean.args("data.jsonl");
    of_mean.batch = batch;
    check_figures(mean, of_mean);
  }
  const TrainedFolder llama("classifiers", "llama");
  check_figures(llama, llama.args("data.jsonl"));
}

TEST_CASE("eval tells how near numbers and several classes come", "[rankd]") {
  const auto near_golden = [](const TrainedFolder& folder, const EvalArgs& args) {
    Value figures = figures_of(args);
    CHECK(figures.find("loss")->as_number() ==
          Approx(golden(folder, "validation_loss")).epsilon(1e-5));
    CHECK(figures.find("scored")->as_integer() == 20);
    CHECK(figures.find("accuracy") == nullptr);
    return figures;
  };
  const TrainedFolder bert("classifiers", "bert_number");
  EvalArgs args = bert.args("data.jsonl");
  args.text_pair = "second";
  const Value figures = near_golden(bert, args);
  const Value& similarity = figures.find("numbers")->items().at(0);
  CHECK(similarity.find("label")->as_string() == "similarity");
  const double error = similarity.find("mean_absolute_error")->as_number();
  CHECK(error > 0);
  CHECK(error * error <= figures.find("loss")->as_number());
  CHECK(std::abs(similarity.find("pearson")->as_number()) <= 1);
  args.json = false;
  CHECK_THAT(testing::printed_by([&] { CHECK(run_evaluate(args) == 0); }).out,
             Catch::Contains("number         similarity: mean absolute error ") &&
                 Catch::Contains("mean squared difference"));
  const TrainedFolder roberta("classifiers", "roberta_several");
  args = roberta.args("data.jsonl");
  const Value several = near_golden(roberta, args);
  REQUIRE(several.find("classes")->items().size() == 3);
  for (const Value& one : several.find("classes")->items()) {
    CHECK(one.find("right")->as_integer() <= one.find("holds")->as_integer());
    CHECK(one.find("right")->as_integer() <= one.find("predicted")->as_integer());
  }
  CHECK(several.find("exact")->as_number() <= 1);
  args.json = false;
  CHECK_THAT(testing::printed_by([&] { CHECK(run_evaluate(args) == 0); }).out,
             Catch::Contains(" of 20 texts have every class right"));
}

TEST_CASE("eval scores words as Hugging Face's models score them", "[rankd]") {
  const TrainedFolder bert("token_classifiers", "bert");
  check_figures(bert, bert.args("data.jsonl"));
  const TrainedFolder roberta("token_classifiers", "roberta");
  check_figures(roberta, roberta.args("data.conll"));
}

TEST_CASE("eval says which records lose their end, and by which option", "[rankd]") {
  const TrainedFolder bert("token_classifiers", "bert");
  EvalArgs args = bert.args("data.jsonl");
  args.length = 4;
  const Value figures = figures_of(args);
  const std::vector<Value>& notes = figures.find("notes")->items();
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes.front().as_string(), Catch::Contains("longer than --seq-length, 4 tokens"));
}

TEST_CASE("eval refuses what models of classes do not know", "[rankd]") {
  const TrainedFolder words("token_classifiers", "bert");
  EvalArgs args = words.args("data.jsonl");
  args.stride = 2;
  CHECK_THROWS_WITH(run_evaluate(args), Catch::Contains("--stride is for models that predict"));
  args.stride.reset();
  args.text_pair = "second";
  CHECK_THROWS_WITH(run_evaluate(args), Catch::Contains("--text-pair: BertForTokenClassification"));
  args.text_pair.reset();
  args.length = 1000;
  CHECK_THROWS_WITH(run_evaluate(args), Catch::Contains("--seq-length 1000: expected 1 to"));
  args.length = 2;
  CHECK_THROWS_WITH(run_evaluate(args), Catch::Contains("--seq-length: 2, of which the tokenizer"));
  args.length = 12;
  args.label = "tags";
  CHECK_THROWS_WITH(run_evaluate(args), Catch::Contains("there is no field \"tags\""));
}
