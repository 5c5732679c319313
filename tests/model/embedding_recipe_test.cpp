// What folders of sentence-transformers say of making one vector of a text.
#include "model/hf/embedding_recipe.h"

#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

namespace ds {
namespace {

using Files = std::vector<std::pair<std::string, std::string>>;

const std::string kMean = R"({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false})";

std::string module_of(const std::string& type, const std::string& path = "1_Pooling") {
  return fmt::format(R"({{"path": "{}", "type": "sentence_transformers.models.{}"}})", path, type);
}
std::string modules(const std::vector<std::string>& list) {
  return fmt::format("[{}]", fmt::join(list, ", "));
}

EmbeddingRecipe recipe_of(const Files& files, std::optional<Pooling> chosen = std::nullopt) {
  MemoryFileSystem memory;
  memory.make_directories("/m/1_Pooling");
  for (const auto& [name, text] : files) memory.write_text_atomically("/m/" + name, text);
  return read_embedding_recipe(memory, "/m", chosen);
}

std::string refusal(const Files& files) {
  try {
    recipe_of(files);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("a folder that says nothing has the mean, as it is", "[model]") {
  const EmbeddingRecipe recipe = recipe_of({});
  CHECK(recipe.pooling == Pooling::kMean);
  CHECK_FALSE(recipe.normalizes);
  CHECK_FALSE(recipe.longest);
  CHECK(recipe.not_applied.empty());
  CHECK(recipe_of({}, Pooling::kLast).pooling == Pooling::kLast);
}

TEST_CASE("the pooling is the one that is true", "[model]") {
  const auto pooling = [](const std::string& text) {
    return recipe_of({{"1_Pooling/config.json", text}}).pooling;
  };
  CHECK(pooling(kMean) == Pooling::kMean);
  CHECK(pooling(R"({"pooling_mode_cls_token": true})") == Pooling::kFirst);
  CHECK(pooling(R"({"pooling_mode_lasttoken": true, "pooling_mode_mean_tokens": false})") ==
        Pooling::kLast);
  CHECK(pooling(R"({"pooling_mode": "lasttoken"})") == Pooling::kLast);
  const auto refused = [](const std::string& text) {
    return refusal({{"1_Pooling/config.json", text}});
  };
  CHECK_THAT(refused(R"({"pooling_mode_max_tokens": true})"),
             Catch::Contains("pooling by max is not built"));
  CHECK_THAT(refused(R"({"pooling_mode_max_tokens": true, "pooling_mode_mean_tokens": true})"),
             Catch::Contains("side by side"));
  CHECK_THAT(refused("{}"), Catch::Contains("no pooling is chosen"));
  CHECK_THAT(refused(R"({"pooling_mode_cls_token": 1})"),
             Catch::Contains("neither true nor false"));
  CHECK_THAT(refused("[]"), Catch::Contains("another JSON value"));
  CHECK_THAT(refused("{"), Catch::Contains("no JSON object"));
  // Whoever chooses need not be told.
  CHECK(recipe_of({{"1_Pooling/config.json", R"({"pooling_mode_max_tokens": true})"}},
                  Pooling::kFirst)
            .pooling == Pooling::kFirst);
}

TEST_CASE("the modules behind the model are pooling, and length 1", "[model]") {
  const std::string model = module_of("Transformer", "");
  const auto read = [](const std::vector<std::string>& list) -> Files {
    return {{"modules.json", modules(list)}, {"1_Pooling/config.json", kMean}};
  };
  CHECK_FALSE(recipe_of(read({model, module_of("Pooling")})).normalizes);
  CHECK(recipe_of(read({model, module_of("Pooling"), module_of("Normalize")})).normalizes);
  CHECK_THAT(refusal(read({model, module_of("Pooling"), module_of("Dense")})),
             Catch::Contains("a module \"Dense\" in this place is not built"));
  CHECK_THAT(refusal(read({model, module_of("Normalize"), module_of("Pooling")})),
             Catch::Contains("\"Normalize\" in this place"));
  CHECK_THAT(refusal(read({module_of("Pooling")})), Catch::Contains("\"Pooling\" in this place"));
  CHECK_THAT(refusal(read({model, module_of("Pooling"), module_of("Pooling")})),
             Catch::Contains("\"Pooling\" in this place"));
  CHECK_THAT(refusal(read({model})), Catch::Contains("there is no module Pooling"));
  CHECK_THAT(refusal(read({model, module_of("Pooling", "../other")})),
             Catch::Contains("no folder"));
  CHECK_THAT(refusal(read({model, module_of("Pooling", "..")})), Catch::Contains("no folder"));
  CHECK_THAT(refusal(read({})), Catch::Contains("no list of modules"));
  CHECK_THAT(refusal({{"modules.json", R"([{"type": 1}])"}}), Catch::Contains("is no string"));
}

TEST_CASE("texts are as long as the folder says", "[model]") {
  const auto read = [](const std::string& text) -> Files {
    return {{"sentence_bert_config.json", text}};
  };
  CHECK(recipe_of(read(R"({"max_seq_length": 256, "do_lower_case": false})")).longest == 256);
  CHECK_FALSE(recipe_of(read(R"({"max_seq_length": null})")).longest);
  CHECK_THAT(refusal(read(R"({"max_seq_length": 0})")), Catch::Contains("max_seq_length"));
  CHECK_THAT(refusal(read(R"({"max_seq_length": "9"})")), Catch::Contains("max_seq_length"));
  CHECK_THAT(refusal(read(R"({"do_lower_case": true})")), Catch::Contains("do_lower_case"));
  CHECK(recipe_of({{"config_sentence_transformers.json", R"({"default_prompt_name": "query"})"}})
            .not_applied == std::vector<std::string>{"the prompt \"query\" (default_prompt_name)"});
}

}  // namespace
}  // namespace ds
