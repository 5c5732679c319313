#include "config/sections/objectives/distillation.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/status/error.h"

namespace ds {

static constexpr double kMostWeight = 1e6;

void fields(Visitor& v, DistillationConfig& c) {
  v.field("teacher", c.teacher,
          {.meaning = "A folder of Hugging Face with the model that is learnt from, of any family "
                      "and size, with the same tokens. It is sharded and offloaded as the model "
                      "is, has neither gradients nor optimizer state, and checkpoints name it.",
           .effect = Effect::kUsed,
           .synonyms = {"load_teacher", "teacher_model"},
           .required = true});
  v.field("alpha", c.alpha,
          {.meaning = "What the loss of the tokens of the text weighs.",
           .effect = Effect::kUsed,
           .min = 0,
           .max = kMostWeight,
           .synonyms = {"kd_alpha_ce"}});
  v.field("beta", c.beta,
          {.meaning = "What temperature^2 * KL(teacher || model) of each token weighs, both "
                      "distributions at the temperature (arXiv 1503.02531).",
           .effect = Effect::kUsed,
           .min = 0,
           .max = kMostWeight,
           .synonyms = {"kd_beta_ce"}});
  v.field("temperature", c.temperature,
          {.meaning = "By what logits are divided before they are compared. At more than 50 the "
                      "divergence would be the difference of numbers that fp32 cannot tell apart.",
           .effect = Effect::kUsed,
           .above = 0,
           .max = 50,
           .synonyms = {"kd_temp"}});
  v.field("layers", c.layers,
          {.meaning = "Which blocks are to give what blocks of the teacher give: the number of a "
                      "block, from 1, and that of the teacher's, as {\"3\": 6, \"6\": 12}. Both "
                      "are equally wide. Each adds the mean squared error of its rows that have "
                      "targets.",
           .effect = Effect::kUsed,
           .object_only = true,
           .unset_meaning = "none"});
  v.field("layers_weight", c.layers_weight,
          {.meaning = "What the error of each of these blocks weighs.",
           .effect = Effect::kUsed,
           .min = 0,
           .max = kMostWeight});
  v.field("until_step", c.until_step,
          {.meaning = "The last step with a teacher; from then on the model learns from the text "
                      "alone, as staged distillation has it (arXiv 2201.05596).",
           .effect = Effect::kUsed,
           .min = 1,
           .unset_meaning = "all steps"});
}

namespace {

int64_t number_of_block(const std::string& text) {
  const bool is_number = !text.empty() && text.size() <= 9 && text.front() != '0' &&
                         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  if (!is_number) {
    throw ConfigError(fmt::format("\"{}\" is no number of a block, which are from 1 on", text));
  }
  return std::stoll(text);
}

}  // namespace

std::vector<MatchedBlocks> matched_blocks(const DistillationConfig& c) {
  std::vector<MatchedBlocks> out;
  for (const Member& member : c.layers.members()) {
    if (member.value.kind() != Value::Kind::kInteger || member.value.as_integer() < 1) {
      throw ConfigError(
          fmt::format("{} at \"{}\", expected the number of a block of the teacher, "
                      "from 1 on",
                      member.value.excerpt(), member.key));
    }
    out.push_back({.own = number_of_block(member.key), .teacher = member.value.as_integer()});
  }
  std::ranges::sort(out, {}, &MatchedBlocks::own);
  return out;
}

}  // namespace ds
