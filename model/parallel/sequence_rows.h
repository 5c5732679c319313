// Which rows of a sequence are on which rank where several share it (pure): a part of it or, where
// keys and values go round a ring, a piece from its front and one as far from its back, so that
// causal attention is as much work on every rank (zigzag; Llama 3, arXiv 2407.21783, section 3.3).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace ds {

// Positions of the rows of each sequence that are here: `first` and the following ones or, of the
// second half of the rows, `second` and the following ones.
struct Positions {
  // NOLINTNEXTLINE(google-explicit-constructor): rows that follow are the usual ones.
  Positions(int64_t first_row = 0, std::optional<int64_t> second_half = std::nullopt)
      : first(first_row), second(second_half) {}
  int64_t first;
  std::optional<int64_t> second;
};
// Returns the positions of part `part` of `parts`, of `length` rows each; `ring` ranks have pieces
// of them. If there are more parts, neighbours share what a rank of the ring has, front piece first
// (USP; Fang and Zhao, arXiv 2405.07719). What they share is even.
Positions positions_of_part(int ring, int part, int parts, int64_t length);

// Rows that lie together and whose positions follow each other, sequence by sequence of `length`.
struct RowBlock {
  int64_t row = 0;
  int64_t rows = 0;
  int64_t length = 0;
  int64_t first_position = 0;
};
// Returns the blocks of `rows` that are sequences of `length` each: all of them if positions
// follow, otherwise the halves of each, front pieces first.
std::vector<RowBlock> row_blocks(int64_t rows, int64_t length, const Positions& positions);

}  // namespace ds
