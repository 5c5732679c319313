// The activation functions under the names Hugging Face gives them.
#pragma once

#include <string_view>

#include "kernels/elementwise/activation.h"

namespace ds {

// "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu", "relu", "silu", "swish". Throws Unsupported
// with the list of known names.
kernels::Activation parse_activation(std::string_view name);

}  // namespace ds
