// The activations that kernels know.
#pragma once

#include <cstdint>

namespace ds::kernels {

enum class Activation : uint8_t { kNone, kGeluTanh, kGeluExact, kSilu, kRelu, kTanh, kQuickGelu };

}  // namespace ds::kernels
