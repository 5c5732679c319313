// What `dslaunch check FOLDER` tells: of folders that transformers made (tests/golden), and of what
// is missing or wrong in others.
#include "rankd/verbs/weights/model_look.h"

#include <algorithm>
#include <filesystem>

#include "config/reader/json_reader.h"
#include "config/reader/value.h"
#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/redirected_streams.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/golden.h"

using namespace ds;

namespace {

namespace fs = std::filesystem;
using Lines = std::vector<ModelFolderLook::Line>;

std::string golden(const std::string& name) {
  return testing::source_directory() + "/tests/golden/" + name;
}

std::string told(const Lines& lines, const std::string& part) {
  std::string all;
  for (const auto& line : lines) {
    if (line.part == part) all += line.text + "\n";
  }
  return all;
}

// A copy of a folder, to be changed.
struct Copied {
  explicit Copied(const std::string& from) { fs::copy(from, folder.path()); }
  std::string path(const std::string& name) const { return (folder.path() / name).string(); }
  void replace(const std::string& name, const std::string& old, const std::string& by) {
    std::string text = files.read_text(path(name), 1 << 20);
    const size_t at = text.find(old);
    REQUIRE(at != std::string::npos);
    files.write_text_atomically(path(name), text.replace(at, old.size(), by));
  }
  ModelFolderLook look() { return look_at_model_folder(files, folder.path().string()); }

  RealFileSystem files;
  testing::TemporaryDirectory folder;
};

}  // namespace

TEST_CASE("nothing in the folders of transformers is unknown or wrong", "[rankd]") {
  RealFileSystem files;
  int folders = 0;
  for (const char* const list : {"families", "classifiers", "token_classifiers", "embeddings"}) {
    for (const auto& entry : fs::directory_iterator(golden(list))) {
      if (!fs::exists(entry.path() / "config.json")) continue;
      CAPTURE(entry.path().string());
      const ModelFolderLook look = look_at_model_folder(files, entry.path().string());
      CHECK(told(look.problems, "model").empty());
      CHECK(told(look.problems, "weights").empty());
      CHECK(told(look.problems, "tokenizer").empty());
      CHECK(told(look.notes, "model").empty());
      CHECK_FALSE(told(look.facts, "model").empty());
      ++folders;
    }
  }
  CHECK(folders > 20);
}

TEST_CASE("a look at a folder tells its model, weights, tokenizer and classes", "[rankd]") {
  Copied bert(golden("token_classifiers/bert"));
  const ModelFolderLook look = bert.look();
  CHECK(look.problems.empty());
  CHECK_THAT(told(look.facts, "model"), Catch::StartsWith("BertForTokenClassification (bert): "));
  CHECK_THAT(told(look.facts, "learns"), Catch::StartsWith("which of 4 classes a word is of: "));
  CHECK_THAT(told(look.facts, "weights"), Catch::Contains(" F32)"));
  CHECK_THAT(told(look.facts, "tokenizer"), Catch::Contains("tokenizer.json: "));
  CHECK(told(look.facts, "chat template") == "none\n");
  fs::remove(bert.path("model.safetensors"));
  fs::remove(bert.path("final.safetensors"));
  fs::remove(bert.path("tokenizer.json"));
  const ModelFolderLook bare = bert.look();
  CHECK(bare.problems.size() == 1);
  CHECK_THAT(told(bare.problems, "weights"), Catch::Contains("there are none: no model.saf"));
  CHECK_THAT(told(bare.notes, "tokenizer"), Catch::Contains("there is none"));
}

TEST_CASE("a look at experts tells what of them a token uses", "[rankd]") {
  Copied experts(golden("families/qwen2_moe"));
  fs::remove(experts.path("final.safetensors"));
  const ModelFolderLook look = experts.look();
  CHECK(look.problems.empty());
  CHECK_THAT(
      told(look.facts, "model"),
      Catch::Contains("; 7.8 K parameters, of which each token uses 6.6 K (3 of 5 experts)"));
}

TEST_CASE("weights that are not read are named with what to do", "[rankd]") {
  Copied bert(golden("token_classifiers/bert"));
  bert.files.write_text_atomically(bert.path("model.safetensors"),
                                   "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  const ModelFolderLook pointer = bert.look();
  CHECK(pointer.problems.size() == 1);
  CHECK_THAT(told(pointer.problems, "weights"), Catch::Contains("git lfs pull"));
  CHECK_THAT(told(pointer.facts, "model"),
             Catch::StartsWith("BertForTokenClassification (bert): "));
  fs::remove(bert.path("model.safetensors"));
  fs::remove(bert.path("final.safetensors"));
  for (const auto& [name, advice] :
       {std::pair("q4.gguf", "q4.gguf is of llama.cpp"),
        std::pair("adapter_model.safetensors", "adapter_config.json is not beside it"),
        std::pair("model-00001-of-00002.safetensors", "whose index is missing")}) {
    bert.files.write_text_atomically(bert.path(name), "x");
    CHECK_THAT(told(bert.look().problems, "weights"), Catch::Contains(advice));
  }
}

TEST_CASE("a key that is there twice counts as the last one says", "[rankd]") {
  Copied bert(golden("token_classifiers/bert"));
  bert.replace("config.json", "\"hidden_act\"",
               "\"layerdrop\": null, \"layerdrop\": 0.1, \"hidden_act\"");
  CHECK_THAT(told(bert.look().notes, "model"), Catch::Contains("of \"layerdrop\", and"));
}

TEST_CASE("each part of a folder is looked at, also behind one that is wrong", "[rankd]") {
  Copied bert(golden("token_classifiers/bert"));
  bert.replace("config.json", "\"hidden_act\"", "\"attention_sinks\": 4,\n  \"hidden_act\"");
  CHECK_THAT(told(bert.look().notes, "model"), Catch::Contains("of \"attention_sinks\", and"));
  bert.replace("config.json", "\"is_decoder\": false", "\"is_decoder\": true");
  CHECK_THAT(told(bert.look().problems, "model"), Catch::Contains("is_decoder"));
  bert.replace("config.json", "\"BertForTokenClassification\"", "\"MambaForCausalLM\"");
  bert.replace("config.json", "\"model_type\": \"bert\"", "\"model_type\": \"mamba\"");
  bert.files.write_text_atomically(bert.path("tokenizer_config.json"),
                                   R"({"chat_template": "{% for %}"})");
  const ModelFolderLook look = bert.look();
  CHECK_THAT(told(look.problems, "model"),
             Catch::Contains("it has state spaces in place of attention"));
  CHECK_THAT(told(look.facts, "weights"), Catch::Contains(" tensors ("));
  CHECK_THAT(told(look.facts, "tokenizer"), Catch::Contains("tokenizer.json: "));
  CHECK_FALSE(told(look.problems, "chat template").empty());
  CHECK_THAT(look_text(look), Catch::EndsWith(": 2 errors, no notes\n"));
  const Value json = read_config_document(look_json(look), "look");
  CHECK_FALSE(json.find("ok")->as_boolean());
  CHECK(json.find("problems")->items().size() == 2);
}

TEST_CASE("a folder is checked without what is for a configuration", "[rankd]") {
  const std::string folder = golden("token_classifiers/bert");
  int code = -1;
  const std::string text =
      testing::printed_by([&] { code = run_check_of_folder({.config = folder}); }).out;
  CHECK(code == 0);
  CHECK_THAT(text, Catch::EndsWith(folder + ": no errors, no notes\n"));
  CHECK_THROWS_AS(run_check_of_folder({.config = folder, .overrides = {"a=1"}}), UsageError);
  CHECK_THROWS_AS(run_check_of_folder({.config = folder, .num_ranks = 2}), UsageError);
}
