// Rules of supervised fine-tuning: what its keys need, and what learns every token.
#include <fmt/format.h>

#include "config/rules.h"

namespace ds::detail {

namespace {

// Sections and keys that are for one format, where the data are of another.
void section_rules(const RuleContext& r, const SupervisedData& data) {
  const std::string_view format = enum_name(data.format);
  const auto refuse = [&](std::string_view key, std::string_view wanted) {
    r.refuse_early(fmt::format("data.{}", key),
                   fmt::format("is for data.format {}, and that is {}; give that, or remove this",
                               wanted, format));
  };
  const bool has_messages =
      data.format == DataFormat::kChat || data.format == DataFormat::kPromptCompletion;
  if (data.chat && !has_messages) refuse("chat", "chat");
  if (data.format == DataFormat::kPromptCompletion) {
    for (const char* const key : {"messages", "roles", "train_on", "train_on_eos"}) {
      const std::string path = fmt::format("data.chat.{}", key);
      if (r.given(path)) refuse(fmt::format("chat.{}", key), "chat");
    }
  }
  if (data.prompt_completion && data.format != DataFormat::kPromptCompletion) {
    refuse("prompt_completion", "prompt_completion");
  }
  if (data.is_used()) return;
  for (const char* const key : {"too_long", "packing", "packing_window"}) {
    if (r.given(fmt::format("data.{}", key))) {
      refuse(key, "chat, prompt_completion or tokenized");
    }
  }
}

}  // namespace

void supervised_rules(const RuleContext& r) {
  const Config& c = r.config;
  const SupervisedData& data = c.data.supervised;
  section_rules(r, data);
  if (!data.is_used()) return;
  const std::string format = fmt::format("data.format {}", enum_name(data.format));
  for (const char* const key :
       {"field", "separator", "eod_token_id", "reset_attention_mask", "reset_position_ids",
        "eod_mask_loss", "masked_lm", "next_sentence", "classification", "token_classification"}) {
    const std::string path = fmt::format("data.{}", key);
    if (!r.given(path)) continue;
    r.refuse_early(path, fmt::format("has nothing to say of {}, whose records are examples by "
                                     "themselves; remove it",
                                     format));
  }
  if (data.packing_window != SupervisedData().packing_window && !data.packing) {
    r.note("data.packing_window", "has no effect without data.packing");
  }
  if (c.data.cache_folder) {
    r.note("data.cache_folder", fmt::format("has no effect with {}: examples are read anew by each "
                                            "run, and held in memory",
                                            format));
  }
  const auto refuse = [&](const char* key, const char* why) {
    r.refuse_early(key, fmt::format("excludes {}: {}; remove one of them", format, why));
  };
  const auto& offload = c.zero_optimization.offload_optimizer;
  if (offload && offload->super_offload) {
    refuse("zero_optimization.offload_optimizer.super_offload",
           "updates begin before it is known how many targets a batch has");
  }
  if (c.eigenvalue.enabled) refuse("eigenvalue", "it looks at losses that all count the same");
  if (c.curriculum_learning.enabled) {
    refuse("curriculum_learning", "it cuts samples that are texts");
  }
}

}  // namespace ds::detail
