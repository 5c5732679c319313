#include "core/torch/torch_dtypes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/status/error.h"

namespace ds {
namespace {

struct Known {
  TorchDType dtype;
  std::string_view storage{};  // its class; empty: such tensors have untyped storages
  std::string_view synonym{};
};

constexpr std::array kKnown = {
    Known{{"float32", 4, DType::kF32}, "FloatStorage", "float"},
    Known{{"bfloat16", 2, DType::kBF16}, "BFloat16Storage"},
    Known{{"float16", 2, DType::kF16}, "HalfStorage", "half"},
    Known{{"float64", 8, DType::kF64}, "DoubleStorage", "double"},
    Known{{"int32", 4, DType::kI32}, "IntStorage", "int"},
    Known{{"int64", 8, DType::kI64}, "LongStorage", "long"},
    Known{{"uint8", 1, DType::kU8}, "ByteStorage"},
    Known{{"int8", 1, DType::kI8}, "CharStorage"},
    Known{{"int16", 2, std::nullopt}, "ShortStorage", "short"},
    Known{{"bool", 1, std::nullopt}, "BoolStorage"},
    Known{{"complex64", 8, std::nullopt}, "ComplexFloatStorage", "cfloat"},
    Known{{"complex128", 16, std::nullopt}, "ComplexDoubleStorage", "cdouble"},
    Known{{"quint8", 1, std::nullopt}, "QUInt8Storage"},
    Known{{"qint8", 1, std::nullopt}, "QInt8Storage"},
    Known{{"qint32", 4, std::nullopt}, "QInt32Storage"},
    Known{{"uint16", 2, std::nullopt}},
    Known{{"uint32", 4, std::nullopt}},
    Known{{"uint64", 8, std::nullopt}},
    Known{{"complex32", 4, std::nullopt}, {}, "chalf"},
    Known{{"float8_e4m3fn", 1, std::nullopt}},
    Known{{"float8_e4m3fnuz", 1, std::nullopt}},
    Known{{"float8_e5m2", 1, std::nullopt}},
    Known{{"float8_e5m2fnuz", 1, std::nullopt}},
    Known{{"float8_e8m0fnu", 1, std::nullopt}},
};

}  // namespace

const TorchDType* find_torch_dtype(std::string_view name) {
  const auto* found = std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& known) {
    return known.dtype.name == name || (!known.synonym.empty() && known.synonym == name);
  });
  return found == kKnown.end() ? nullptr : &found->dtype;
}

const TorchDType* find_storage_dtype(std::string_view class_name) {
  if (class_name == "UntypedStorage") return find_torch_dtype("uint8");
  const auto* found = std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& known) {
    return !known.storage.empty() && known.storage == class_name;
  });
  return found == kKnown.end() ? nullptr : &found->dtype;
}

std::string_view storage_class(DType dtype) {
  const auto* found = std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& known) {
    return known.dtype.dtype == dtype && !known.storage.empty();
  });
  if (found == kKnown.end()) {
    throw Unsupported(fmt::format("PyTorch has no storage for {}", name_of(dtype)));
  }
  return found->storage;
}

}  // namespace ds
