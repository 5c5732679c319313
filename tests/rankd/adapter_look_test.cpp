// What `dslaunch check FOLDER` tells of folders of adapters, with and without their model.
#include "rankd/verbs/weights/adapter_look.h"

#include <filesystem>

#include "core/status/error.h"
#include "rankd/verbs/weights/convert.h"
#include "rankd/verbs/weights/model_look.h"
#include "tests/support/catch.h"
#include "tests/support/files/adapter_folder.h"
#include "tests/support/files/redirected_streams.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/golden.h"

using namespace ds;

namespace {

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

// Adapters of a small Llama.
struct Adapters {
  explicit Adapters(AdapterSpec spec = {.rank = 2, .alpha = 6, .targets = {"q_proj", "v_proj"}},
                    const std::string& named = golden("supervised/model")) {
    testing::write_adapters(files, {.folder = root.path(),
                                    .base = golden("supervised/model"),
                                    .spec = std::move(spec),
                                    .named_base = named});
  }
  void write_config(const std::string& text) {
    files.write_text_atomically((root.path() / "adapter_config.json").string(), text);
  }
  ModelFolderLook look() { return look_at_model_folder(files, root.path().string()); }

  RealFileSystem files;
  testing::TemporaryDirectory root;
};

}  // namespace

TEST_CASE("a look at adapters tells their method, their layers and their model", "[rankd]") {
  const ModelFolderLook look = Adapters().look();
  CHECK(look.problems.empty());
  CHECK(look.notes.empty());
  // 2 blocks, q: 2 x 16 + 16 x 2, v: 2 x 16 + 8 x 2
  CHECK(told(look.facts, "adapters") ==
        "LoRA, r = 2, alpha = 6: 4 adapters beside q_proj, v_proj; 224 parameters\n");
  CHECK_THAT(told(look.facts, "model"), Catch::Contains("supervised/model: LlamaForCausalLM"));
  CHECK_THAT(told(look.facts, "weights"), Catch::StartsWith("8 tensors (8 F32), "));
  const ModelFolderLook root = Adapters({.rank = 4,
                                         .alpha = 8,
                                         .targets = {"q_proj"},
                                         .scales_by_root = true,
                                         .ranks = {{"layers.0.self_attn.q_proj", 3}},
                                         .saved_modules = {"lm_head"}})
                                   .look();
  CHECK(root.problems.empty());
  CHECK_THAT(told(root.facts, "adapters"),
             Catch::StartsWith("rsLoRA, r = 4, alpha = 8 (1 patterns have their own): 2 adapters "
                               "beside q_proj; weights of lm_head themselves; "));
}

TEST_CASE("names of heads that peft adds are notes where the model has none of them", "[rankd]") {
  Adapters adapters({.targets = {"q_proj"}, .saved_modules = {"lm_head"}});
  const std::string path = (adapters.root.path() / "adapter_config.json").string();
  std::string text = adapters.files.read_text(path, 1 << 20);
  const std::string head = "\"lm_head\"";
  adapters.write_config(text.replace(text.find(head), head.size(), head + ", \"score\""));
  const ModelFolderLook look = adapters.look();
  CHECK(look.problems.empty());
  CHECK_THAT(told(look.notes, "adapters"),
             Catch::StartsWith("lora.modules_to_save: score fit no module of the model"));
}

TEST_CASE("adapters whose model is not here are looked at by themselves", "[rankd]") {
  Adapters adapters({.targets = {"q_proj"}}, "meta-llama/Llama-2-7b");
  const ModelFolderLook look = adapters.look();
  CHECK(look.problems.empty());
  CHECK(told(look.facts, "model").empty());
  CHECK_THAT(told(look.facts, "adapters"), Catch::Contains("2 adapters beside q_proj"));
  CHECK_THAT(told(look.notes, "model"),
             Catch::StartsWith("meta-llama/Llama-2-7b, which they belong to, is no folder") &&
                 Catch::Contains("--base"));
  adapters.write_config(R"({"peft_type": "LORA"})");
  CHECK_THAT(told(adapters.look().notes, "model"),
             Catch::Contains("does not say which one they belong to"));
}

TEST_CASE("what does not fit, or is not supported, is a problem of its part", "[rankd]") {
  Adapters adapters;
  adapters.write_config(
      R"({"peft_type": "LORA", "r": 3, "target_modules": ["q_proj", "v_proj", "w_proj"],
          "base_model_name_or_path": ")" +
      golden("supervised/model") + "\"}");
  const ModelFolderLook other = adapters.look();
  CHECK_THAT(told(other.problems, "weights"), Catch::Contains("adapter_model.safetensors"));
  CHECK_THAT(told(other.notes, "adapters"), Catch::Contains("w_proj fit no layer of the model"));
  adapters.write_config(
      R"({"peft_type": "LORA", "lora_bias": true, "target_parameters": ["experts"]})");
  const ModelFolderLook odd = adapters.look();
  CHECK_THAT(told(odd.problems, "adapters"),
             Catch::Contains("\"lora_bias\" = true") && Catch::Contains("\"target_parameters\""));
  CHECK_THAT(told(odd.facts, "weights"), Catch::StartsWith("8 tensors"));
  adapters.write_config("{");
  CHECK_FALSE(told(adapters.look().problems, "adapters").empty());
  std::filesystem::remove(adapters.root.path() / "adapter_model.safetensors");
  CHECK_THAT(told(adapters.look().problems, "weights"), Catch::StartsWith("there are none"));
}

TEST_CASE("merge prints what convert prints", "[rankd]") {
  const Adapters adapters;
  const testing::TemporaryDirectory root;
  MergeArgs args;
  args.source = adapters.root.path();
  args.destination = root.path() / "merged";
  args.dtype = "bf16";
  args.json = true;
  int code = -1;
  const std::string said = testing::printed_by([&] { code = run_merge(args); }).out;
  CHECK(code == 0);
  CHECK_THAT(said, Catch::Contains("\"kind\":\"hf\"") && Catch::Contains("\"dtype\":\"bf16\"") &&
                       Catch::Contains("merged into the weights"));
  args.source = golden("supervised/model");
  args.destination = root.path() / "other";
  CHECK_THROWS_AS(run_merge(args), UsageError);
}
