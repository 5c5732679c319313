// The stand-in's arithmetic: from the last rank to the first, every step rounded to the type of the
// result, so that who relies on rank order notices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

#include "core/libraries/nccl_abi.h"
#include "core/values/dtype.h"

namespace ds::fake_nccl {

template <class Body>
void with_type(NcclType type, const Body& body) {
  switch (type) {
    case NcclType::kInt8:
      return body.template operator()<int8_t>();
    case NcclType::kUint8:
      return body.template operator()<uint8_t>();
    case NcclType::kInt32:
      return body.template operator()<int32_t>();
    case NcclType::kUint32:
      return body.template operator()<uint32_t>();
    case NcclType::kInt64:
      return body.template operator()<int64_t>();
    case NcclType::kUint64:
      return body.template operator()<uint64_t>();
    case NcclType::kFloat16:
      return body.template operator()<F16>();
    case NcclType::kFloat32:
      return body.template operator()<float>();
    case NcclType::kFloat64:
      return body.template operator()<double>();
    case NcclType::kBfloat16:
      return body.template operator()<BF16>();
  }
}

inline size_t width_of(NcclType type) {
  size_t width = 0;
  with_type(type, [&]<class T>() { width = sizeof(T); });
  return width;
}

template <class Wide>
Wide combine(NcclReduce reduce, Wide a, Wide b) {
  switch (reduce) {
    case NcclReduce::kProduct:
      return a * b;
    case NcclReduce::kMax:
      return std::max(a, b);
    case NcclReduce::kMin:
      return std::min(a, b);
    default:
      return a + b;
  }
}

inline void reduce(NcclType type, NcclReduce reduce, const std::vector<const std::byte*>& inputs,
                   std::byte* to, size_t count) {
  with_type(type, [&]<class T>() {
    using Wide = std::conditional_t<std::is_integral_v<T>, int64_t,
                                    std::conditional_t<std::is_same_v<T, double>, double, float>>;
    for (size_t i = 0; i < count; ++i) {
      const auto input = [&](size_t rank) {
        T value{};
        std::memcpy(&value, inputs[rank] + i * sizeof(T), sizeof(T));
        return static_cast<Wide>(value);
      };
      Wide sum = input(inputs.size() - 1);
      for (size_t rank = inputs.size() - 1; rank-- > 0;) {
        sum = combine(reduce, sum, input(rank));
        if constexpr (!std::is_integral_v<T>) sum = static_cast<Wide>(static_cast<T>(sum));
      }
      if (reduce == NcclReduce::kAverage) sum /= static_cast<Wide>(inputs.size());
      const auto result = static_cast<T>(sum);
      std::memcpy(to + i * sizeof(T), &result, sizeof(T));
    }
  });
}

}  // namespace ds::fake_nccl
