#include "model/hf/embedding_recipe.h"

#include <array>
#include <string_view>
#include <utility>

#include "core/status/error.h"
#include "model/hf/json_file.h"

namespace ds {
namespace {

using Json = rapidjson::Value;

constexpr const char* kModules = "modules.json";
constexpr const char* kPoolingFolder = "1_Pooling";

std::string_view text_of(const Json& value) { return {value.GetString(), value.GetStringLength()}; }

bool flag_of(const Json& object, const char* key, const std::string& path) {
  const Json* const value = value_of(object, key);
  if (value == nullptr) return false;
  if (!value->IsBool()) {
    throw DataError(fmt::format("{}: \"{}\" is neither true nor false", path, key));
  }
  return value->GetBool();
}

// The string of a key of a module; empty without one.
std::string_view word_of(const Json& module, const char* key, const std::string& path) {
  const Json* const value = module.IsObject() ? value_of(module, key) : nullptr;
  if (value == nullptr) return "";
  if (!value->IsString()) {
    throw DataError(fmt::format("{}: \"{}\" of a module is no string", path, key));
  }
  return text_of(*value);
}

struct PoolingKey {
  const char* key;
  std::string_view word;  // of newer files, under "pooling_mode"
  std::optional<Pooling> pooling;
};
constexpr std::array<PoolingKey, 6> kPoolings{
    {{"pooling_mode_mean_tokens", "mean", Pooling::kMean},
     {"pooling_mode_cls_token", "cls", Pooling::kFirst},
     {"pooling_mode_lasttoken", "lasttoken", Pooling::kLast},
     {"pooling_mode_max_tokens", "max", std::nullopt},
     {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", std::nullopt},
     {"pooling_mode_weightedmean_tokens", "weightedmean", std::nullopt}}};

Pooling require_built(const PoolingKey& asked, const std::string& path) {
  if (asked.pooling) return *asked.pooling;
  throw Unsupported(fmt::format("{}: pooling by {} is not built; this build has mean, cls and last",
                                path, asked.word));
}

Pooling pooling_in(FileSystem& files, const std::string& path) {
  const rapidjson::Document document = object_in(files, path);
  const PoolingKey* asked = nullptr;
  for (const PoolingKey& known : kPoolings) {
    if (!flag_of(document, known.key, path)) continue;
    if (asked != nullptr) {
      throw Unsupported(
          fmt::format("{}: {} and {} side by side are not built; choose one by "
                      "--pooling",
                      path, asked->key, known.key));
    }
    asked = &known;
  }
  const Json* const word = value_of(document, "pooling_mode");
  for (const PoolingKey& known : kPoolings) {
    if (word != nullptr && word->IsString() && text_of(*word) == known.word) asked = &known;
  }
  if (asked == nullptr) {
    throw DataError(
        fmt::format("{}: no pooling is chosen, as by \"{}\": true", path, kPoolings.front().key));
  }
  return require_built(*asked, path);
}

// The folder of a module, which is beside the file that names it.
std::string folder_of_module(const Json& module, const std::string& folder,
                             const std::string& path) {
  const std::string_view name = word_of(module, "path", path);
  const bool is_plain = !name.empty() && name != "." && name != ".." &&
                        name.find('/') == std::string_view::npos &&
                        name.find('\0') == std::string_view::npos;
  if (!is_plain) throw DataError(fmt::format("{}: the \"path\" of a Pooling is no folder", path));
  return join_path(folder, std::string(name));
}

// Reads the steps behind the model, in their order.
void read_modules(FileSystem& files, const std::string& folder, std::optional<Pooling> chosen,
                  EmbeddingRecipe& recipe) {
  const std::string path = join_path(folder, kModules);
  const rapidjson::Document modules = json_in(files, path);
  bool pools = false;
  if (!modules.IsArray() || modules.Empty()) {
    throw DataError(path + ": no list of modules");
  }
  for (const Json& module : modules.GetArray()) {
    const std::string_view type = word_of(module, "type", path);
    const std::string_view name = type.substr(type.rfind('.') + 1);
    const bool is_first = &module == modules.Begin();
    const bool fits = is_first              ? name == "Transformer"
                      : name == "Pooling"   ? !pools
                      : name == "Normalize" ? pools && !recipe.normalizes
                                            : false;
    if (!fits) {
      throw Unsupported(
          fmt::format("{}: a module \"{}\" in this place is not built; this build has "
                      "Transformer, Pooling and Normalize, in this order",
                      path, name));
    }
    if (name == "Pooling") {
      pools = true;
      const std::string inside = folder_of_module(module, folder, path);
      recipe.pooling = chosen ? *chosen : pooling_in(files, join_path(inside, "config.json"));
    }
    recipe.normalizes = recipe.normalizes || name == "Normalize";
  }
  if (!pools)
    throw DataError(path + ": there is no module Pooling, which makes one vector of many");
}

void read_lengths(FileSystem& files, const std::string& folder, EmbeddingRecipe& recipe) {
  const std::string path = join_path(folder, "sentence_bert_config.json");
  const rapidjson::Document document = object_in(files, path);
  if (flag_of(document, "do_lower_case", path)) {
    throw Unsupported(path +
                      ": \"do_lower_case\": true is not built; it is the tokenizer's matter");
  }
  const Json* const longest = value_of(document, "max_seq_length");
  if (longest == nullptr) return;
  if (!longest->IsInt64() || longest->GetInt64() < 1) {
    throw DataError(path + ": \"max_seq_length\" is no whole number from 1 on");
  }
  recipe.longest = longest->GetInt64();
}

// A prompt is put before each text by whoever asks for it by name.
void read_prompts(FileSystem& files, const std::string& folder, EmbeddingRecipe& recipe) {
  const rapidjson::Document document =
      object_in(files, join_path(folder, "config_sentence_transformers.json"));
  const Json* const name = value_of(document, "default_prompt_name");
  if (name == nullptr) return;
  recipe.not_applied.push_back(
      fmt::format("the prompt \"{}\" (default_prompt_name)",
                  name->IsString() ? text_of(*name) : std::string_view("?")));
}

}  // namespace

EmbeddingRecipe read_embedding_recipe(FileSystem& files, const std::string& folder,
                                      std::optional<Pooling> chosen) {
  EmbeddingRecipe recipe;
  if (chosen) recipe.pooling = *chosen;
  const std::string pooling = join_path(join_path(folder, kPoolingFolder), "config.json");
  const std::string modules = join_path(folder, kModules);
  if (files.exists(modules)) {
    read_modules(files, folder, chosen, recipe);
  } else if (!chosen && files.exists(pooling)) {
    recipe.pooling = pooling_in(files, pooling);
  }
  read_lengths(files, folder, recipe);
  read_prompts(files, folder, recipe);
  return recipe;
}

}  // namespace ds
