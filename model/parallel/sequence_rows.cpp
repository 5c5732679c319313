#include "model/parallel/sequence_rows.h"

#include "core/status/error.h"

namespace ds {

Positions positions_of_part(int ring, int part, int parts, int64_t length) {
  if (ring == 1) return {part * length};
  const int sharers = parts / ring;
  const int64_t shared = sharers * length;
  DS_CHECK(shared % 2 == 0, "ring: {} rows of a sequence are no two equal pieces", shared);
  const int64_t piece = shared / 2;
  const int64_t place = part / sharers;
  const int64_t front = place * piece, back = (2 * ring - 1 - place) * piece;
  const int64_t first = part % sharers * length;  // of what is shared
  if (first + length <= piece) return {front + first};
  if (first >= piece) return {back + first - piece};
  return {front + first, back};  // half of the rows each: the one in the middle, or the only one
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
