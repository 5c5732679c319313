#include "config/families/spec/rope_scaling.h"

#include <algorithm>

#include "config/families/spec/limits.h"
#include "config/reader/fields.h"

namespace ds {

namespace {

void longrope_fields(Visitor& v, RopeScaling& c) {
  v.field("short_factor", c.short_factor,
          {.meaning = "How many times slower each pair of elements turns, in sequences of up to "
                      "original_max_position_embeddings.",
           .effect = Effect::kUsed});
  v.field("long_factor", c.long_factor,
          {.meaning = "The same of longer sequences, which are refused.", .effect = Effect::kUsed});
  v.field("factor", c.length_factor,
          {.meaning = "How many times longer sequences may become, of which attention_factor "
                      "follows.",
           .effect = Effect::kUsed,
           .min = 1,
           .omit_unset = true,
           .unset_meaning = "max_position_embeddings / original_max_position_embeddings"});
  v.field("attention_factor", c.attention_factor,
          {.meaning = "Sines and cosines are multiplied by it.",
           .effect = Effect::kUsed,
           .above = 0,
           .omit_unset = true,
           .unset_meaning = "sqrt(1 + ln(factor) / ln(original_max_position_embeddings))"});
}

void yarn_fields(Visitor& v, RopeScaling& c) {
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
           .unset_meaning = "0.1 ln(factor) + 1, or what mscale and mscale_all_dim give"});
  v.field("mscale", c.mscale,
          {.meaning = "With mscale_all_dim, attention_factor is (0.1 mscale ln(factor) + 1) / (0.1 "
                      "mscale_all_dim ln(factor) + 1) where it is not said; 0 is unset.",
           .effect = Effect::kUsed,
           .min = 0,
           .omit_unset = true,
           .unset_meaning = "0"});
  v.field("mscale_all_dim", c.mscale_all_dim,
          {.meaning = "See mscale.",
           .effect = Effect::kUsed,
           .min = 0,
           .omit_unset = true,
           .unset_meaning = "0"});
  v.field("truncate", c.truncate,
          {.meaning = "The ramp between waves that stay and long ones begins and ends at whole "
                      "pairs of elements.",
           .effect = Effect::kUsed,
           .omit_unset = true,
           .unset_meaning = "true"});
}

}  // namespace

void fields(Visitor& v, RopeScaling& c) {
  v.field("rope_type", c.rope_type,
          {.meaning = "How frequencies are scaled: \"linear\", all of them; \"llama3\" and "
                      "\"yarn\", long waves alone; \"longrope\", each by a factor of its own; "
                      "\"dynamic\", only behind max_position_embeddings, which sequences never "
                      "pass; \"default\", not.",
           .effect = Effect::kUsed,
           .only = {"default", "linear", "dynamic", "llama3", "yarn", "longrope"}});
  const bool is_llama3 = c.rope_type == "llama3", is_yarn = c.rope_type == "yarn";
  const bool is_longrope = c.rope_type == "longrope", has_one = c.rope_type != "default";
  v.when(has_one && !is_longrope, "rope_type is linear or dynamic or llama3 or yarn", [&] {
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
  v.when(is_longrope, "rope_type is longrope", [&] { longrope_fields(v, c); });
  v.when(is_yarn, "rope_type is yarn", [&] { yarn_fields(v, c); });
  v.when(is_llama3 || is_yarn || is_longrope, "rope_type is llama3 or yarn or longrope", [&] {
    v.field("original_max_position_embeddings", c.original_max_position_embeddings,
            {.meaning = "Positions that the model was trained to before.",
             .effect = Effect::kUsed,
             .min = 1,
             .max = kMostPositions,
             .omit_unset = true,
             .unset_meaning = "the model's, if it has such a key, or max_position_embeddings"});
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
                       .attention_factor = c->attention_factor.value_or(0),
                       .score_scale = c->mscale.value_or(0),
                       .whole_scale = c->mscale_all_dim.value_or(0),
                       .rounds_ramp = c->truncate.value_or(true)};
  }
  if (c->rope_type == "longrope") {
    return LongRopeScaling{
        .pair_factors = c->short_factor,
        .factor = c->length_factor.value_or(static_cast<double>(positions) / original),
        .original_positions = original,
        .attention_factor = c->attention_factor.value_or(0)};
  }
  return {};
}

int64_t scaled_positions(const std::optional<RopeScaling>& c, int64_t positions) {
  if (!c || c->rope_type != "longrope") return positions;
  return std::min(positions, c->original_max_position_embeddings.value_or(positions));
}

}  // namespace ds
