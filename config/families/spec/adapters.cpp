#include "config/families/spec/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/status/error.h"
#include "core/text/letters.h"
#include "core/values/index.h"

namespace ds {
namespace {

// What no name of a module has.
bool is_pattern(std::string_view text) {
  return text.find_first_of("^$*+?()[]{}|\\") != std::string_view::npos;
}

// Whether the last words of a path are these.
bool ends_in_words(std::string_view path, std::string_view words) {
  if (!path.ends_with(words)) return false;
  return path.size() == words.size() || path[path.size() - words.size() - 1] == '.';
}

// The text itself finds what lies in it: the whole is meant.
NamePattern whole_pattern(std::string_view key, const std::string& text) {
  if (const std::string why = why_no_pattern(text); !why.empty()) {
    throw ConfigError(fmt::format("{}: {}", key, why));
  }
  return NamePattern(key, fmt::format("\\A(?:{})\\z", text), NamePattern::Case::kExact);
}

}  // namespace

std::vector<AdapterRules::Name> AdapterRules::names_of(std::string_view key,
                                                       const std::vector<std::string>& texts) {
  std::vector<Name> names;
  for (const std::string& text : texts) {
    Name name{.text = text, .pattern = {}};
    if (is_pattern(text)) name.pattern = whole_pattern(key, text);
    names.push_back(std::move(name));
  }
  return names;
}

bool AdapterRules::fits(const std::vector<Name>& names, std::string_view module) {
  return std::ranges::any_of(names, [&](const Name& name) {
    return name.pattern ? name.pattern->found_in(module) : ends_in_words(module, name.text);
  });
}

std::vector<NamePattern> AdapterRules::ends_of(std::string_view key, const auto& values) {
  std::vector<NamePattern> patterns;
  for (const auto& [text, value] : values) {
    patterns.push_back(whole_pattern(key, fmt::format("(?:.*\\.)?(?:{})", text)));
  }
  return patterns;
}

AdapterRules::AdapterRules(const AdapterSpec& spec)
    : spec_(spec),
      targets_(names_of("lora.target_modules", spec.targets)),
      excluded_(names_of("lora.exclude_modules", spec.excluded)),
      ranks_(ends_of("lora.rank_pattern", spec.ranks)),
      alphas_(ends_of("lora.alpha_pattern", spec.alphas)) {
  all_linear_ = std::ranges::any_of(spec.targets, [](const std::string& target) {
    return lower_case(target) == AdapterSpec::kAllLinear;
  });
  for (const std::string& list : spec.layer_lists) {
    lists_.push_back(
        whole_pattern("lora.layers_pattern", fmt::format("(?:.*\\.)?{}\\.\\d+\\..*", list)));
  }
}

// peft takes the first number behind the name of a list that lies in a module, and does not ask
// where the path itself is a target.
bool AdapterRules::is_in_layer(std::string_view module) const {
  if (spec_.layers.empty() || std::ranges::count(spec_.targets, module) > 0) return true;
  if (!lists_.empty() && std::ranges::none_of(lists_, [&](const NamePattern& list) {
        return list.found_in(module);
      })) {
    return false;
  }
  for (size_t dot = module.find('.', module.find('.') + 1); dot != std::string_view::npos;) {
    const size_t next = module.find('.', dot + 1);
    if (next == std::string_view::npos) return false;
    const std::string_view word = module.substr(dot + 1, next - dot - 1);
    const bool is_number =
        !word.empty() && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
    if (is_number) {
      return std::ranges::any_of(spec_.layers,
                                 [&](int64_t layer) { return std::to_string(layer) == word; });
    }
    dot = next;
  }
  return false;
}

std::optional<AdapterShape> AdapterRules::adapter_of(std::string_view module) const {
  if (!(all_linear_ || fits(targets_, module)) || fits(excluded_, module)) return std::nullopt;
  if (is_saved(module) || !is_in_layer(module)) return std::nullopt;
  const auto own = [&](const std::vector<NamePattern>& patterns, const auto& values, auto usual) {
    for (size_t i = 0; i < patterns.size(); ++i) {
      if (nth(patterns, i).found_in(module)) return nth(values, i).second;
    }
    return usual;
  };
  const int64_t rank = own(ranks_, spec_.ranks, spec_.rank);
  const double alpha = own(alphas_, spec_.alphas, spec_.alpha);
  const auto r = static_cast<double>(rank);
  return AdapterShape{.rank = rank, .scale = alpha / (spec_.scales_by_root ? std::sqrt(r) : r)};
}

// Those inside of such a module are, too.
bool AdapterRules::is_saved(std::string_view module) const {
  return std::ranges::any_of(spec_.saved_modules, [&](const std::string& saved) {
    return fmt::format(".{}.", module).find(fmt::format(".{}.", saved)) != std::string::npos;
  });
}

bool AdapterRules::trains(std::string_view parameter, bool has_adapter) const {
  if (is_adapter_parameter(parameter)) return true;
  if (is_saved(module_of_parameter(parameter))) return true;
  if (!parameter.ends_with(".bias") || spec_.bias == AdapterBias::kNone) return false;
  return spec_.bias == AdapterBias::kAll || has_adapter;
}

bool is_adapter_parameter(std::string_view name) {
  return name.ends_with(".lora_A.weight") || name.ends_with(".lora_B.weight") || is_magnitude(name);
}

bool is_magnitude(std::string_view name) { return name.ends_with(".lora_magnitude_vector.weight"); }

std::string_view module_of_parameter(std::string_view name) {
  const auto without_word = [](std::string_view path) { return path.substr(0, path.rfind('.')); };
  const std::string_view module = without_word(name);
  return is_adapter_parameter(name) ? without_word(module) : module;
}

}  // namespace ds
