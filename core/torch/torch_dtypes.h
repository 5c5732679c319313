// The types of elements that PyTorch has, and the storages that are named after them (pure).
#pragma once

#include <string_view>

#include "core/torch/value.h"

namespace ds {

// The type of a name after "torch.": "float32", and synonyms "float", "half", "long". Null for
// another.
const TorchDType* find_torch_dtype(std::string_view name);

// The type of a class of storages: "FloatStorage"; "UntypedStorage" is of uint8. Null for another.
const TorchDType* find_storage_dtype(std::string_view class_name);

}  // namespace ds
