// Weights under the names of Megatron-LM, as Megatron-DeepSpeed saves them, as a model of
// Hugging Face's has them: GPT-2, and models with the layers of a Llama. Their queries, keys and
// values lie together, head by head; linear layers of a GPT-2 are the other way around; rows behind
// the vocabulary are padding.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/families/list.h"
#include "core/values/region.h"
#include "model/hf/weight_folder.h"
#include "model/pass/param.h"

namespace ds {

// Some rows of a stored tensor, in this order.
struct TakenRows {
  std::string name;  // of the tensor that is made
  std::string stored;
  std::vector<Range> rows{};
  bool is_transposed = false;  // then rows of what is stored are columns of what is made
  bool operator==(const TakenRows&) const = default;
};

// Whether these are names of Megatron's, in wrappers or not.
bool has_names_of_megatron(std::span<const std::string> stored);

// What each tensor of the model is made of. `version`: the checkpoint_version that its files say,
// by which queries, keys and values are ordered; Megatron-LM takes 0 where they do not say it. What
// is not stored is left out. DataError for a tensor that cannot have the model's heads.
std::vector<TakenRows> taken_rows(const ModelConfig& model, std::span<const ParamSpec> specs,
                                  const WeightFolder& stored, double version);

// The tensors that are made, and others as they are stored, without the names of wrappers. Throws
// as taken_rows() does.
WeightFolder from_megatron(WeightFolder stored, const ModelConfig& model,
                           std::span<const ParamSpec> specs, double version);

}  // namespace ds
