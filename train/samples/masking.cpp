#include "train/samples/masking.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/status/error.h"
#include "core/text/letters.h"
#include "core/values/index.h"
#include "data/tokenizer/special_tokens.h"

namespace ds {
namespace {

using SpecialTokens = std::map<std::string, int32_t>;

int32_t mask_token(const DataSection& data, const MaskedLmConfig& masked, int64_t vocabulary,
                   const SpecialTokens& specials, FileSystem& files) {
  if (masked.mask_token_id) {
    if (*masked.mask_token_id < vocabulary) return narrow<int32_t>(*masked.mask_token_id);
    throw ConfigError(
        fmt::format("data.masked_lm.mask_token_id: {} is no token of the model, which has {}",
                    *masked.mask_token_id, vocabulary));
  }
  const auto named = token_of_role(files, data.tokenizer, "mask_token");
  // Some folders leave to transformers what their family's tokenizer has.
  for (const std::string& token :
       {named.value_or(""), std::string("<mask>"), std::string("[MASK]")}) {
    const auto found = specials.find(token);
    if (found != specials.end() && found->second < vocabulary) return found->second;
    if (named) break;
  }
  if (!named) {
    throw ConfigError(
        "data.masked_lm.mask_token_id: nothing names the token that masks, as \"mask_token\" of a "
        "tokenizer_config.json beside the tokenizer does; give its id");
  }
  throw ConfigError(fmt::format(
      "data.masked_lm.mask_token_id: the tokenizer's mask_token \"{}\" is no special token of its "
      "vocabulary that the model has; give the id of one",
      *named));
}

std::vector<WordEdge> word_edges(const Tokenizer* tokenizer, int64_t vocabulary) {
  if (tokenizer == nullptr) {
    throw ConfigError(
        "data.masked_lm.whole_word_mask: the data are token ids, and nothing tells which of them "
        "are one word");
  }
  std::vector<WordEdge> edges(to_size(vocabulary), WordEdge::kNone);
  for (int32_t id = 0; id < std::min(vocabulary, tokenizer->vocab_size()); ++id) {
    if (!tokenizer->knows(id)) continue;
    const std::string text = tokenizer->in_text(id);
    if (text.empty()) continue;
    const int begins = is_space(text.front()) ? 1 : 0, ends = is_space(text.back()) ? 2 : 0;
    edges[to_size(id)] = static_cast<WordEdge>(begins | ends);
  }
  return edges;
}

}  // namespace

std::optional<MaskingRules> masking_rules(const DataSection& data, const ModelConfig& model,
                                          const Tokenizer* tokenizer, std::optional<int32_t> end,
                                          FileSystem& files) {
  if (predicts_next(model)) {
    if (!data.masked_lm) return std::nullopt;
    throw ConfigError(fmt::format(
        "data.masked_lm: \"{}\" predicts next tokens, and masks none; remove the section, or train "
        "a family that sees both sides, such as \"bert\"",
        family_name(model)));
  }
  if (data.eod_mask_loss) {
    throw ConfigError(
        fmt::format("data.eod_mask_loss: \"{}\" is trained to tell masked tokens, and the ends of "
                    "documents are never masked; remove it",
                    family_name(model)));
  }
  const MaskedLmConfig masked = data.masked_lm.value_or(MaskedLmConfig());
  const int64_t vocabulary = dimensions(model).vocabulary;
  const SpecialTokens specials = special_tokens(files, data.tokenizer);
  MaskingRules rules{.share = masked.mlm_probability,
                     .masked = masked.mask_replace_prob,
                     .random = masked.random_replace_prob,
                     .mask = mask_token(data, masked, vocabulary, specials, files),
                     .vocabulary = vocabulary};
  for (const auto& [token, special] : specials) rules.never.push_back(special);
  rules.never.push_back(rules.mask);
  if (end) rules.never.push_back(*end);
  std::ranges::sort(rules.never);
  if (masked.whole_word_mask) rules.word_edges = word_edges(tokenizer, vocabulary);
  return rules;
}

std::string uneven_conflict(const Config& config, const ModelConfig& model) {
  if (predicts_next(model) || model.classifier) return "";
  const auto& offload = config.zero_optimization.offload_optimizer;
  if (offload && offload->super_offload) {
    return fmt::format(
        "zero_optimization.offload_optimizer.super_offload: its updates begin before it is known "
        "how many tokens of a batch are masked, as \"{}\" is trained; remove it",
        family_name(model));
  }
  if (config.eigenvalue.enabled) {
    return fmt::format(
        "eigenvalue: it looks at losses that all count the same, and \"{}\" is trained on those of "
        "masked tokens; remove it",
        family_name(model));
  }
  return "";
}

}  // namespace ds
