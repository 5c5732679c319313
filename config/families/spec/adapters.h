// Low-rank adapters (LoRA; Hu et al., arXiv 2106.09685): beside the frozen weight W of a linear
// layer, trained A [r, in] and B [out, r], so that it computes x W^T + s x A^T B^T. The names, the
// rules and the defaults are those of Hugging Face's peft.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/name_pattern.h"

namespace ds {

// How A begins where nothing is loaded.
enum class AdapterStart : int {
  kUniform,   // between -1 / sqrt(in) and 1 / sqrt(in), with a B of zeros
  kGaussian,  // with the standard deviation 1 / r, with a B of zeros
  kRandom,    // A and B as a linear layer of PyTorch's begins: the model's outputs change
};
enum class AdapterBias : int { kNone, kAll, kLoraOnly };

// Which layers have adapters, and which. Plain: config/sections/adapters/lora.h reads it.
struct AdapterSpec {
  int64_t rank = 8;
  double alpha = 8;
  double dropout = 0;
  // Ends of paths of modules, in whole words ("q_proj"); patterns of whole paths, which are told by
  // their signs (".*\.(q|v)_proj"); or kAllLinear.
  std::vector<std::string> targets{std::string(kAllLinear)};
  std::vector<std::string> excluded{};  // the same, of those that have none all the same
  bool scales_by_root = false;          // rsLoRA (arXiv 2312.03732): s = alpha / sqrt(r)
  bool has_magnitudes = false;          // DoRA (arXiv 2402.09353)
  // Ends of paths, or patterns of ends, with a rank or an alpha of their own; the first that fits
  // counts.
  std::vector<std::pair<std::string, int64_t>> ranks{};
  std::vector<std::pair<std::string, double>> alphas{};
  std::vector<int64_t> layers{};             // numbers of blocks; none: all
  std::vector<std::string> layer_lists{};    // names of the lists that they are in; none: any
  std::vector<std::string> saved_modules{};  // ends of paths of modules that train as a whole
  AdapterBias bias = AdapterBias::kNone;
  AdapterStart start = AdapterStart::kUniform;
  std::optional<std::string> folder{};  // whose adapters training begins with

  static constexpr std::string_view kAllLinear = "all-linear";
};

// The adapter of one module.
struct AdapterShape {
  int64_t rank = 0;
  double scale = 0;  // s
};

// An AdapterSpec whose patterns are compiled. Confined to one thread.
class AdapterRules {
 public:
  // ConfigError, with the key of the configuration, for what is no regular expression.
  explicit AdapterRules(const AdapterSpec& spec);

  const AdapterSpec& spec() const { return spec_; }
  // That of a linear layer, by the path of its module; nothing, if it has none.
  std::optional<AdapterShape> adapter_of(std::string_view module) const;
  // Whether a parameter of the model itself trains, by its name. `has_adapter`: its module has one.
  bool trains(std::string_view parameter, bool has_adapter) const;

 private:
  // A word, or a pattern.
  struct Name {
    std::string text;
    std::optional<NamePattern> pattern;
  };
  static std::vector<Name> names_of(std::string_view key, const std::vector<std::string>& texts);
  static bool fits(const std::vector<Name>& names, std::string_view module);
  static std::vector<NamePattern> ends_of(std::string_view key, const auto& values);
  bool is_in_layer(std::string_view module) const;
  bool is_saved(std::string_view module) const;

  AdapterSpec spec_;
  bool all_linear_ = false;
  std::vector<Name> targets_, excluded_;
  std::vector<NamePattern> ranks_, alphas_, lists_;
};

// The names that peft has: of files, and of parameters below the module ("lora_A.weight").
namespace adapter_names {
inline constexpr const char* kConfig = "adapter_config.json";
inline constexpr const char* kWeights = "adapter_model.safetensors";
inline constexpr const char* kTorchWeights = "adapter_model.bin";
// The config.json of the model that has the adapters, as of classes that its folder does not know.
// Under that name transformers would take the folder for a whole model.
inline constexpr const char* kModel = "model_config.json";
inline constexpr std::string_view kPrefix = "base_model.model.";  // of all names in such a file
inline constexpr std::string_view kBase = "base_layer";  // of what an adapter is beside, if trained
inline constexpr std::string_view kA = "lora_A", kB = "lora_B";
inline constexpr std::string_view kMagnitude = "lora_magnitude_vector";
}  // namespace adapter_names
// Whether a parameter is one of an adapter, by its name.
bool is_adapter_parameter(std::string_view name);
bool is_magnitude(std::string_view name);
// The module of a parameter: its name without the last word, and without that of an adapter.
std::string_view module_of_parameter(std::string_view name);

}  // namespace ds
