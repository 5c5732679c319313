// The classes and functions that a pickle may name, and what each becomes here (pure). Nothing is
// looked up or called by these names: they choose which inert value is made. Others are refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ds {

enum class PickleRole : uint8_t {
  kOrderedDict,       // also Counter: a dict
  kDefaultDict,       // a dict; what it makes for missing keys is left out
  kSize,              // torch.Size: a tuple
  kSet,               // set and frozenset, of a list
  kBytes,             // bytes() and bytearray()
  kEncode,            // _codecs.encode(text, "latin1"): how protocol 2 has bytes
  kDType,             // a dtype of torch
  kStorageType,       // the class of a storage
  kRebuildTensor,     // (storage, offset, shape, strides)
  kRebuildTensor2,    // + requires_grad, hooks
  kRebuildTensor3,    // + dtype
  kRebuildParameter,  // (tensor, requires_grad, hooks)
  kRebuildFromType,   // (one of the four above, class, its arguments, attributes): a tensor that
                      // attributes were set on, which are left out
  kTensorClass,       // the class for that: never called
  kRecord,            // an object or a call, as a record
  kFactory,           // what a defaultdict makes: never called
};

// Empty: the name is to be refused.
std::optional<PickleRole> allowed_role(std::string_view module, std::string_view name);

}  // namespace ds
