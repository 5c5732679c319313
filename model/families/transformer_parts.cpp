#include "model/families/transformer_parts.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/device/dispatch.h"
#include "core/values/index.h"
#include "model/families/transformer_block.h"
#include "model/modules/activation_name.h"

namespace ds {
namespace {

// Everything that the parts have in common.
struct Layout {
  const ModelConfig& config;
  const BuildContext& root;
  LayerRange layers;
  TransformerSpec spec = transformer_spec(config);
  ModelDimensions dims = dimensions(config);
  BuildContext body = root.child(spec.names.body);
  bool tied = ties_embeddings(config);
  int last_unit = narrow<int>(dims.layers) + 1;

  int64_t table_width() const { return spec.tables.width > 0 ? spec.tables.width : dims.width; }
  Shape table() const { return {dims.vocabulary, table_width()}; }
  Initializer init() const { return normal(spec.initializer_range); }
};

// Returns where the table of an embedding is added. If it is tied to the head, and a stage has only
// one of them, the other end of the pipeline has a copy.
BuildContext table_place(const Layout& d) {
  BuildContext table = d.body.child(d.spec.names.table);
  const bool has_one_end = d.layers.has(0) != d.layers.has(d.dims.layers + 1);
  if (d.tied && has_one_end) table.repeated = Axis::kPipe;
  return table;
}

float embedding_factor(const TransformerFactors& factors, DType dtype) {
  const auto factor = static_cast<float>(factors.embedding);
  if (factors.embedding_precision == FactorPrecision::kFull) return factor;
  float rounded = factor;
  on_float(dtype, [&]<class T>() { rounded = static_cast<float>(static_cast<T>(factor)); });
  return rounded;
}

LinearSpec projection(const Layout& d, const BuildContext& place, int64_t in, int64_t out) {
  return linear_layer(place, in, out, WeightLayout::kOutIn, Bias::kNone, d.spec.initializer_range,
                      {.summed = sum_of_rows(place)});
}

Stage::Embedding embedding_of(const Layout& d, const BuildContext& table) {
  Stage::Embedding embedding{.spec = {.table = table.table("weight", d.table(), d.init()),
                                      .first_position = d.spec.tables.first_position,
                                      .width = d.dims.width},
                             .factor = embedding_factor(d.spec.factors, d.root.dtype),
                             .dropout = {static_cast<float>(d.spec.embedding_dropout), 0}};
  const auto table_of = [&](std::string_view name, int64_t rows) {
    if (name.empty()) return kNoParam;
    return d.body.child(name).param("weight", {rows, d.dims.width}, d.init(),
                                    ModuleKind::kEmbedding);
  };
  const TransformerNames& names = d.spec.names;
  if (!names.projection_in.empty()) {
    const BuildContext place = d.body.child(names.projection_in);
    embedding.spec.projection = projection(d, place, d.table_width(), d.dims.width);
  }
  embedding.spec.positions =
      table_of(names.positions, d.spec.tables.first_position + d.dims.positions);
  embedding.spec.segments = table_of(names.segments, d.spec.tables.segments);
  embedding.norm = norm_params(d.spec, d.body, names.table_norm, d.dims.width);
  return embedding;
}

std::optional<Stage::Head::Transform> transform_of(const Layout& d, const HeadSpec& head,
                                                   const BuildContext& root) {
  if (!head.transform) return std::nullopt;
  const HeadTransform& spec = *head.transform;
  const double deviation = spec.deviation > 0 ? spec.deviation : d.spec.initializer_range;
  const int64_t width = d.dims.width;
  Stage::Head::Transform transform{
      .linear = linear_layer(root.child(spec.linear), width, width, WeightLayout::kOutIn,
                             spec.has_bias ? Bias::kZeros : Bias::kNone, deviation,
                             {.summed = sum_of_rows(root)}),
      .activation = parse_activation(spec.activation)};
  transform.norm = norm_params(d.spec, root, spec.norm, width);
  return transform;
}

// What scores classes by the module `place`: all ranks that share layers have all of it.
void add_classes(const Layout& d, const HeadSpec& spec, const BuildContext& place,
                 Stage::Head& head) {
  const double deviation = spec.deviation > 0 ? spec.deviation : d.spec.initializer_range;
  head.classes = spec.classes;
  head.problem = spec.problem;
  head.pools_mean = spec.pools_mean;
  head.logits.is_whole = true;
  head.logits.weight =
      place.param("weight", {spec.classes, d.dims.width}, normal(deviation), ModuleKind::kLinear);
  if (!spec.bias.empty()) {
    head.logits.bias = place.param("bias", {spec.classes}, zeros(), ModuleKind::kLinear);
  }
  const auto site =
      static_cast<uint64_t>(d.dims.layers + 1) * static_cast<uint64_t>(d.spec.dropout_places);
  head.before = {static_cast<float>(spec.dropout_before), site + 1};
  head.behind = {static_cast<float>(spec.dropout_behind), site + 2};
}

std::optional<LinearSpec> projection_out(const Layout& d) {
  if (d.spec.names.projection_out.empty()) return std::nullopt;
  const BuildContext place = d.body.in_unit(d.last_unit).child(d.spec.names.projection_out);
  return projection(d, place, d.dims.width, d.table_width());
}

// The last layer, after embedding and blocks.
Stage::Head head_of(const Layout& d, const BuildContext& table,
                    const std::optional<Stage::Embedding>& embedding) {
  const BuildContext root = d.root.in_unit(d.last_unit);
  const HeadSpec& spec = d.spec.head;
  Stage::Head head{.norm = norm_params(d.spec, d.body.in_unit(d.last_unit), d.spec.names.last_norm,
                                       d.dims.width),
                   .projection = projection_out(d),
                   .transform = transform_of(d, spec, root),
                   .logits = {.softcap = static_cast<float>(spec.logits_softcap)},
                   .factor = static_cast<float>(d.spec.factors.logits)};
  if (spec.classes > 0) {
    add_classes(d, spec, root.child(d.spec.names.head), head);
    return head;
  }
  if (!spec.bias.empty()) {
    head.logits.bias =
        root.child(spec.bias).param("bias", {d.dims.vocabulary}, zeros(), ModuleKind::kLinear,
                                    {.kept = {vocabulary_cut(root)}});
  }
  if (d.tied && embedding) {
    head.logits.weight = embedding->spec.table;
    return head;
  }
  const BuildContext place = d.tied ? table.in_unit(d.last_unit) : root.child(d.spec.names.head);
  head.logits.weight = place.param("weight", d.table(), d.init(), ModuleKind::kLinear,
                                   {.kept = {vocabulary_cut(place), {}}});
  return head;
}

// The head beside that one.
std::optional<Stage::Head> pair_head_of(const Layout& d) {
  if (!d.spec.pair_head) return std::nullopt;
  const BuildContext root = d.root.in_unit(d.last_unit);
  const auto& [spec, scores] = *d.spec.pair_head;
  Stage::Head head{.transform = transform_of(d, spec, root)};
  add_classes(d, spec, root.child(scores), head);
  return head;
}

// The first unit that has a parameter which trains.
int first_training_unit(const ParameterStore& store) {
  int first = std::numeric_limits<int>::max();
  for (ParamId id = 0; id < store.count(); ++id) {
    const ParamSpec& spec = store.spec(id);
    if (spec.trains) first = std::min(first, spec.unit);
  }
  return first;
}

// Once all parts are there: a tied table has two uses in one stage, or is the shared parameter of
// two.
void share_table(Stage::Parts& parts, ParameterStore& store) {
  if (parts.embedding && parts.head) {
    store.expect_uses(parts.head->logits.weight, 2);
  } else if (parts.embedding) {
    parts.shared = parts.embedding->spec.table;
  } else if (parts.head) {
    parts.shared = parts.head->logits.weight;
  }
}

}  // namespace

Stage::Parts transformer_parts(const ModelConfig& config, const BuildContext& root,
                               LayerRange layers) {
  const Layout d{.config = config, .root = root, .layers = layers};
  const BuildContext table = table_place(d);
  Stage::Parts parts{.config = config, .dtype = root.dtype};
  if (layers.has(0)) parts.embedding = embedding_of(d, table);
  for (int64_t layer = 0; layer < d.dims.layers; ++layer) {
    if (!layers.has(layer + 1)) continue;
    const BuildContext block =
        d.body.child(d.spec.names.blocks, layer).in_unit(narrow<int>(layer) + 1);
    parts.blocks.push_back(std::make_unique<TransformerBlock>(d.spec, d.dims, block, layer));
  }
  if (layers.has(d.dims.layers + 1)) {
    parts.head = head_of(d, table, parts.embedding);
    parts.pair_head = pair_head_of(d);
  }
  if (d.tied) share_table(parts, root.store);
  if (parts.embedding) parts.trains_from = first_training_unit(root.store);
  return parts;
}

}  // namespace ds
