#include "launcher/init/choices.h"

#include <algorithm>
#include <array>

#include "config/reader/json_reader.h"
#include "core/status/error.h"

namespace ds {
namespace {

constexpr std::array kSizes{
    ModelSize{"tiny", 2, 4, 128, 352, 2e-3},
    ModelSize{"small", 6, 4, 256, 704, 2e-3},
    ModelSize{"medium", 8, 8, 512, 1408, 1e-3},
    ModelSize{"large", 12, 12, 768, 2048, 6e-4},
};

std::optional<int64_t> number(const Value& document, std::string_view key) {
  const Value* const found = document.find(key);
  if (found == nullptr || (!found->is_null() && found->kind() != Value::Kind::kInteger)) {
    throw DataError(fmt::format("rankd --facts-of: \"{}\" is missing or no integer", key));
  }
  return found->is_null() ? std::nullopt : std::optional(found->as_integer());
}

}  // namespace

InputFacts parse_input_facts(const std::string& json) {
  const Value document = read_config_document(json, "rankd --facts-of");
  return {number(document, "positions"), number(document, "vocabulary"),
          number(document, "tokenizer")};
}

const ModelSize* find_model_size(std::string_view name) {
  const auto found = std::ranges::find(kSizes, name, &ModelSize::name);
  return found == kSizes.end() ? nullptr : &*found;
}

std::vector<std::string> model_size_names() {
  std::vector<std::string> names;
  for (const ModelSize& size : kSizes) names.emplace_back(size.name);
  return names;
}

}  // namespace ds
