#include "model/modules/module.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/values/index.h"

namespace ds {

namespace {

ParamSpec spec_of(const BuildContext& build, std::string_view name, const Shape& shape,
                  Initializer init, ModuleKind module, ParamPart part) {
  ParamSpec spec{.name = build.child(name).path,
                 .shape = shape,
                 .dtype = build.dtype,
                 .init = init,
                 .module = module,
                 .packs = part.packs,
                 .unit = build.unit};
  if (build.adapters != nullptr) spec.trains = build.adapters->trains(spec.name, part.has_adapter);
  const auto is_cut = [](const std::vector<Range>& of_axis) { return !of_axis.empty(); };
  if (std::ranges::any_of(part.kept, is_cut)) {
    spec.global = shape;
    spec.cut.axes = std::move(part.kept);
    spec.replicas.summed = std::move(part.summed);
    for (int axis = 0; axis < shape.rank(); ++axis) {
      std::vector<Range>& ranges = nth(spec.cut.axes, axis);
      if (ranges.empty()) ranges = {{0, shape[axis]}};
    }
    spec.shape = spec.cut.shape_in(shape);
  } else if (!part.summed.empty()) {
    spec.replicas.summed = std::move(part.summed);
  } else if (build.tensor) {
    spec.replicas.same = {Axis::kTensor};
  }
  if (build.repeated) spec.replicas.same.push_back(*build.repeated);
  spec.stored = std::move(part.stored);
  spec.pieces = std::move(part.pieces);
  return spec;
}

}  // namespace

BuildContext BuildContext::child(std::string_view name) const {
  BuildContext below = *this;
  if (name.empty()) return below;
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
                            ModuleKind module, ParamPart part) const {
  return store.add(spec_of(*this, name, shape, init, module, std::move(part)));
}

ParamId BuildContext::table(std::string_view name, const Shape& shape, Initializer init) const {
  ParamSpec table = spec_of(*this, name, shape, init, ModuleKind::kEmbedding,
                            {.kept = {vocabulary_cut(*this), {}}});
  table.looked_up = true;
  return store.add(std::move(table));
}

Initializer zeros() { return {Initializer::Kind::kZeros, 0}; }
Initializer ones() { return {Initializer::Kind::kOnes, 0}; }
Initializer normal(double standard_deviation) {
  return {Initializer::Kind::kNormal, static_cast<float>(standard_deviation)};
}
Initializer uniform(double bound) {
  return {Initializer::Kind::kUniform, static_cast<float>(bound)};
}

namespace {

int64_t numel_of(const std::vector<Range>& kept, int64_t all) {
  if (kept.empty()) return all;
  int64_t sum = 0;
  for (const Range& range : kept) sum += range.numel();
  return sum;
}

Range scaled(const Range& range, int64_t factor) {
  return {range.begin * factor, range.end * factor};
}

}  // namespace

namespace {

// The place among others' of a parameter that has a row for each output.
std::optional<StoredRows> rows_among(const std::optional<StoredOutputs>& stored,
                                     std::string_view name) {
  if (!stored) return std::nullopt;
  StoredRows rows = stored->rows;
  rows.name = fmt::format("{}.{}", stored->module, name);
  return rows;
}

// A parameter that was added before; kNoParam where there is none of the name. What layers share is
// of one unit, so the search is short.
ParamId added_before(const BuildContext& build, const std::string& name) {
  for (ParamId id = build.store.count() - 1; id >= 0 && build.store.spec(id).unit == build.unit;
       --id) {
    if (build.store.spec(id).name == name) return id;
  }
  return kNoParam;
}

// As a linear layer of PyTorch's begins: kaiming_uniform_ with a = sqrt(5).
Initializer uniform_of_inputs(int64_t in) {
  return uniform(1 / std::sqrt(static_cast<double>(in)));
}

Initializer start_of_a(const AdapterSpec& spec, int64_t in, int64_t rank) {
  return spec.start == AdapterStart::kGaussian ? normal(1 / static_cast<double>(rank))
                                               : uniform_of_inputs(in);
}

// A of an adapter [rank, in]. Where ranks have some of the outputs each, they make a part of its
// gradient; where they have some of the inputs, those of A.
ParamId adapter_a(const BuildContext& module, int64_t in, const AdapterShape& shape,
                  const LinearCut& cut, int layers) {
  const BuildContext place = module.child(adapter_names::kA);
  if (const ParamId before = added_before(module, place.child("weight").path); before != kNoParam) {
    return before;
  }
  const ParamId a = place.param(
      "weight", {shape.rank, in}, start_of_a(module.adapters->spec(), in, shape.rank),
      ModuleKind::kLinear,
      {.kept = {{}, cut.in}, .summed = cut.out.empty() ? cut.summed : std::vector{Axis::kTensor}});
  if (layers > 1) module.store.expect_uses(a, layers);
  return a;
}

Adapter add_adapter(const BuildContext& build, int64_t in, int64_t out, const AdapterShape& shape,
                    const LinearCut& cut, const std::optional<StoredOutputs>& stored) {
  BuildContext module = build;
  if (stored) module.path = stored->module;
  const AdapterSpec& spec = build.adapters->spec();
  const int layers = stored ? stored->layers : 1;
  Adapter adapter{.rank = shape.rank, .scale = static_cast<float>(shape.scale)};
  adapter.a = adapter_a(module, in, shape, cut, layers);
  adapter.b =
      build.child(adapter_names::kB)
          .param("weight", {out, shape.rank},
                 spec.start == AdapterStart::kRandom ? uniform_of_inputs(shape.rank) : zeros(),
                 ModuleKind::kLinear,
                 {.kept = {cut.out, {}},
                  .summed = cut.in.empty() ? cut.summed : std::vector{Axis::kTensor},
                  .stored = rows_among(stored, fmt::format("{}.weight", adapter_names::kB))});
  if (spec.has_magnitudes) {
    adapter.magnitude =
        build.child(adapter_names::kMagnitude)
            .param("weight", {out}, ones(), ModuleKind::kLinear,
                   {.kept = {cut.out},
                    .summed = cut.in.empty() ? cut.summed : std::vector{Axis::kTensor},
                    .stored =
                        rows_among(stored, fmt::format("{}.weight", adapter_names::kMagnitude))});
  }
  adapter.dropout = {static_cast<float>(spec.dropout),
                     Rng(0, build.store.spec(adapter.a).name).key()};
  return adapter;
}

}  // namespace

LinearPart linear_part(const BuildContext& build, int64_t in, int64_t out, WeightLayout layout,
                       Bias bias, double standard_deviation, const LinearCut& cut,
                       const std::optional<StoredOutputs>& stored) {
  const bool out_in = layout == WeightLayout::kOutIn;
  DS_CHECK(!stored || out_in, "linear layer {}: outputs among others' are rows", build.path);
  std::optional<AdapterShape> adapter;
  if (build.adapters != nullptr) {
    adapter = build.adapters->adapter_of(stored ? stored->module : build.path);
  }
  LinearPart part;
  part.weight = build.param("weight", out_in ? Shape{out, in} : Shape{in, out},
                            normal(standard_deviation), ModuleKind::kLinear,
                            {.kept = {out_in ? cut.out : cut.in, out_in ? cut.in : cut.out},
                             .summed = cut.summed,
                             .stored = rows_among(stored, "weight"),
                             .has_adapter = adapter.has_value(),
                             .packs = true});
  if (bias == Bias::kZeros) {
    part.bias = build.param("bias", {out}, zeros(), ModuleKind::kLinear,
                            {.kept = {cut.out},
                             .summed = cut.summed,
                             .stored = rows_among(stored, "bias"),
                             .has_adapter = adapter.has_value()});
  }
  part.out = numel_of(cut.out, out);
  if (adapter) part.adapter = add_adapter(build, in, out, *adapter, cut, stored);
  return part;
}

LinearSpec linear_layer(const BuildContext& build, int64_t in, int64_t out, WeightLayout layout,
                        Bias bias, double standard_deviation, const LinearCut& cut) {
  return {.parts = {linear_part(build, in, out, layout, bias, standard_deviation, cut)},
          .in = numel_of(cut.in, in),
          .layout = layout,
          .is_part_of_sum = !cut.in.empty()};
}

BlockCut block_cut(const BuildContext& build, int64_t head_dim) {
  if (!build.tensor) return {};
  return {.queries = {scaled(build.tensor->heads, head_dim)},
          .keys = {scaled(build.tensor->kv_heads, head_dim)},
          .inner = {build.tensor->inner},
          .keys_summed = build.tensor->key_replicas > 1 ? std::vector{Axis::kKeyReplica}
                                                        : std::vector<Axis>{}};
}

std::vector<Range> vocabulary_cut(const BuildContext& build) {
  if (!build.tensor) return {};
  return {build.tensor->vocabulary};
}

ModelDimensions dimensions_here(const BuildContext& build, const ModelDimensions& dims) {
  return build.tensor ? dimensions_of_share(dims, *build.tensor) : dims;
}

std::vector<Axis> sum_of_rows(const BuildContext& build) {
  if (!build.tensor || !build.tensor->shares_rows) return {};
  return {Axis::kTensor};
}

NormSpec layer_norm_params(const BuildContext& build, int64_t width, double eps, Bias bias) {
  NormSpec spec = rms_norm_params(build, width, eps);
  spec.form = NormForm::kLayer;
  if (bias == Bias::kNone) return spec;
  spec.beta =
      build.param("bias", {width}, zeros(), ModuleKind::kLayerNorm, {.summed = sum_of_rows(build)});
  return spec;
}

Initializer unit_weight(kernels::RmsWeight weight) {
  return weight == kernels::RmsWeight::kOnePlus ? zeros() : ones();
}

NormSpec rms_norm_params(const BuildContext& build, int64_t width, double eps,
                         kernels::RmsWeight weight) {
  return {.gamma = build.param("weight", {width}, unit_weight(weight), ModuleKind::kLayerNorm,
                               {.summed = sum_of_rows(build)}),
          .beta = kNoParam,
          .eps = static_cast<float>(eps),
          .weight = weight};
}

}  // namespace ds
