#include "core/values/dtype.h"

#include "core/status/error.h"

namespace ds {

size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kU8:
    case DType::kI8:
      return 1;
  }
  throw InternalError("size_of: unknown dtype");
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "fp32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "fp16";
    case DType::kF64:
      return "fp64";
    case DType::kI32:
      return "int32";
    case DType::kI64:
      return "int64";
    case DType::kU8:
      return "uint8";
    case DType::kI8:
      return "int8";
  }
  throw InternalError("name_of: unknown dtype");
}

DType parse_dtype(std::string_view name) {
  if (name == "fp32" || name == "float32" || name == "float") return DType::kF32;
  if (name == "bf16" || name == "bfloat16") return DType::kBF16;
  if (name == "fp16" || name == "float16" || name == "half") return DType::kF16;
  if (name == "fp64" || name == "float64" || name == "double") return DType::kF64;
  if (name == "int32") return DType::kI32;
  if (name == "int64") return DType::kI64;
  if (name == "uint8") return DType::kU8;
  if (name == "int8") return DType::kI8;
  throw ConfigError(fmt::format("dtype: \"{}\" is not one of fp32, bf16, fp16", name));
}

}  // namespace ds
