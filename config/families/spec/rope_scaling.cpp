#include "config/families/spec/rope_scaling.h"

#include "config/families/spec/limits.h"
#include "config/reader/fields.h"

namespace ds {

void fields(Visitor& v, RopeScaling& c) {
  v.field("rope_type", c.rope_type,
          {.meaning = "How frequencies are scaled: \"linear\", all of them; \"llama3\" and "
                      "\"yarn\", long waves alone; \"dynamic\", only behind "
                      "max_position_embeddings, which sequences never pass; \"default\", not.",
           .effect = Effect::kUsed,
           .only = {"default", "linear", "dynamic", "llama3", "yarn"}});
  const bool is_llama3 = c.rope_type == "llama3", is_yarn = c.rope_type == "yarn";
  v.when(c.rope_type != "default", "rope_type is linear or dynamic or llama3 or yarn", [&] {
    v.field(
        "factor", c.factor,
        {.meaning = "How many times slower long waves turn.", .effect = Effect::kUsed, .min = 1});
  });
  v.when(is_llama3, "rope_type is llama3", [&] {
    v.field("low_freq_factor", c.low_freq_factor,
            {.meaning = "Waves longer than the original context divided by it are long.",
             .effect = Effect::kUsed,
             .above = 0});
    v.field("high_freq_factor", c.high_freq_factor,
            {.meaning = "Waves shorter than the original context divided by it stay; more than "
                        "low_freq_factor.",
             .effect = Effect::kUsed,
             .above = 0});
  });
  v.when(is_yarn, "rope_type is yarn", [&] {
    v.field("beta_fast", c.beta_fast,
            {.meaning = "Waves that turn more often in the original context stay.",
             .effect = Effect::kUsed,
             .above = 0});
    v.field("beta_slow", c.beta_slow,
            {.meaning = "Waves that turn less often in the original context are long.",
             .effect = Effect::kUsed,
             .above = 0});
    v.field("attention_factor", c.attention_factor,
            {.meaning = "Sines and cosines are multiplied by it.",
             .effect = Effect::kUsed,
             .above = 0,
             .omit_unset = true,
             .unset_meaning = "0.1 ln(factor) + 1"});
  });
  v.when(is_llama3 || is_yarn, "rope_type is llama3 or yarn", [&] {
    v.field("original_max_position_embeddings", c.original_max_position_embeddings,
            {.meaning = "Positions that the model was trained to before.",
             .effect = Effect::kUsed,
             .min = 1,
             .max = kMostPositions,
             .omit_unset = true,
             .unset_meaning = "max_position_embeddings"});
  });
}

RotaryScaling rotary_scaling(const std::optional<RopeScaling>& c, int64_t positions) {
  if (!c) return {};
  const auto original =
      static_cast<double>(c->original_max_position_embeddings.value_or(positions));
  if (c->rope_type == "linear") return LinearScaling{.factor = c->factor};
  if (c->rope_type == "llama3") {
    return Llama3Scaling{.factor = c->factor,
                         .low_freq_factor = c->low_freq_factor,
                         .high_freq_factor = c->high_freq_factor,
                         .original_positions = original};
  }
  if (c->rope_type == "yarn") {
    return YarnScaling{.factor = c->factor,
                       .beta_fast = c->beta_fast,
                       .beta_slow = c->beta_slow,
                       .original_positions = original,
                       .attention_factor = c->attention_factor.value_or(0)};
  }
  return {};
}

}  // namespace ds
