#include "train/batches/sample_part.h"

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"
#include "model/parallel/sequence_rows.h"

namespace ds {

void take_part(std::span<const int32_t> whole, int64_t length, const SamplePlace& place,
               std::span<int32_t> out) {
  const int64_t rows = narrow<int64_t>(whole.size()) / length;
  const int64_t part = length / place.parts;
  DS_CHECK(narrow<int64_t>(out.size()) == rows * part, "batch: room for {} tokens, expected {}",
           out.size(), rows * part);
  const Positions positions = positions_of_part(place.ring, place.part, place.parts, part);
  for (const RowBlock& block : row_blocks(rows * part, part, positions)) {
    for (int64_t row = 0; row < block.rows; row += block.length) {
      const int64_t to = block.row + row;
      const auto from = whole.begin() + to / part * length + block.first_position;
      std::copy_n(from, block.length, out.begin() + to);
    }
  }
}

}  // namespace ds
