#include "train/convert/megatron_pipeline.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <set>
#include <string_view>

#include "core/text/number_in.h"

namespace ds {
namespace {

// A parameter of a layer of a pipeline, or of a module that several stages share.
struct OfLayer {
  std::optional<int64_t> layer;
  std::string_view rest;
};

std::optional<OfLayer> of_layer(std::string_view name) {
  constexpr std::string_view kTied = "tied_modules.";
  const bool is_tied = name.starts_with(kTied);
  if (is_tied) name.remove_prefix(kTied.size());
  const size_t dot = name.find('.');
  if (dot == name.npos) return std::nullopt;
  const std::string_view rest = name.substr(dot + 1);
  if (is_tied) return OfLayer{std::nullopt, rest};
  const auto layer = number_in<int64_t>(name.substr(0, dot));
  if (!layer) return std::nullopt;
  return OfLayer{layer, rest};
}

// Their numbers, in order.
std::set<int64_t> blocks_in(std::span<const std::string> names) {
  std::set<int64_t> blocks;
  for (const std::string& name : names) {
    const auto known = of_layer(name);
    if (!known || !known->layer) continue;
    for (const char* front : {"self_attention.query", "attention.query"}) {
      if (known->rest.starts_with(front)) blocks.insert(*known->layer);
    }
  }
  return blocks;
}

std::string in_one_piece(const std::string& name, const std::set<int64_t>& blocks) {
  const auto known = of_layer(name);
  if (!known) return name;
  const std::string rest(known->rest);
  if (!known->layer || *known->layer < *blocks.begin()) return "language_model.embedding." + rest;
  if (const auto block = blocks.find(*known->layer); block != blocks.end()) {
    return fmt::format("language_model.encoder.layers.{}.{}", std::distance(blocks.begin(), block),
                       rest);
  }
  if (rest == "weight" || rest == "bias") return "language_model.encoder.final_layernorm." + rest;
  const std::string_view module = known->rest.substr(0, known->rest.rfind('.'));
  if (module == "lm_head" || module == "word_embeddings") {
    return "language_model.output_layer." + rest.substr(module.size() + 1);
  }
  return name;
}

}  // namespace

std::optional<std::vector<std::string>> names_in_one_piece(std::span<const std::string> names) {
  const std::set<int64_t> blocks = blocks_in(names);
  if (blocks.empty()) return std::nullopt;
  std::vector<std::string> out;
  std::set<std::string> taken;
  for (const std::string& name : names) {
    std::string whole = in_one_piece(name, blocks);
    out.push_back(taken.insert(whole).second ? whole : name);
  }
  return out;
}

}  // namespace ds
