// From a config to a model: the one place that knows every family.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "model/exchange/tensor.h"
#include "model/modules/language_model.h"
#include "model/modules/stage.h"
#include "model/parallel/pipeline_cut.h"

namespace ds {

// Adds every parameter to `store` (Hugging Face names; unit 0: embeddings, 1..L: blocks, L+1: final
// norm and head) in the order in which a forward pass meets them; the caller seals the store.
// `dtype` is that of weights and activations: fp32, bf16 or fp16. Throws what check(config) throws.
std::unique_ptr<LanguageModel> make_model(const ModelConfig& config, DType dtype,
                                          ParameterStore& store);

// Some layers of the model, and only their parameters, by the names and units that they have in the
// whole. A last stage that is not the first has a tied embedding's table too: Stage::shared().
// `tensor`: the rank that they are for, which has its part of each layer.
std::unique_ptr<Stage> make_stage(const ModelConfig& config, DType dtype, ParameterStore& store,
                                  LayerRange layers, const StageRules& rules = {},
                                  const TensorPlace& tensor = {});

// The parameters of the whole model, in their order, as such a rank has them.
std::vector<ParamSpec> specs_of_model(const ModelConfig& config, DType dtype,
                                      const TensorPlace& tensor = {});

// What cut_layers() balances: each layer with the parameters of a stage that has it alone. Class
// names are those of Hugging Face's blocks, "Embedding" and "Head".
std::vector<CutLayer> layers_of(const ModelConfig& config);
// The model in `parts` of consecutive layers, by a method of cut_layers() or "best": by what is
// multiplied, of which an embedding has nothing. ConfigError where a part would have no layer.
std::vector<LayerRange> cut_model(const ModelConfig& config, std::string_view method, int parts);

}  // namespace ds
