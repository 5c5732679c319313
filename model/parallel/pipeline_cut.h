// This says where a model is cut into pipeline stages (pure): evenly by layers, by trainable
// parameters, or by the layers whose class name matches a pattern. It works on names and counts; it
// knows no module.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

struct CutLayer {
  std::string type;        // class name
  int64_t parameters = 0;  // trainable
};

// `method` (case does not matter): "uniform" | "parameters" | "type:PATTERN", a regular expression
// that is searched in the class name without regard to case. Returns stages + 1 boundaries
// (core/values/partition.h). Throws ConfigError for other methods, for patterns that are no regular
// expression, and for patterns that no layer matches: there would be nothing to balance.
std::vector<int64_t> cut_layers(std::string_view method, std::span<const CutLayer> layers,
                                int stages);

// Layers [begin, end) of a model. Of a language model of L blocks layer 0 is the embedding, 1 .. L
// are the blocks, L + 1 is the final norm with the head.
struct LayerRange {
  int64_t begin = 0;
  int64_t end = 0;

  bool has(int64_t layer) const { return begin <= layer && layer < end; }
};

// The same as ranges, where "best" is a method too: "parameters" of these counts. ConfigError where
// a part would have no layer.
std::vector<LayerRange> cut_ranges(std::string_view method, std::span<const CutLayer> layers,
                                   int parts);

bool is_best(std::string_view method);

}  // namespace ds
