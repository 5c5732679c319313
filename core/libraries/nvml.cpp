#include "core/libraries/nvml.h"

namespace ds {

Nvml open_nvml(const std::string& file) {
  Nvml out{Library({.name = "NVML",
                    .purpose = "the state of GPUs",
                    .sonames = {file},
                    .source = "NVIDIA's driver, which brings it"})};
#define DS_FUNCTION(name) out.name = out.library.function<decltype(&::name)>(#name);
#define DS_OPTIONAL(name) out.name = out.library.find<decltype(&::name)>(#name);
#include "core/libraries/nvml_functions.inl"
#undef DS_FUNCTION
#undef DS_OPTIONAL
  return out;
}

}  // namespace ds
