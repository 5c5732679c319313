// How an operation reads its factors and writes its result.
#pragma once

#include <cstdint>

namespace ds::kernels {

enum class Write : uint8_t { kOverwrite, kAccumulate };  // y = result, or y += result
enum class Transpose : uint8_t { kNo, kYes };
enum class Factor : uint8_t { kA, kB };  // of a product a * b

}  // namespace ds::kernels
