#include "config/families/llama/olmo3.h"

#include "config/families/llama/olmo_like.h"
#include "config/families/spec/hf_object.h"
#include "config/reader/value.h"

namespace ds {
namespace {

constexpr int64_t kFullEvery = 4;  // layers

}  // namespace

void fields(Visitor& v, Olmo3Config& c) {
  llama_like::fields(v, c);
  v.field("sliding_window", c.sliding_window,
          {.meaning = "Keys that a query sees, its own included, but in every fourth layer, where "
                      "it sees all before it.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kMostPositions});
  layer_types_field(v, c.layer_types, "all keys in every fourth layer");
}

template struct LlamaLike<Olmo3Config>;

TransformerSpec Family<Olmo3Config>::transformer(const Olmo3Config& c) {
  TransformerSpec spec = olmo_like::transformer(c);
  spec.window = SlidingWindow{.keys = c.sliding_window,
                              .full_every = kFullEvery,
                              .full_layers = full_layers(c.layer_types)};
  spec.window_rotary = RotarySpec{.theta = c.rope_theta};
  return spec;
}

void Family<Olmo3Config>::read_rest(const HfObject& object, Olmo3Config& c) {
  constexpr double kTheta = 500000;
  if (!object.object("rope_parameters") && c.rope_theta != kTheta) {
    object.refuse(
        "\"rope_theta\" other than 500000 outside of \"rope_parameters\", which releases of "
        "transformers from 5 on read for some of the layers, and earlier ones for all,");
  }
  double windowed = c.rope_theta;
  llama_like::read_rotary_of_layers(object, llama_like::rotary_words(c), {"rope_theta", windowed});
  if (object.object("rope_parameters") && windowed != c.rope_theta) {
    object.refuse("another \"rope_theta\" of \"sliding_attention\" than of \"full_attention\"");
  }
  llama_like::refuse_other_head_dim(object, c);
  if (object.is_null("sliding_window")) object.refuse("a \"sliding_window\" that is null");
  c.layer_types = read_unusual_layer_types(object, c.num_hidden_layers, {.full_every = kFullEvery});
}

void Family<Olmo3Config>::write_rest(Value& object, const Olmo3Config& c) {
  Value plain = Value::object();
  plain.set("rope_type", Value::string("default"));
  plain.set("rope_theta", Value::number(c.rope_theta));
  const Value* const scaling = object.find("rope_scaling");
  Value full = c.rope_scaling && scaling != nullptr ? *scaling : plain;
  full.set("rope_theta", Value::number(c.rope_theta));
  object.erase("rope_scaling");  // it stands in there
  Value& both = object.set("rope_parameters", Value::object());
  both.set("full_attention", std::move(full));
  both.set("sliding_attention", std::move(plain));
}

}  // namespace ds
