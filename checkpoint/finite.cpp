#include "checkpoint/finite.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/status/error.h"

namespace ds {
namespace {

// Returns the bits of the least magnitude in fp32 that the type rounds to infinity: it is halfway
// between the type's largest number and what would be the next, which is even.
constexpr uint32_t least_bad(DType as) {
  switch (as) {
    case DType::kF16:
      return 0x477ff000U;  // 65520
    case DType::kBF16:
      return 0x7f7f8000U;
    default:
      return 0x7f800000U;  // infinity itself
  }
}

// Finds the first magnitude that is `least` or more. It compares bits, because compilers turn that
// into wide instructions: the largest of a block, and only in a block that has a bad one the first
// of these.
template <class Bits, Bits kMagnitude>
std::optional<int64_t> first_from(const std::byte* bytes, int64_t numel, Bits least) {
  constexpr int64_t kBlock = 4096;
  const auto magnitude = [&](int64_t i) {
    Bits bits;
    std::memcpy(&bits, bytes + i * static_cast<int64_t>(sizeof bits), sizeof bits);
    return static_cast<Bits>(bits & kMagnitude);
  };
  for (int64_t begin = 0; begin < numel; begin += kBlock) {
    const int64_t end = std::min(numel, begin + kBlock);
    Bits largest = 0;
    for (int64_t i = begin; i < end; ++i) largest = std::max(largest, magnitude(i));
    for (int64_t i = begin; largest >= least && i < end; ++i) {
      if (magnitude(i) >= least) return i;
    }
  }
  return std::nullopt;
}

template <class Number>
Number number_at(const std::byte* bytes, int64_t index) {
  Number out;
  std::memcpy(&out, bytes + index * static_cast<int64_t>(sizeof out), sizeof out);
  return out;
}

}  // namespace

std::optional<BadElement> first_not_finite(const Tensor& values, DType as) {
  DS_CHECK(values.device() == Device::cpu(), "finite: {} numbers on {}, expected on the CPU",
           values.numel(), values.device().to_string());
  const auto* const bytes = static_cast<const std::byte*>(values.raw());
  const int64_t numel = values.numel();
  switch (values.dtype()) {
    case DType::kF32:
      if (const auto at = first_from<uint32_t, 0x7fffffffU>(bytes, numel, least_bad(as)))
        return BadElement{*at, number_at<float>(bytes, *at)};
      break;
    case DType::kF16:
      if (const auto at = first_from<uint16_t, 0x7fffU>(bytes, numel, 0x7c00U))
        return BadElement{*at, static_cast<float>(number_at<F16>(bytes, *at))};
      break;
    case DType::kBF16:
      if (const auto at = first_from<uint16_t, 0x7fffU>(bytes, numel, 0x7f80U))
        return BadElement{*at, static_cast<float>(number_at<BF16>(bytes, *at))};
      break;
    default:
      break;
  }
  return std::nullopt;
}

}  // namespace ds
