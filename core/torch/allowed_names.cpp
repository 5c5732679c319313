#include "core/torch/allowed_names.h"

#include <algorithm>
#include <array>

#include "core/torch/torch_dtypes.h"

namespace ds {
namespace {

struct Allowed {
  std::string_view module, name;
  PickleRole role;
};

constexpr std::array kAllowed = {
    Allowed{"collections", "OrderedDict", PickleRole::kOrderedDict},
    Allowed{"collections", "Counter", PickleRole::kOrderedDict},
    Allowed{"collections", "defaultdict", PickleRole::kDefaultDict},
    Allowed{"torch._utils", "_rebuild_tensor", PickleRole::kRebuildTensor},
    Allowed{"torch._utils", "_rebuild_tensor_v2", PickleRole::kRebuildTensor2},
    Allowed{"torch._utils", "_rebuild_tensor_v3", PickleRole::kRebuildTensor3},
    Allowed{"torch._utils", "_rebuild_parameter", PickleRole::kRebuildParameter},
    Allowed{"torch._tensor", "_rebuild_from_type_v2", PickleRole::kRebuildFromType},
    Allowed{"torch", "Tensor", PickleRole::kTensorClass},
    Allowed{"torch.nn.parameter", "Parameter", PickleRole::kTensorClass},
    Allowed{"torch", "Size", PickleRole::kSize},
    Allowed{"torch", "device", PickleRole::kRecord},
    Allowed{"_codecs", "encode", PickleRole::kEncode},
    Allowed{"argparse", "Namespace", PickleRole::kRecord},
    Allowed{"numpy", "dtype", PickleRole::kRecord},
    Allowed{"numpy", "ndarray", PickleRole::kRecord},
    Allowed{"numpy.core.multiarray", "scalar", PickleRole::kRecord},
    Allowed{"numpy.core.multiarray", "_reconstruct", PickleRole::kRecord},
    Allowed{"numpy.core.numeric", "_frombuffer", PickleRole::kRecord},
    Allowed{"numpy._core.numeric", "_frombuffer", PickleRole::kRecord},
    Allowed{"numpy._core.multiarray", "scalar", PickleRole::kRecord},
    Allowed{"numpy._core.multiarray", "_reconstruct", PickleRole::kRecord},
    Allowed{"deepspeed.runtime.zero.config", "ZeroStageEnum", PickleRole::kRecord},
    Allowed{"deepspeed.runtime.fp16.loss_scaler", "LossScaler", PickleRole::kRecord},
    Allowed{"deepspeed.runtime.fp16.loss_scaler", "DynamicLossScaler", PickleRole::kRecord},
    Allowed{"deepspeed.utils.tensor_fragment", "fragment_address", PickleRole::kRecord},
};

// Protocol 2 is written with the names of Python 2.
struct Builtin {
  std::string_view name;
  PickleRole role;
};
constexpr std::array kBuiltins = {
    Builtin{"set", PickleRole::kSet},       Builtin{"frozenset", PickleRole::kSet},
    Builtin{"bytes", PickleRole::kBytes},   Builtin{"bytearray", PickleRole::kBytes},
    Builtin{"dict", PickleRole::kFactory},  Builtin{"list", PickleRole::kFactory},
    Builtin{"tuple", PickleRole::kFactory}, Builtin{"int", PickleRole::kFactory},
    Builtin{"float", PickleRole::kFactory}, Builtin{"bool", PickleRole::kFactory},
    Builtin{"str", PickleRole::kFactory},
};

}  // namespace

std::optional<PickleRole> allowed_role(std::string_view module, std::string_view name) {
  if (module == "builtins" || module == "__builtin__") {
    const auto* found = std::find_if(kBuiltins.begin(), kBuiltins.end(),
                                     [&](const Builtin& builtin) { return builtin.name == name; });
    return found == kBuiltins.end() ? std::nullopt : std::optional(found->role);
  }
  const bool of_storages = module == "torch" || module == "torch.storage";
  if (of_storages && find_storage_dtype(name) != nullptr) return PickleRole::kStorageType;
  if (module == "torch" && find_torch_dtype(name) != nullptr) return PickleRole::kDType;
  const auto* found = std::find_if(kAllowed.begin(), kAllowed.end(), [&](const Allowed& allowed) {
    return allowed.module == module && allowed.name == name;
  });
  return found == kAllowed.end() ? std::nullopt : std::optional(found->role);
}

}  // namespace ds
