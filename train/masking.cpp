#include "train/masking.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/status/error.h"
#include "core/text/letters.h"
#include "core/values/index.h"

namespace ds {
namespace {

int32_t mask_token(const DataSection& data, const MaskedLmConfig& masked, int64_t vocabulary,
                   const Tokenizer* tokenizer, FileSystem& files) {
  if (masked.mask_token_id) {
    if (*masked.mask_token_id < vocabulary) return narrow<int32_t>(*masked.mask_token_id);
    throw ConfigError(
        fmt::format("data.masked_lm.mask_token_id: {} is no token of the model, which has {}",
                    *masked.mask_token_id, vocabulary));
  }
  const auto token = token_of_role(files, data.tokenizer, "mask_token");
  if (tokenizer == nullptr || !token) {
    throw ConfigError(
        "data.masked_lm.mask_token_id: nothing names the token that masks, as \"mask_token\" of a "
        "tokenizer_config.json beside the tokenizer does; give its id");
  }
  const std::vector<int32_t> ids = tokenizer->encode(*token);
  if (ids.size() == 1) return ids.front();
  throw ConfigError(
      fmt::format("data.masked_lm.mask_token_id: the tokenizer's mask_token \"{}\" is {} tokens; "
                  "give the id of "
                  "one",
                  *token, ids.size()));
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
    const std::string text = tokenizer->decode({&id, 1});
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
  if (is_causal(model)) {
    if (!data.masked_lm) return std::nullopt;
    throw ConfigError(fmt::format(
        "data.masked_lm: \"{}\" predicts next tokens, and masks none; remove the section, or train "
        "a family that sees both sides, such as \"bert\"",
        family_name(model)));
  }
  if (data.eod_mask_loss) {
    throw ConfigError(
        fmt::format("data.eod_mask_loss: \"{}\" is trained to tell masked tokens, and the ends of "
                    "documents are "
                    "never masked; remove it",
                    family_name(model)));
  }
  const MaskedLmConfig masked = data.masked_lm.value_or(MaskedLmConfig());
  const int64_t vocabulary = dimensions(model).vocabulary;
  MaskingRules rules{.share = masked.mlm_probability,
                     .masked = masked.mask_replace_prob,
                     .random = masked.random_replace_prob,
                     .mask = mask_token(data, masked, vocabulary, tokenizer, files),
                     .vocabulary = vocabulary};
  if (tokenizer != nullptr) rules.never = tokenizer->special_ids();
  rules.never.push_back(rules.mask);
  if (end) rules.never.push_back(*end);
  std::ranges::sort(rules.never);
  if (masked.whole_word_mask) rules.word_edges = word_edges(tokenizer, vocabulary);
  return rules;
}

}  // namespace ds
