// From a config to a model: the one place that knows every family.
#pragma once

#include <memory>

#include "model/language_model.h"

namespace ds {

// Adds every parameter to `store` (Hugging Face names; unit 0: embeddings, 1..L: blocks, L+1: final
// norm and head) in the order in which a forward pass meets them; the caller seals the store.
// `dtype` is that of weights and activations: fp32, bf16 or fp16. Throws what check(config) throws.
std::unique_ptr<LanguageModel> make_model(const ModelConfig& config, DType dtype,
                                          ParameterStore& store);

}  // namespace ds
