#include "model/parallel/sequence_rows.h"

#include "core/error.h"

namespace ds {

Positions positions_of_part(SequenceSplit split, int part, int parts, int64_t length) {
  if (split != SequenceSplit::kRing || parts == 1) return {part * length};
  DS_CHECK(length % 2 == 0, "ring: {} rows of a sequence are no two equal pieces", length);
  const int64_t piece = length / 2;
  return {part * piece, (2 * parts - 1 - part) * piece};
}

std::vector<RowBlock> row_blocks(int64_t rows, int64_t length, const Positions& positions) {
  if (!positions.second) return {{0, rows, length, positions.first}};
  const int64_t piece = length / 2;
  std::vector<RowBlock> blocks;
  for (const int64_t half : {0, 1}) {
    const int64_t position = half == 0 ? positions.first : *positions.second;
    for (int64_t row = half * piece; row < rows; row += length) {
      blocks.push_back({row, piece, piece, position});
    }
  }
  return blocks;
}

}  // namespace ds
