// What a stream's work is labelled with while a module computes: the module's path.
#pragma once

#include <string_view>

#include "model/pass/param.h"

namespace ds {

// "transformer.h.3.attn.c_attn" of a parameter "transformer.h.3.attn.c_attn.weight"; lives as long
// as the store.
inline std::string_view module_label(const ParameterStore& store, ParamId id) {
  const std::string_view name = store.spec(id).name;
  return name.substr(0, name.rfind('.'));
}

}  // namespace ds
