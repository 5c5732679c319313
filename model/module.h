// How modules come by their parameters: a BuildContext carries the path of names down the tree of
// modules, so that a parameter's full name is the one Hugging Face gives it. Modules are plain
// objects that keep ParamIds; they run through a Context and hold no weights.
#pragma once

#include <string>
#include <string_view>

#include "model/functions.h"
#include "model/param.h"

namespace ds {

struct BuildContext {
  ParameterStore& store;
  DType dtype = DType::kF32;  // of every parameter
  std::string path;           // "transformer.h.0.attn", empty at the root
  int unit = 0;               // see ParamSpec::unit

  BuildContext child(std::string_view name) const;
  BuildContext child(std::string_view name, int64_t index) const;  // "h", 3 -> "h.3"
  BuildContext in_unit(int unit_number) const;
  ParamId param(std::string_view name, const Shape& shape, Initializer init,
                ModuleKind module = ModuleKind::kOther) const;
  // Of an embedding of tokens: [vocabulary, width].
  ParamId table(std::string_view name, const Shape& shape, Initializer init) const;
};

Initializer zeros();
Initializer ones();
Initializer normal(double standard_deviation);

enum class Bias : uint8_t { kNone, kZeros };

// One linear layer named by build.path: `weight` in the layout's shape, and `bias` [out] if any.
LinearPart linear_part(const BuildContext& build, int64_t in, int64_t out, WeightLayout layout,
                       Bias bias, double standard_deviation);
NormSpec layer_norm_params(const BuildContext& build, int64_t width, double eps);
NormSpec rms_norm_params(const BuildContext& build, int64_t width, double eps);

}  // namespace ds
