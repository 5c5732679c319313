#include "model/modules/activation_name.h"

#include <array>
#include <utility>

namespace ds {

kernels::Activation parse_activation(std::string_view name) {
  using kernels::Activation;
  static constexpr std::array<std::pair<std::string_view, Activation>, 9> kNames{{
      {"gelu_new", Activation::kGeluTanh},
      {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"gelu_fast", Activation::kGeluTanh},
      {"gelu", Activation::kGeluExact},
      {"relu", Activation::kRelu},
      {"silu", Activation::kSilu},
      {"swish", Activation::kSilu},
      {"tanh", Activation::kTanh},
      {"quick_gelu", Activation::kQuickGelu},
  }};
  for (const auto& [known, activation] : kNames) {
    if (known == name) return activation;
  }
  throw Unsupported(fmt::format(
      "model.activation_function = \"{}\": known are gelu_new, gelu_pytorch_tanh, gelu_fast, gelu, "
      "relu, silu, swish, tanh, quick_gelu",
      name));
}

}  // namespace ds
