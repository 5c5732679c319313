#include "model/families/frame.h"

namespace ds {

BuildContext of_table(const BuildContext& embedding, const ModelConfig& config, LayerRange layers) {
  BuildContext table = embedding;
  const bool has_one_end = layers.has(0) != layers.has(dimensions(config).layers + 1);
  if (ties_embeddings(config) && has_one_end) table.repeated = Axis::kPipe;
  return table;
}

void add_head(Stage::Parts& parts, const NormSpec& norm, const HeadWeight& weight, int unit) {
  const BuildContext& place = weight.tied ? weight.table : weight.own;
  const bool has_table = weight.tied && parts.embedding;
  parts.head = {.norm = norm,
                .weight = has_table ? parts.embedding->spec.table
                                    : place.in_unit(unit).param(
                                          "weight", weight.shape, weight.init, ModuleKind::kLinear,
                                          {.kept = {vocabulary_cut(place), {}}})};
}

void share_table(Stage::Parts& parts, ParameterStore& store) {
  if (parts.embedding && parts.head) {
    store.expect_uses(parts.head->weight, 2);
  } else if (parts.embedding) {
    parts.shared = parts.embedding->spec.table;
  } else if (parts.head) {
    parts.shared = parts.head->weight;
  }
}

}  // namespace ds
