// Names that Megatron-DeepSpeed's pipelines have saved, as those of the same model in one piece
// (pure): a pipeline numbers its layers, and has what several stages share under tied_modules.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ds {

// "3.self_attention.dense.weight" of the second block is
// "language_model.encoder.layers.1.self_attention.dense.weight". One name for each of `names`;
// what is no part of such a model keeps its own. Nothing where no layer has Megatron's attention.
std::optional<std::vector<std::string>> names_in_one_piece(std::span<const std::string> names);

}  // namespace ds
