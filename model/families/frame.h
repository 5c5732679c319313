// What the stages of all families have alike: a list of blocks, and a head whose weight may be the
// embedding's table.
#pragma once

#include "core/index.h"
#include "model/module.h"
#include "model/stage.h"

namespace ds {

// One of them per block among `layers`: body.list.0, body.list.1, ...
template <class FamilyBlock, class Config>
void add_blocks(Stage::Parts& parts, const Config& config, const BuildContext& body,
                std::string_view list, LayerRange layers) {
  for (int64_t layer = 0; layer < dimensions(config).layers; ++layer) {
    if (!layers.has(layer + 1)) continue;
    const BuildContext block = body.child(list, layer).in_unit(narrow<int>(layer) + 1);
    parts.blocks.push_back(std::make_unique<FamilyBlock>(config, block, layer));
  }
}

// Returns where the table of an embedding is added. If it is tied to the head, and a stage has only
// one of them, the other end of the pipeline has a copy.
BuildContext of_table(const BuildContext& embedding, const ModelConfig& config, LayerRange layers);

// This says where the head's weight [V, C] is, and how it starts.
struct HeadWeight {
  BuildContext table;  // of the embedding: the weight where the two are tied
  BuildContext own;    // the weight where they are not
  bool tied = false;
  Shape shape;
  Initializer init{};
};
// The last layer, after embedding and blocks.
void add_head(Stage::Parts& parts, const NormSpec& norm, const HeadWeight& weight, int unit);

// Once all parts are there: a tied table has two uses in one stage, or is the shared parameter of
// two.
void share_table(Stage::Parts& parts, ParameterStore& store);

}  // namespace ds
