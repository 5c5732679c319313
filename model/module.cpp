#include "model/module.h"

namespace ds {

BuildContext BuildContext::child(std::string_view name) const {
  BuildContext below = *this;
  below.path = path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
  return below;
}

BuildContext BuildContext::child(std::string_view name, int64_t index) const {
  return child(fmt::format("{}.{}", name, index));
}

BuildContext BuildContext::in_unit(int unit_number) const {
  BuildContext same = *this;
  same.unit = unit_number;
  return same;
}

ParamId BuildContext::param(std::string_view name, const Shape& shape, Initializer init,
                            ModuleKind module) const {
  return store.add({.name = child(name).path,
                    .shape = shape,
                    .dtype = dtype,
                    .init = init,
                    .module = module,
                    .unit = unit});
}

ParamId BuildContext::table(std::string_view name, const Shape& shape, Initializer init) const {
  return store.add({.name = child(name).path,
                    .shape = shape,
                    .dtype = dtype,
                    .init = init,
                    .module = ModuleKind::kEmbedding,
                    .looked_up = true,
                    .unit = unit});
}

Initializer zeros() { return {Initializer::Kind::kZeros, 0}; }
Initializer ones() { return {Initializer::Kind::kOnes, 0}; }
Initializer normal(double standard_deviation) {
  return {Initializer::Kind::kNormal, static_cast<float>(standard_deviation)};
}

LinearPart linear_part(const BuildContext& build, int64_t in, int64_t out, WeightLayout layout,
                       Bias bias, double standard_deviation) {
  const Shape shape = layout == WeightLayout::kOutIn ? Shape{out, in} : Shape{in, out};
  LinearPart part;
  part.weight = build.param("weight", shape, normal(standard_deviation), ModuleKind::kLinear);
  if (bias == Bias::kZeros) part.bias = build.param("bias", {out}, zeros(), ModuleKind::kLinear);
  part.out = out;
  return part;
}

NormSpec layer_norm_params(const BuildContext& build, int64_t width, double eps) {
  NormSpec spec = rms_norm_params(build, width, eps);
  spec.beta = build.param("bias", {width}, zeros(), ModuleKind::kLayerNorm);
  return spec;
}

NormSpec rms_norm_params(const BuildContext& build, int64_t width, double eps) {
  return {.gamma = build.param("weight", {width}, ones(), ModuleKind::kLayerNorm),
          .beta = kNoParam,
          .eps = static_cast<float>(eps)};
}

}  // namespace ds
