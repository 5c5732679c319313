// Hugging Face's config.json of models that score classes.
#include "config/families/hf_config.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Names = std::vector<std::string>;

ModelConfig read(const std::string& model, const std::string& keys, const Names& labels = {},
                 std::optional<ClassifierTask> task = std::nullopt) {
  return parse_hf_config(
      R"({"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, )"
      R"("architectures": [")" +
          model + "\"]" + keys + "}",
      "c", {.labels = labels, .task = task});
}

TEST_CASE("a classifier has the classes that its config.json names", "[model]") {
  const std::string names = R"(, "id2label": {"1": "yes", "0": "no"}, "classifier_dropout": 0.3)";
  for (const auto& [model, head] :
       {std::pair("BertForSequenceClassification", "classifier"),
        std::pair("RobertaForSequenceClassification", "classifier.out_proj"),
        std::pair("ModernBertForSequenceClassification", "classifier"),
        std::pair("DistilBertForSequenceClassification", "classifier"),
        std::pair("LlamaForSequenceClassification", "score"),
        std::pair("Qwen3ForSequenceClassification", "score")}) {
    CAPTURE(model);
    const ModelConfig config = read(model, names);
    REQUIRE(config.classifier);
    CHECK(config.classifier->labels == Names{"no", "yes"});
    CHECK_FALSE(config.classifier->is_fresh);
    CHECK(hf_model_class(config) == model);
    CHECK_FALSE(ties_embeddings(config));
    CHECK_FALSE(predicts_next(config));
    CHECK(classifier_modules(config).front() == head);
    CHECK(transformer_spec(config).head.classes == 2);
    const std::string text = format_hf_config(config, DType::kF32);
    CHECK(format_hf_config(parse_hf_config(text, "c"), DType::kF32) == text);
    CHECK(keep_hf_config(text, "c", config, DType::kF32).find("\"yes\"") != std::string::npos);
    CHECK_THROWS_WITH(require_causal(config, "generate"),
                      Catch::Contains(fmt::format("generate: {} scores classes of texts", model)));
  }
  CHECK(transformer_spec(read("BertForSequenceClassification", names)).head.dropout_behind == 0.3);
  CHECK(transformer_spec(read("LlamaForSequenceClassification", names)).head.dropout_behind == 0);
  CHECK(read("BertForSequenceClassification", "").classifier->labels ==
        Names{"LABEL_0", "LABEL_1"});
  CHECK(read("BertForSequenceClassification", R"(, "num_labels": 3)").classifier->labels.size() ==
        3);
}

TEST_CASE("a head for other classes begins anew", "[model]") {
  for (const char* const model : {"BertForMaskedLM", "BertModel"}) {
    const ModelConfig config = read(model, "", {"no", "yes"});
    REQUIRE(config.classifier);
    CHECK(config.classifier->is_fresh);
    CHECK(classifier_modules(config) == Names{"classifier", "bert.pooler.dense"});
    const std::string source =
        R"({"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, )"
        R"("architectures": [")" +
        std::string(model) + R"("], "num_labels": 7, "kept": 1})";
    const ModelConfig again =
        parse_hf_config(keep_hf_config(source, "c", config, DType::kF32), "c");
    REQUIRE(again.classifier);
    CHECK(again.classifier->labels == Names{"no", "yes"});
    CHECK(hf_model_class(again) == "BertForSequenceClassification");
  }
  CHECK_THROWS_WITH(
      read("BertForSequenceClassification", "", {"no", "yes"}),
      Catch::Contains("c: the model scores \"LABEL_0\", \"LABEL_1\" already, and model.labels has "
                      "\"no\", \"yes\""));
  CHECK_FALSE(
      read("BertForSequenceClassification", "", {"LABEL_0", "LABEL_1"}).classifier->is_fresh);
  CHECK_THROWS_WITH(read("OlmoModel", "", {"no", "yes"}), Catch::Contains("OlmoModel"));
  CHECK_THROWS_WITH(read("Olmo2ForCausalLM", "", {"no", "yes"}),
                    Catch::Contains("a head that scores classes of texts (model.labels) of "
                                    "\"olmo2\""));
}

TEST_CASE("a classifier of tokens has a head of its family's kind", "[model]") {
  const std::string names = R"(, "id2label": {"0": "O", "1": "B-X"})";
  for (const auto& [model, modules, dropout] :
       {std::tuple("BertForTokenClassification", Names{"classifier"}, 0.1),
        std::tuple("RobertaForTokenClassification", Names{"classifier"}, 0.1),
        std::tuple("XLMRobertaForTokenClassification", Names{"classifier"}, 0.1),
        std::tuple("ModernBertForTokenClassification",
                   Names{"classifier", "head.dense", "head.norm"}, 0.0),
        std::tuple("DistilBertForTokenClassification", Names{"classifier"}, 0.1),
        std::tuple("LlamaForTokenClassification", Names{"score"}, 0.1),
        std::tuple("MistralForTokenClassification", Names{"score"}, 0.1),
        std::tuple("Qwen2ForTokenClassification", Names{"score"}, 0.1),
        std::tuple("Qwen3ForTokenClassification", Names{"score"}, 0.1),
        std::tuple("GPT2ForTokenClassification", Names{"classifier"}, 0.1)}) {
    CAPTURE(model);
    const ModelConfig config = read(model, names);
    REQUIRE(config.classifier);
    CHECK(config.classifier->task == ClassifierTask::kTokens);
    CHECK(config.classifier->labels == Names{"O", "B-X"});
    CHECK(hf_model_class(config) == model);
    CHECK(classifier_modules(config) == modules);
    CHECK(classifier_spec(config)->row == ScoredRow::kEach);
    const HeadSpec head = transformer_spec(config).head;
    CHECK(head.classes == 2);
    CHECK(head.bias == modules.front());
    CHECK(head.dropout_behind == dropout);
    CHECK(head.dropout_before == 0);
    const std::string text = format_hf_config(config, DType::kF32);
    CHECK(format_hf_config(parse_hf_config(text, "c"), DType::kF32) == text);
    CHECK(text.find("problem_type") == std::string::npos);
    CHECK_THROWS_WITH(require_causal(config, "generate"),
                      Catch::Contains(fmt::format("generate: {} scores classes of tokens", model)));
  }
  CHECK_THROWS_WITH(read("LlamaForTokenClassification", R"(, "token_classification_bias": false)"),
                    Catch::Contains("token_classification_bias"));
  CHECK_THROWS_WITH(read("BertForTokenClassification", R"(, "num_labels": 1)"),
                    Catch::Contains("one class"));
}

TEST_CASE("of what classes are follows from the task, or else the folder", "[model]") {
  const ModelConfig fresh = read("BertForMaskedLM", "", {"O", "B-X"}, ClassifierTask::kTokens);
  CHECK(hf_model_class(fresh) == "BertForTokenClassification");
  CHECK(classifier_modules(fresh) == Names{"classifier"});
  const std::string source =
      R"({"hidden_size": 64, "num_attention_heads": 4, "architectures": ["BertModel"]})";
  const ModelConfig kept =
      parse_hf_config(source, "c", {.labels = {"O", "B-X"}, .task = ClassifierTask::kTokens});
  const ModelConfig again = parse_hf_config(keep_hf_config(source, "c", kept, DType::kF32), "c");
  CHECK(hf_model_class(again) == "BertForTokenClassification");
  CHECK(again.classifier->labels == Names{"O", "B-X"});
  CHECK(hf_model_class(read("BertForTokenClassification", "", {}, ClassifierTask::kTokens)) ==
        "BertForTokenClassification");
  CHECK(hf_model_class(read("BertForTokenClassification", "", {"LABEL_0", "LABEL_1"})) ==
        "BertForTokenClassification");
  CHECK_THROWS_WITH(read("BertForTokenClassification", "", {}, ClassifierTask::kTexts),
                    Catch::Contains("BertForTokenClassification is no model of model.task"));
  CHECK_THROWS_WITH(read("BertForMaskedLM", "", {}, ClassifierTask::kTokens),
                    Catch::Contains("give their names in model.labels"));
  CHECK_THROWS_WITH(
      read("OPTForCausalLM", R"(, "ffn_dim": 64)", {"a", "b"}, ClassifierTask::kTokens),
      Catch::Contains("a head that scores classes of tokens"));
}

TEST_CASE("what scores of texts are follows from the folder, or from what is wanted", "[model]") {
  const auto problem_of_model = [](const std::string& keys,
                                   std::optional<ClassifierProblem> wanted = {},
                                   const Names& labels = {}) {
    const std::string source =
        R"({"hidden_size": 64, "num_attention_heads": 4, "architectures": [")" +
        std::string(labels.empty() ? "BertForSequenceClassification" : "BertModel") + "\"]" + keys +
        "}";
    const ModelConfig config = parse_hf_config(source, "c", {.labels = labels, .problem = wanted});
    const ClassifierProblem problem = config.classifier.value().problem;
    CHECK(transformer_spec(config).head.problem == problem);
    for (const std::string& text : {format_hf_config(config, DType::kF32),
                                    keep_hf_config(source, "c", config, DType::kF32)}) {
      CHECK(parse_hf_config(text, "c").classifier.value().problem == problem);
    }
    return problem;
  };
  using enum ClassifierProblem;
  CHECK(problem_of_model("") == kOneClass);
  CHECK(problem_of_model(R"(, "num_labels": 1)") == kNumbers);
  CHECK(problem_of_model(R"(, "problem_type": "regression")") == kNumbers);
  CHECK(problem_of_model(R"(, "problem_type": "multi_label_classification")") == kSeveralClasses);
  CHECK(problem_of_model("", kSeveralClasses) == kSeveralClasses);
  CHECK(problem_of_model(R"(, "problem_type": "regression")", kOneClass) == kOneClass);
  CHECK(problem_of_model("", {}, {"score"}) == kNumbers);
  CHECK(problem_of_model("", {}, {"a", "b"}) == kOneClass);
  CHECK(problem_of_model("", kNumbers, {"a", "b"}) == kNumbers);
  CHECK(problem_of_model("", kSeveralClasses, {"a"}) == kSeveralClasses);
  CHECK_THROWS_WITH(problem_of_model(R"(, "num_labels": 1)", kOneClass),
                    Catch::Contains("a class that all texts would be of"));
  const std::string tokens =
      R"({"hidden_size": 64, "num_attention_heads": 4, "problem_type": "regression", )"
      R"("architectures": ["BertForTokenClassification"]})";
  CHECK(parse_hf_config(tokens, "c").classifier->problem == kOneClass);
  CHECK_THROWS_WITH(parse_hf_config(tokens, "c", {.problem = kNumbers}),
                    Catch::Contains("remove model.problem_type"));
  const std::string none =
      R"({"hidden_size": 64, "num_attention_heads": 4, "architectures": ["BertModel"]})";
  CHECK_THROWS_WITH(parse_hf_config(none, "c", {.problem = kNumbers}),
                    Catch::Contains("as model.problem_type says"));
}

TEST_CASE("a ModernBERT scores its first token, or the mean of all", "[model]") {
  const auto pooled = [](const std::string& keys) {
    const ModelConfig config = read("ModernBertForSequenceClassification", keys);
    const bool is_mean = classifier_spec(config)->row == ScoredRow::kMean;
    CHECK(transformer_spec(config).head.pools_mean == is_mean);
    const std::string text = format_hf_config(config, DType::kF32);
    CHECK(format_hf_config(parse_hf_config(text, "c"), DType::kF32) == text);
    return is_mean;
  };
  CHECK_FALSE(pooled(""));
  CHECK_FALSE(pooled(R"(, "classifier_pooling": "cls")"));
  CHECK(pooled(R"(, "classifier_pooling": "mean")"));
  CHECK_THROWS_WITH(pooled(R"(, "classifier_pooling": "max")"),
                    Catch::Contains("classifier_pooling"));
  const ModelConfig tokens =
      read("ModernBertForTokenClassification", R"(, "classifier_pooling": "mean")");
  CHECK_FALSE(transformer_spec(tokens).head.pools_mean);
  const ModelConfig bert =
      read("BertForSequenceClassification", R"(, "classifier_pooling": "mean")");
  CHECK_FALSE(transformer_spec(bert).head.pools_mean);  // no key of it, in transformers as here
}

TEST_CASE("what a classifier is not is refused by name", "[model]") {
  for (const auto& [keys, named] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"(, "problem_type": "ranking")", "\"problem_type\": \"ranking\""},
           {R"(, "problem_type": 3)", "a \"problem_type\" that is no text"},
           {R"(, "problem_type": "single_label_classification", "num_labels": 1)", "num_labels"},
           {R"(, "id2label": {})", "id2label"},
           {R"(, "num_labels": 2.5)", "num_labels"},
           {R"(, "id2label": {"0": "a", "2": "b"})", "id2label"},
           {R"(, "id2label": {"0": "a", "1": 2})", "id2label"},
           {R"(, "id2label": 3)", "id2label"},
           {R"(, "id2label": {"0": "a", "1": ""})", "a name"},
           {R"(, "classifier_dropout": 1)", "classifier_dropout"}}) {
    CAPTURE(keys);
    CHECK_THROWS_WITH(read("BertForSequenceClassification", keys), Catch::Contains(named));
  }
  CHECK_NOTHROW(
      read("BertForSequenceClassification",
           R"(, "problem_type": "single_label_classification", "classifier_dropout": null)"));
}

}  // namespace
}  // namespace ds
