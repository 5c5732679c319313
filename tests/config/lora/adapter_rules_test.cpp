// Which layers have adapters, by peft's rules, and what is wrong with a section that says it.
#include "config/families/spec/adapters.h"
#include "config/load.h"
#include "config/sections/adapters/lora.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

constexpr const char* kQuery = "model.layers.3.self_attn.q_proj";

bool has_adapter(const AdapterSpec& spec, std::string_view module = kQuery) {
  return AdapterRules(spec).adapter_of(module).has_value();
}

TEST_CASE("a target is the end of a path in whole words, a pattern of all of it, or all layers",
          "[config]") {
  const auto [target, fits] = GENERATE(table<std::string, bool>({
      {"q_proj", true},
      {"self_attn.q_proj", true},
      {kQuery, true},
      {"all-linear", true},
      {"All-Linear", true},
      {"proj", false},
      {"_proj", false},
      {"q", false},
      {"attn.q_proj", false},
      {"Q_PROJ", false},
      {".*q_proj", true},
      {".*\\.(q|v)_proj", true},
      {"(q|v)_proj", false},
      {".*q_pro", false},
      {"model\\.layers\\.[0-3]\\..*", true},
      {"", false},
  }));
  CAPTURE(target);
  CHECK(has_adapter({.targets = {target}}) == fits);
  CHECK(has_adapter({.targets = {"k_proj", target}}) == fits);
  CHECK(has_adapter({.excluded = {target}}) !=
        (fits && target.size() != AdapterSpec::kAllLinear.size()));
}

TEST_CASE("blocks that have adapters are told by their numbers, also in a list of a name",
          "[config]") {
  CHECK(has_adapter({.layers = {1, 3}}));
  CHECK_FALSE(has_adapter({.layers = {1, 33}}));
  CHECK(has_adapter({.layers = {3}, .layer_lists = {"layers"}}));
  CHECK_FALSE(has_adapter({.layers = {3}, .layer_lists = {"h"}}));
  CHECK_FALSE(has_adapter({.layers = {3}}, "lm_head"));
  CHECK_FALSE(has_adapter({.layers = {3}}, "3.q_proj"));
  CHECK_FALSE(has_adapter({.layers = {3}}, "layers.3.q_proj"));
  CHECK(has_adapter({.layers = {3}, .layer_lists = {"la.ers"}}, "model.layers.3.q_proj"));
  // A target that is the whole path of a layer is that layer, whatever its block.
  CHECK(has_adapter({.targets = {kQuery}, .layers = {1}}));
  CHECK(has_adapter({}, "lm_head"));
}

TEST_CASE("inside of a module that trains as a whole no layer has an adapter", "[config]") {
  CHECK_FALSE(has_adapter({.saved_modules = {"self_attn"}}));
  CHECK_FALSE(has_adapter({.saved_modules = {"q_proj"}}));
  CHECK(has_adapter({.saved_modules = {"attn", "proj", "k_proj"}}));
  CHECK(AdapterRules({.saved_modules = {"self_attn"}})
            .trains(std::string(kQuery) + ".weight", false));
  CHECK_FALSE(
      AdapterRules({.saved_modules = {"attn"}}).trains(std::string(kQuery) + ".weight", false));
}

TEST_CASE("the first pattern that fits the end of a path says its rank, and another its alpha",
          "[config]") {
  AdapterSpec spec{.rank = 8, .alpha = 16};
  const auto shape = [&] { return *AdapterRules(spec).adapter_of(kQuery); };
  CHECK(shape().rank == 8);
  CHECK(shape().scale == 2);
  spec.ranks = {{"k_proj", 2}, {"q_proj", 4}, {".*", 32}};
  CHECK(shape().rank == 4);
  CHECK(shape().scale == 4);
  spec.alphas = {{"layers.[0-2]..*", 1}, {"layers\\.3\\..*", 24}};
  CHECK(shape().scale == 6);
  spec.scales_by_root = true;
  CHECK(shape().scale == 12);
  spec.ranks = {{"_proj", 2}};  // not from the beginning of a word
  CHECK(shape().rank == 8);
}

TEST_CASE("a parameter's module is its name without what is its own", "[config]") {
  CHECK(module_of_parameter("a.q_proj.weight") == "a.q_proj");
  CHECK(module_of_parameter("a.q_proj.lora_A.weight") == "a.q_proj");
  CHECK(module_of_parameter("a.q_proj.lora_magnitude_vector.weight") == "a.q_proj");
  CHECK(is_adapter_parameter("a.lora_B.weight"));
  CHECK_FALSE(is_adapter_parameter("a.lora_B.bias"));
  CHECK_FALSE(is_adapter_parameter("lora_A.weight.x"));
}

std::string why(const std::string& lora, const std::string& rest = "") {
  try {
    parse_config(fmt::format(R"({{"lora": {}{}}})", lora, rest));
    return "nothing";
  } catch (const ConfigError& error) {
    return error.what();
  } catch (const Unsupported& error) {
    return error.what();
  }
}

TEST_CASE("a section of adapters is refused by the key that is wrong", "[config]") {
  const auto [lora, rest, message] = GENERATE(table<std::string, std::string, std::string>({
      {R"({"r": 0})", "", "lora.r: got 0"},
      {R"({"lora_alpha": 0})", "", "lora.lora_alpha: got 0"},
      {R"({"lora_dropout": 1})", "", "lora.lora_dropout: got 1"},
      {R"({"target_modules": []})", "", "lora.target_modules: is an empty list"},
      {R"x({"target_modules": ".*(q_proj"})x", "",
       "lora.target_modules: '.*(q_proj' is no regular expression"},
      {R"({"rank_pattern": {"q_proj": 1.5}})", "", "lora.rank_pattern: \"q_proj\" is 1.5"},
      {R"({"rank_pattern": {"[": 2}})", "", "lora.rank_pattern: "},
      {R"({"alpha_pattern": {"q_proj": "x"}})", "", "lora.alpha_pattern: \"q_proj\" is "},
      {R"({"layers_pattern": "h"})", "", "lora.layers_pattern: needs layers_to_transform"},
      {R"({"init_lora_weights": "pissa"})", "", "lora.init_lora_weights: "},
      {R"({"bias": "some"})", "", "lora.bias: "},
      {R"({"adapter": "a", "r": 4})", "", "lora.r: is said by the adapter_config.json"},
      {R"({"adapter": "a"})", "", "lora.adapter: belongs to the weights of a model"},
      {R"({})", R"(, "train": {"freeze": ["*"]})", "train.freeze: excludes lora"},
      {R"({"lora_dropout": 0.1})", R"(, "tensor_parallel": {"autotp_size": 2})",
       "lora.lora_dropout: needs whole inputs"},
      {R"({})", R"(, "eigenvalue": {"enabled": true})", "eigenvalue.enabled: excludes lora"},
      {R"({"base_format": "int4"})", "", "lora.base_format: "},
      {R"({"base_block": 48})", "", "lora.base_block: 48, expected a multiple of 32"},
      {R"({"load_in_4bit": true, "base_format": "int8"})", "",
       "lora.load_in_4bit: and another key of lora name different formats"},
      {R"({"load_in_8bit": true, "load_in_4bit": true})", "", "lora.load_in_8bit: "},
      {R"({"q_bits": 8, "base_format": "nf4"})", "", "lora.q_bits: and another key"},
      {R"({"q_bits": 6})", "", "lora.q_bits: 6, expected 8"},
      {R"({"q_bits": 8, "mantissa_bits": 2})", "", "lora.mantissa_bits: 2, expected 3"},
      {R"({"mantissa_bits": 3})", "", "lora.mantissa_bits: needs q_bits"},
      {R"({"load_in_4bit": true, "bnb_4bit_quant_type": "fp4"})", "",
       "lora.bnb_4bit_quant_type: \"fp4\", expected \"nf4\""},
      {R"({"use_dora": true, "base_format": "nf4"})",
       R"(, "model": {"folder": "f"}, "tensor_parallel": {"autotp_size": 2})",
       "lora.use_dora: excludes lora.base_format beside tensor parallelism"},
  }));
  CAPTURE(lora);
  CHECK_THAT(why(lora, rest), Catch::Contains(message));
}

TEST_CASE("names of others for the same keys are taken", "[config]") {
  const Config config = parse_config(
      R"({"lora": {"lora_r": 4, "alpha": 3, "dropout": 0.1, "target_mods": "q_proj"}})");
  CHECK(config.lora->rank == 4);
  CHECK(config.lora->alpha == 3);
  CHECK(config.lora->dropout == 0.1);
  CHECK(config.lora->target_modules == std::vector<std::string>{"q_proj"});
}

TEST_CASE("the format of a base is said in several words", "[config]") {
  const auto base = [](const std::string& lora) {
    const LoraConfig config = *parse_config(fmt::format(R"({{"lora": {}}})", lora)).lora;
    return std::pair(base_format_of(config), base_block_of(config));
  };
  CHECK(base("{}").first == BaseFormat::kModel);
  CHECK(base(R"({"base_format": "nf4"})") == std::pair(BaseFormat::kNf4, int64_t{64}));
  CHECK(
      base(R"({"load_in_4bit": true, "bnb_4bit_quant_type": "nf4", "bnb_4bit_blocksize": 128})") ==
      std::pair(BaseFormat::kNf4, int64_t{128}));
  CHECK(base(R"({"load_in_8bit": true})") == std::pair(BaseFormat::kInt8, int64_t{256}));
  CHECK(base(R"({"q_bits": 8, "mantissa_bits": 3, "group_size": 256})") ==
        std::pair(BaseFormat::kFp8, int64_t{256}));
  CHECK(base(R"({"base_format": "fp8"})").second == 512);
  CHECK_FALSE(
      parse_config(R"({"lora": {"bnb_4bit_use_double_quant": false}})").lora->double_quantization);
}

TEST_CASE("a section says the same once it is written as ranks have it", "[config]") {
  const Config config = parse_config(
      R"({"lora": {"r": 4, "rank_pattern": {"q_proj": 2}, "init_lora_weights": false,
                   "layers_to_transform": [1], "modules_to_save": ["lm_head"]}})");
  const AdapterSpec again = adapter_spec(*parse_config(to_config_text(config)).lora);
  CHECK(again.ranks == decltype(again.ranks){{"q_proj", 2}});
  CHECK(again.start == AdapterStart::kRandom);
  CHECK(again.layers == std::vector<int64_t>{1});
  CHECK(again.saved_modules == std::vector<std::string>{"lm_head"});
  CHECK_FALSE(parse_config("{}").lora);
}

}  // namespace
}  // namespace ds
