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

// The class of storages of a type that tensors of ours have: "FloatStorage"; Unsupported for one
// that PyTorch has no class for.
std::string_view storage_class(DType dtype);

}  // namespace ds
