#include "config/families/gemma/gemma.h"

#include <cmath>

#include "config/families/llama/llama_like.h"
#include "config/families/spec/hf_object.h"

namespace ds {
namespace {

constexpr std::string_view kGeluTanh = "gelu_pytorch_tanh";

// Files of the first releases say "gelu" and mean its tanh form, as transformers reads them. Older
// transformers heed another key where it is there.
void read_gate(const HfObject& object, std::string& hidden_act) {
  if (hidden_act == "gelu") hidden_act = kGeluTanh;
  const rapidjson::Value* const other = object.find("hidden_activation");
  if (other == nullptr || (other->IsString() && text_of(*other) == hidden_act)) return;
  object.refuse(fmt::format("\"hidden_activation\" other than \"{}\"", hidden_act));
}

}  // namespace

void fields(Visitor& v, GemmaConfig& c) {
  llama_like::fields(v, c, {kGeluTanh, "relu", "silu", "tanh", "quick_gelu"});
}

template struct LlamaLike<GemmaConfig>;

TransformerSpec Family<GemmaConfig>::transformer(const GemmaConfig& c) {
  TransformerSpec spec = llama_like::transformer(
      c, {.queries_keys_values = c.attention_bias, .attention_out = c.attention_bias});
  spec.norms.kind = NormKind::kRmsOnePlus;
  spec.factors = {.embedding = std::sqrt(static_cast<double>(c.hidden_size)),
                  .embedding_precision = FactorPrecision::kOfWeights};
  return spec;
}

void Family<GemmaConfig>::read_rest(const HfObject& object, GemmaConfig& c) {
  llama_like::read_rotary(object, c);
  object.refuse_unless("use_bidirectional_attention", false);
  read_gate(object, c.hidden_act);
}

}  // namespace ds
