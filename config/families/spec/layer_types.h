// "layer_types" of a config.json: whether queries of each layer see all keys or a window, one by
// one, where no other key of the family says the same.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/families/spec/family.h"

namespace ds {

class HfObject;
class Visitor;

// "full_attention" or "sliding_attention" of each layer; unset: as other keys say.
using LayerTypes = std::optional<std::vector<std::string>>;

// `otherwise`: what is so without it.
void layer_types_field(Visitor& v, LayerTypes& types, std::string_view otherwise);
// What SlidingWindow::full_layers is of it.
std::vector<bool> full_layers(const LayerTypes& types);
// A model of another depth goes on as its list says that it began.
template <class Item>
void resize_layers(std::optional<std::vector<Item>>& list, int64_t layers) {
  if (!list || list->empty()) return;
  std::vector<Item> resized;
  for (size_t layer = 0; layer < static_cast<size_t>(layers); ++layer) {
    resized.push_back((*list)[layer % list->size()]);
  }
  list = std::move(resized);
}
// may_slide: the model has a window.
void add_layer_type_conflicts(std::vector<SizeConflict>& to, const LayerTypes& types,
                              int64_t layers, bool may_slide);

// Nothing if the file does not say it. Refuses other types, and a window that the model lacks.
LayerTypes read_layer_types(const HfObject& object, int64_t layers, bool may_slide = true);
// Whether a window without full_layers is that of the same layers.
bool is_window_of(const SlidingWindow& window, const LayerTypes& types);
// read_layer_types(), and nothing if `usual` says the same.
LayerTypes read_unusual_layer_types(const HfObject& object, int64_t layers,
                                    const SlidingWindow& usual);

}  // namespace ds
