// Names of activations that a key may have.
#pragma once

#include <string_view>
#include <vector>

namespace ds {

// All that transformers knows for the MLP of an encoder and that are computed here.
inline std::vector<std::string_view> encoder_activations() {
  return {"gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu",
          "silu", "tanh",     "quick_gelu"};
}

}  // namespace ds
