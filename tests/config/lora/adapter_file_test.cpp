// adapter_config.json as peft writes it, in and out.
#include "config/sections/adapters/adapter_file.h"

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

namespace ds {
namespace {

AdapterFile read(const std::string& text) {
  MemoryFileSystem files;
  files.make_directories("/a");
  files.write_text_atomically("/a/adapter_config.json", text);
  return read_adapter_file(files, "/a");
}

std::string why(const std::string& text) {
  try {
    read(text);
    return "nothing";
  } catch (const DataError& error) {
    return error.what();
  } catch (const Unsupported& error) {
    return error.what();
  }
}

TEST_CASE("what peft says of adapters is read", "[config]") {
  const AdapterFile file = read(
      R"({"peft_type": "LORA", "base_model_name_or_path": "meta/llama", "task_type": "CAUSAL_LM",
          "r": 16, "lora_alpha": 32, "lora_dropout": 0.05, "target_modules": ["q_proj", "v_proj"],
          "bias": "lora_only", "use_rslora": true, "rank_pattern": {"q_proj": 4},
          "alpha_pattern": {}, "layers_to_transform": null, "layers_pattern": null,
          "modules_to_save": null, "exclude_modules": null, "init_lora_weights": "eva",
          "loftq_config": {}, "eva_config": null, "megatron_config": null, "inference_mode": true,
          "megatron_core": "megatron.core", "auto_mapping": null, "revision": null,
          "trainable_token_indices": null, "lora_bias": false, "target_parameters": null})");
  CHECK(file.base == "meta/llama");
  CHECK(file.task == "CAUSAL_LM");
  CHECK(file.spec.rank == 16);
  CHECK(file.spec.alpha == 32);
  CHECK(file.spec.dropout == 0.05);
  CHECK(file.spec.targets == std::vector<std::string>{"q_proj", "v_proj"});
  CHECK(file.spec.bias == AdapterBias::kLoraOnly);
  CHECK(file.spec.scales_by_root);
  CHECK(file.spec.ranks.front().second == 4);
  CHECK(file.spec.folder == "/a");
}

TEST_CASE("what changes results and is not built is refused by its key", "[config]") {
  const auto [member, message] = GENERATE(table<std::string, std::string>({
      {R"("peft_type": "IA3")", "\"peft_type\" = \"IA3\""},
      {R"("lora_bias": true)", "\"lora_bias\" = true"},
      {R"("trainable_token_indices": [1])", "\"trainable_token_indices\" = "},
      {R"("target_parameters": ["experts.w"])", "\"target_parameters\" = "},
      {R"("layer_replication": [[0, 2]])", "\"layer_replication\" = "},
      {R"("brand_new": 3)", "\"brand_new\" = 3"},
      {R"("ensure_weight_tying": true)", "\"ensure_weight_tying\" = true"},
      {R"("megatron_config": {"x": 1})", "\"megatron_config\" = "},
      {R"("init_lora_weights": "pissa_niter_4")", "weights that they have changed"},
      {R"("init_lora_weights": "olora")", "weights that they have changed"},
      {R"("r": 0)", "\"r\": got 0"},
      {R"("r": "x")", "\"r\": "},
      {R"("target_modules": [])", "\"target_modules\" is an empty list"},
  }));
  CAPTURE(member);
  const std::string type = member.find("peft_type") == 1 ? "" : R"("peft_type": "LORA", )";
  CHECK_THAT(why("{" + type + member + "}"),
             Catch::StartsWith("/a/adapter_config.json: ") && Catch::Contains(message));
}

TEST_CASE("what is no such file is refused with its place", "[config]") {
  CHECK_THAT(why("[1]"), Catch::StartsWith("/a/adapter_config.json"));
  CHECK_THAT(why("{\"r\": "), Catch::StartsWith("/a/adapter_config.json:1:"));
  CHECK_THAT(why(std::string(100'000, '[')), Catch::StartsWith("/a/adapter_config.json:1:"));
  CHECK_THAT(why("{}"), Catch::Contains("\"peft_type\" = \"\""));
  MemoryFileSystem files;
  files.make_directories("/a");
  CHECK_FALSE(has_adapter(files, "/a"));
  CHECK_THROWS_AS(read_adapter_file(files, "/a"), InputMissing);
}

TEST_CASE("what is written is read as the same adapters", "[config]") {
  const AdapterSpec spec{.rank = 4,
                         .alpha = 6.5,
                         .dropout = 0.25,
                         .excluded = {"o_proj"},
                         .scales_by_root = true,
                         .ranks = {{"q_proj", 2}},
                         .alphas = {{"v_proj", 3}},
                         .layers = {0, 2},
                         .layer_lists = {"layers"},
                         .saved_modules = {"lm_head"},
                         .bias = AdapterBias::kAll};
  const AdapterFile file = read(format_adapter_file(
      {.spec = spec, .modules = {"q_proj", "v_proj"}, .base = "/base", .task = "SEQ_CLS"}));
  CHECK(file.base == "/base");
  CHECK(file.task == "SEQ_CLS");
  CHECK(file.spec.rank == 4);
  CHECK(file.spec.alpha == 6.5);
  CHECK(file.spec.dropout == 0.25);
  CHECK(file.spec.targets == std::vector<std::string>{"q_proj", "v_proj"});
  CHECK(file.spec.excluded == spec.excluded);
  CHECK(file.spec.scales_by_root);
  CHECK(file.spec.ranks == spec.ranks);
  CHECK(file.spec.alphas == spec.alphas);
  CHECK(file.spec.layers == spec.layers);
  CHECK(file.spec.layer_lists == spec.layer_lists);
  CHECK(file.spec.saved_modules == spec.saved_modules);
  CHECK(file.spec.bias == AdapterBias::kAll);
}

}  // namespace
}  // namespace ds
