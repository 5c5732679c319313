#include "model/families/decoder_parts.h"

#include "core/device/dispatch.h"
#include "core/values/index.h"
#include "model/families/decoder_block.h"

namespace ds {
namespace {

// Everything that the parts have in common.
struct Layout {
  const ModelConfig& config;
  const BuildContext& root;
  LayerRange layers;
  DecoderSpec spec = decoder_spec(config);
  ModelDimensions dims = dimensions(config);
  BuildContext body = root.child(spec.names.body);
  bool tied = ties_embeddings(config);

  Shape table() const { return {dims.vocabulary, dims.width}; }
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

float embedding_factor(const DecoderFactors& factors, DType dtype) {
  const auto factor = static_cast<float>(factors.embedding);
  if (factors.embedding_precision == FactorPrecision::kFull) return factor;
  float rounded = factor;
  on_float(dtype, [&]<class T>() { rounded = static_cast<float>(static_cast<T>(factor)); });
  return rounded;
}

Stage::Embedding embedding_of(const Layout& d, const BuildContext& table) {
  Stage::Embedding embedding{
      .spec = {.table = table.table("weight", d.table(), d.init()), .width = d.dims.width},
      .factor = embedding_factor(d.spec.factors, d.root.dtype),
      .dropout = {static_cast<float>(d.spec.embedding_dropout), 0}};
  if (!d.spec.names.positions.empty()) {
    embedding.spec.positions =
        d.body.child(d.spec.names.positions)
            .param("weight", {d.dims.positions, d.dims.width}, d.init(), ModuleKind::kEmbedding);
  }
  return embedding;
}

// The last layer, after embedding and blocks.
Stage::Head head_of(const Layout& d, const BuildContext& table,
                    const std::optional<Stage::Embedding>& embedding) {
  const int unit = narrow<int>(d.dims.layers) + 1;
  Stage::Head head{
      .norm = norm_params(d.spec, d.body.child(d.spec.names.last_norm).in_unit(unit), d.dims.width),
      .factor = static_cast<float>(d.spec.factors.logits),
      .softcap = static_cast<float>(d.spec.logits_softcap)};
  if (d.tied && embedding) {
    head.weight = embedding->spec.table;
    return head;
  }
  const BuildContext place = (d.tied ? table : d.root.child(d.spec.names.head)).in_unit(unit);
  head.weight = place.param("weight", d.table(), d.init(), ModuleKind::kLinear,
                            {.kept = {vocabulary_cut(place), {}}});
  return head;
}

// Once all parts are there: a tied table has two uses in one stage, or is the shared parameter of
// two.
void share_table(Stage::Parts& parts, ParameterStore& store) {
  if (parts.embedding && parts.head) {
    store.expect_uses(parts.head->weight, 2);
  } else if (parts.embedding) {
    parts.shared = parts.embedding->spec.table;
  } else if (parts.head) {
    parts.shared = parts.head->weight;
  }
}

}  // namespace

Stage::Parts decoder_parts(const ModelConfig& config, const BuildContext& root, LayerRange layers) {
  const Layout d{.config = config, .root = root, .layers = layers};
  const BuildContext table = table_place(d);
  Stage::Parts parts{.config = config, .dtype = root.dtype};
  if (layers.has(0)) parts.embedding = embedding_of(d, table);
  for (int64_t layer = 0; layer < d.dims.layers; ++layer) {
    if (!layers.has(layer + 1)) continue;
    const BuildContext block =
        d.body.child(d.spec.names.blocks, layer).in_unit(narrow<int>(layer) + 1);
    parts.blocks.push_back(std::make_unique<DecoderBlock>(d.spec, d.dims, block, layer));
  }
  if (layers.has(d.dims.layers + 1)) parts.head = head_of(d, table, parts.embedding);
  if (d.tied) share_table(parts, root.store);
  return parts;
}

}  // namespace ds
