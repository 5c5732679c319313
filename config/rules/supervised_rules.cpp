// Rules of supervised fine-tuning: what its keys need, and what learns every token.
#include <fmt/format.h>

#include "config/rules.h"
#include "core/text/date.h"

namespace ds::detail {

namespace {

// A key that says something: the configuration as ranks have it holds all keys.
struct SaidKey {
  std::string_view key;
  bool is_said = false;
};

// Sections and keys that are for one format, where the data are of another.
void section_rules(const RuleContext& r, const SupervisedData& data) {
  const ChatConfig chat = data.chat.value_or(ChatConfig()), silent;
  const bool has_prompts = data.format == DataFormat::kPromptCompletion;
  const auto refuse = [&](SaidKey said, std::string_view wanted) {
    if (!said.is_said) return;
    r.refuse_early(fmt::format("data.{}", said.key),
                   fmt::format("is for data.format {}, and that is {}; give that, or remove this",
                               wanted, enum_name(data.format)));
  };
  const bool has_turns = has_prompts || data.has_pairs();
  refuse({"chat", data.chat && data.format != DataFormat::kChat && !has_turns}, "chat");
  if (has_turns) {
    refuse({"chat.messages", chat.messages.has_value()}, "chat");
    refuse({"chat.train_on", chat.train_on != silent.train_on}, "chat");
    refuse({"chat.train_on_eos", chat.train_on_eos != silent.train_on_eos}, "chat");
  }
  if (!has_prompts) {
    refuse({"prompt_completion", data.prompt_completion.has_value()}, "prompt_completion");
  }
  if (!data.has_pairs()) refuse({"preference", data.preference.has_value()}, "preference");
  if (!data.writes_chats()) {
    refuse({"date", data.date.has_value()}, "chat, prompt_completion or preference");
  }
  if (data.is_used()) return;
  const SupervisedData usual;
  refuse({"too_long", data.too_long != usual.too_long},
         "chat, prompt_completion, tokenized or preference");
  for (const SaidKey& said : {SaidKey{"packing", data.packing},
                              {"packing_window", data.packing_window != usual.packing_window}}) {
    refuse(said, "chat, prompt_completion or tokenized");
  }
}

// What is said of texts that are cut into samples, where each record is an example.
void text_rules(const RuleContext& r, const DataSection& data, const std::string& format) {
  for (const SaidKey& said : {SaidKey{"field", data.field != DataSection().field},
                              {"separator", data.separator.has_value()},
                              {"eod_token_id", data.eod_token_id.has_value()},
                              {"reset_attention_mask", data.reset_attention_mask},
                              {"reset_position_ids", data.reset_position_ids},
                              {"eod_mask_loss", data.eod_mask_loss},
                              {"masked_lm", data.masked_lm.has_value()},
                              {"next_sentence", data.next_sentence.has_value()},
                              {"classification", data.classification.has_value()},
                              {"token_classification", data.token_classification.has_value()}}) {
    if (!said.is_said) continue;
    r.refuse_early(fmt::format("data.{}", said.key),
                   fmt::format("has nothing to say of {}, whose records are examples by "
                               "themselves; remove it",
                               format));
  }
  if (data.cache_folder && r.given("data.cache_folder")) {
    r.note("data.cache_folder", fmt::format("has no effect with {}: examples are read anew by each "
                                            "run, and held in memory",
                                            format));
  }
}

}  // namespace

void supervised_rules(const RuleContext& r) {
  const Config& c = r.config;
  const SupervisedData& data = c.data.supervised;
  section_rules(r, data);
  if (data.date && !parse_date(*data.date)) {
    r.refuse_early("data.date", fmt::format("\"{}\" is no date, expected one such as "
                                            "\"2026-11-30\"",
                                            *data.date));
  }
  if (!data.is_used()) return;
  const std::string format = fmt::format("data.format {}", enum_name(data.format));
  text_rules(r, c.data, format);
  if (data.packing_window != SupervisedData().packing_window && !data.packing) {
    r.note("data.packing_window", "has no effect without data.packing");
  }
  const auto refuse = [&](const char* key, const char* why) {
    r.refuse_early(key, fmt::format("excludes {}: {}; remove one of them", format, why));
  };
  const auto& offload = c.zero_optimization.offload_optimizer;
  if (offload && offload->super_offload && !data.has_pairs()) {
    refuse("zero_optimization.offload_optimizer.super_offload",
           "updates begin before it is known how many targets a batch has");
  }
  if (c.eigenvalue.enabled) refuse("eigenvalue", "it looks at losses that all count the same");
  if (c.curriculum_learning.enabled) {
    refuse("curriculum_learning", "it cuts samples that are texts");
  }
}

}  // namespace ds::detail
