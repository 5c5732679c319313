// Block layouts of sparse attention (pure): which blocks of the score matrix are computed. A layout
// is one 0/1 matrix of blocks per head; kernels/sparse_attention computes the blocks that are 1.
// Sources: fixed: Child et al. (arXiv 1904.10509); bigbird: Zaheer et al. (arXiv 2007.14062);
// bslongformer: block version of Beltagy et al. (arXiv 2004.05150); the parameters are DeepSpeed's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/values/index.h"
#include "core/values/rng.h"

namespace ds {

enum class AttentionDirection { kBidirectional, kUnidirectional };
enum class HeadLayout { kShared, kPerHead };
// Whether global blocks also attend to everything (rows), besides being attended to (columns).
enum class GlobalRows { kOff, kOn };

// Global blocks: single ones, or [first[i], last[i]) when `last` is given (then of equal length,
// also when it is empty).
struct GlobalBlocks {
  std::vector<int64_t> first = {0};
  std::optional<std::vector<int64_t>> last = {};
};

struct DenseLayout {};

// Local windows of num_local_blocks; the last num_global_blocks of each window are seen by all.
// With kPerHead, head h takes pattern h mod num_different_global_patterns: that many steps earlier.
struct FixedLayout {
  HeadLayout heads = HeadLayout::kShared;
  int64_t num_local_blocks = 4;
  int64_t num_global_blocks = 1;
  AttentionDirection direction = AttentionDirection::kBidirectional;
  GlobalRows global_rows = GlobalRows::kOff;
  int64_t num_different_global_patterns = 1;
};

// Local windows of the given sizes, the last size repeating; chosen global blocks; random blocks.
struct VariableLayout {
  HeadLayout heads = HeadLayout::kShared;
  int64_t num_random_blocks = 0;
  std::vector<int64_t> local_window_blocks = {4};
  GlobalBlocks global = {};
  AttentionDirection direction = AttentionDirection::kBidirectional;
  GlobalRows global_rows = GlobalRows::kOff;
};

// A sliding window, the first blocks global (rows and columns), random blocks.
struct BigBirdLayout {
  HeadLayout heads = HeadLayout::kShared;
  int64_t num_random_blocks = 1;
  int64_t num_sliding_window_blocks = 3;
  int64_t num_global_blocks = 1;
  AttentionDirection direction = AttentionDirection::kBidirectional;
};

// A sliding window and chosen global blocks (rows and columns).
struct BsLongformerLayout {
  HeadLayout heads = HeadLayout::kShared;
  int64_t num_sliding_window_blocks = 3;
  GlobalBlocks global = {};
  AttentionDirection direction = AttentionDirection::kBidirectional;
};

struct SlidingWindowLayout {
  int64_t num_sliding_window_blocks = 3;
  AttentionDirection direction = AttentionDirection::kUnidirectional;
};

using SparseLayoutRule = std::variant<DenseLayout, FixedLayout, VariableLayout, BigBirdLayout,
                                      BsLongformerLayout, SlidingWindowLayout>;

class BlockLayout {
 public:
  BlockLayout(int64_t heads, int64_t blocks);

  int64_t heads() const { return heads_; }
  int64_t blocks() const { return blocks_; }  // rows, and columns
  bool at(int64_t head, int64_t row, int64_t column) const {
    return cells_[index(head, row, column)] != 0;
  }
  void set(int64_t head, int64_t row, int64_t column) { cells_[index(head, row, column)] = 1; }
  // Rows [r0, r1) x columns [c0, c1); what lies outside the matrix is cut off.
  void fill(int64_t head, int64_t r0, int64_t r1, int64_t c0, int64_t c1);
  void keep_lower_triangle(int64_t head);
  void copy_head(int64_t from, int64_t to);
  std::string row_text(int64_t head, int64_t row) const;  // "0110..."
  int64_t count() const;                                  // blocks that are 1

 private:
  size_t index(int64_t head, int64_t row, int64_t column) const {
    return to_size((head * blocks_ + row) * blocks_ + column);
  }
  int64_t heads_, blocks_;
  std::vector<uint8_t> cells_;
};

// The layout for `heads` heads of sequences of `length` tokens in blocks of `block`. Random blocks
// come from `rng` alone. Throws ConfigError when the parameters contradict each other, the length
// is no multiple of the block, or it has fewer blocks than a window, a global range or a random
// draw.
BlockLayout sparse_layout(const SparseLayoutRule& rule, int64_t heads, int64_t length,
                          int64_t block, const Rng& rng);

}  // namespace ds
