// Block layouts of sparse attention.
#include "model/sparse_layout.h"

#include <algorithm>
#include <numeric>

#include "core/status/error.h"
#include "core/values/index.h"
#include "core/values/sample.h"

namespace ds {

BlockLayout::BlockLayout(int64_t heads, int64_t blocks)
    : heads_(heads), blocks_(blocks), cells_(to_size(heads * blocks * blocks), 0) {}

void BlockLayout::fill(int64_t head, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
  r0 = std::max<int64_t>(r0, 0), c0 = std::max<int64_t>(c0, 0);
  r1 = std::min(r1, blocks_), c1 = std::min(c1, blocks_);
  for (int64_t row = r0; row < r1; ++row) {
    for (int64_t column = c0; column < c1; ++column) set(head, row, column);
  }
}

void BlockLayout::keep_lower_triangle(int64_t head) {
  for (int64_t row = 0; row < blocks_; ++row) {
    for (int64_t column = row + 1; column < blocks_; ++column) cells_[index(head, row, column)] = 0;
  }
}

void BlockLayout::copy_head(int64_t from, int64_t to) {
  const auto begin = cells_.begin() + from * blocks_ * blocks_;
  std::copy(begin, begin + blocks_ * blocks_, cells_.begin() + to * blocks_ * blocks_);
}

std::string BlockLayout::row_text(int64_t head, int64_t row) const {
  std::string text;
  for (int64_t column = 0; column < blocks_; ++column) text += at(head, row, column) ? '1' : '0';
  return text;
}

int64_t BlockLayout::count() const {
  return std::accumulate(cells_.begin(), cells_.end(), int64_t{0});
}

namespace {

constexpr auto kUni = AttentionDirection::kUnidirectional;

void check_fits(int64_t blocks, int64_t wanted, const char* key) {
  if (wanted < 0 || wanted > blocks) {
    throw ConfigError(fmt::format(
        "sparse_attention: {} is {} but the sequence has {} blocks; use a longer sequence or fewer",
        key, wanted, blocks));
  }
}

void check_positive(int64_t value, const char* key) {
  if (value < 1) {
    throw ConfigError(fmt::format("sparse_attention: {} is {}, expected at least 1", key, value));
  }
}

void check_global_rows(GlobalRows rows, AttentionDirection direction) {
  if (rows == GlobalRows::kOn && direction == kUni) {
    throw ConfigError(
        "sparse_attention: horizontal_global_attention needs attention bidirectional");
  }
}

void check_global(const GlobalBlocks& global) {
  if (global.last && global.first.size() != global.last->size()) {
    throw ConfigError(fmt::format(
        "sparse_attention: global_block_indices has {} entries, global_block_end_indices {}",
        global.first.size(), global.last->size()));
  }
  for (size_t i = 0; i < global.first.size(); ++i) {
    if (global.first[i] < 0 || (global.last && global.first[i] >= (*global.last)[i])) {
      throw ConfigError(
          fmt::format("sparse_attention: global block range {} is empty or negative", i));
    }
  }
}

// Calls use(first, last) for every global range that starts inside the matrix.
template <class Use>
void for_each_global(const GlobalBlocks& global, int64_t blocks, const Use& use) {
  for (size_t i = 0; i < global.first.size(); ++i) {
    const int64_t first = global.first[i];
    const int64_t last = global.last ? std::min((*global.last)[i], blocks) : first + 1;
    if (first < blocks) use(first, last);
  }
}

// A window on the diagonal: every block of it sees the others, or the earlier ones and itself.
void local_window(BlockLayout& layout, int64_t head, int64_t first, int64_t last,
                  AttentionDirection direction) {
  last = std::min(last, layout.blocks());
  for (int64_t row = first; row < last; ++row) {
    layout.fill(head, row, row + 1, first, direction == kUni ? row + 1 : last);
  }
}

void sliding_window(BlockLayout& layout, int64_t head, int64_t window) {
  const int64_t reach = window / 2;
  for (int64_t row = 0; row < layout.blocks(); ++row) {
    layout.fill(head, row, row + 1, row - reach, row + reach + 1);
  }
}

void check(const DenseLayout&, int64_t) {}
void build(const DenseLayout&, BlockLayout& layout, int64_t head, const Rng&) {
  layout.fill(head, 0, layout.blocks(), 0, layout.blocks());
}

void check(const FixedLayout& rule, int64_t) {
  check_positive(rule.num_local_blocks, "num_local_blocks");
  check_positive(rule.num_global_blocks, "num_global_blocks");
  check_positive(rule.num_different_global_patterns, "num_different_global_patterns");
  check_global_rows(rule.global_rows, rule.direction);
  if (rule.num_local_blocks % rule.num_global_blocks != 0) {
    throw ConfigError(
        fmt::format("sparse_attention: num_local_blocks {} is no multiple of num_global_blocks {}",
                    rule.num_local_blocks, rule.num_global_blocks));
  }
  if (rule.num_different_global_patterns > 1 && rule.heads == HeadLayout::kShared) {
    throw ConfigError(
        "sparse_attention: num_different_global_patterns above 1 needs different_layout_per_head");
  }
  const int64_t patterns = rule.num_local_blocks / rule.num_global_blocks;
  if (rule.num_different_global_patterns > patterns) {
    throw ConfigError(fmt::format(
        "sparse_attention: num_different_global_patterns is {}, at most {} fit a local window",
        rule.num_different_global_patterns, patterns));
  }
}

void build(const FixedLayout& rule, BlockLayout& layout, int64_t head, const Rng&) {
  const int64_t blocks = layout.blocks(), window = rule.num_local_blocks;
  for (int64_t first = 0; first < blocks; first += window) {
    local_window(layout, head, first, first + window, rule.direction);
  }
  const auto global = [&](int64_t first) {
    const int64_t last = std::min(first + rule.num_global_blocks, blocks);
    // A sequence shorter than the global blocks: the reference's slices count from the end then.
    if (first < 0) first = std::max<int64_t>(first + blocks, 0);
    layout.fill(head, rule.direction == kUni ? first : 0, blocks, first, last);
    if (rule.global_rows == GlobalRows::kOn) layout.fill(head, first, last, 0, blocks);
  };
  const int64_t offset =
      window - (1 + head % rule.num_different_global_patterns) * rule.num_global_blocks;
  const int64_t whole = blocks - blocks % window;
  for (int64_t first = offset; first < whole; first += window) global(first);
  // A short last window keeps its global blocks inside the sequence.
  if (whole < blocks) global(std::min(whole + offset, blocks - rule.num_global_blocks));
}

void check(const VariableLayout& rule, int64_t blocks) {
  check_fits(blocks, rule.num_random_blocks, "num_random_blocks");
  check_global_rows(rule.global_rows, rule.direction);
  check_global(rule.global);
  if (rule.local_window_blocks.empty()) {
    throw ConfigError("sparse_attention: local_window_blocks is empty");
  }
  for (const int64_t window : rule.local_window_blocks) {
    check_positive(window, "an entry of local_window_blocks");
  }
}

void build(const VariableLayout& rule, BlockLayout& layout, int64_t head, const Rng& rng) {
  const int64_t blocks = layout.blocks();
  for (int64_t row = 0; row < blocks; ++row) {
    const Rng draw = rng.derive(static_cast<uint64_t>(row));
    for (const int64_t column : random_subset(draw, blocks, rule.num_random_blocks)) {
      layout.set(head, row, column);
    }
  }
  const auto& windows = rule.local_window_blocks;
  int64_t first = 0;
  for (size_t i = 0; first < blocks; ++i) {
    const int64_t window = windows[std::min(i, windows.size() - 1)];
    local_window(layout, head, first, first + window, rule.direction);
    first += window;
  }
  for_each_global(rule.global, blocks, [&](int64_t from, int64_t to) {
    layout.fill(head, rule.direction == kUni ? from : 0, blocks, from, to);
    if (rule.global_rows == GlobalRows::kOn) layout.fill(head, from, to, 0, blocks);
  });
}

void check(const BigBirdLayout& rule, int64_t blocks) {
  check_fits(blocks, rule.num_random_blocks, "num_random_blocks");
  check_fits(blocks, rule.num_sliding_window_blocks, "num_sliding_window_blocks");
  check_fits(blocks, rule.num_global_blocks, "num_global_blocks");
}

void build(const BigBirdLayout& rule, BlockLayout& layout, int64_t head, const Rng& rng) {
  const int64_t blocks = layout.blocks();
  for (int64_t row = 0; row < blocks; ++row) {
    const Rng draw = rng.derive(static_cast<uint64_t>(row));
    const int64_t visible = rule.direction == kUni ? row + 1 : blocks;
    const int64_t count = std::min(rule.num_random_blocks, visible);
    for (const int64_t column : random_subset(draw, visible, count)) layout.set(head, row, column);
  }
  sliding_window(layout, head, rule.num_sliding_window_blocks);
  layout.fill(head, 0, rule.num_global_blocks, 0, blocks);
  layout.fill(head, 0, blocks, 0, rule.num_global_blocks);
  if (rule.direction == kUni) layout.keep_lower_triangle(head);
}

void check(const BsLongformerLayout& rule, int64_t blocks) {
  check_fits(blocks, rule.num_sliding_window_blocks, "num_sliding_window_blocks");
  check_global(rule.global);
}

void build(const BsLongformerLayout& rule, BlockLayout& layout, int64_t head, const Rng&) {
  const int64_t blocks = layout.blocks();
  sliding_window(layout, head, rule.num_sliding_window_blocks);
  for_each_global(rule.global, blocks, [&](int64_t from, int64_t to) {
    layout.fill(head, from, to, 0, blocks);
    layout.fill(head, 0, blocks, from, to);
  });
  if (rule.direction == kUni) layout.keep_lower_triangle(head);
}

void check(const SlidingWindowLayout& rule, int64_t blocks) {
  check_fits(blocks, rule.num_sliding_window_blocks, "num_sliding_window_blocks");
}

void build(const SlidingWindowLayout& rule, BlockLayout& layout, int64_t head, const Rng&) {
  sliding_window(layout, head, rule.num_sliding_window_blocks);
  if (rule.direction == kUni) layout.keep_lower_triangle(head);
}

template <class Rule>
HeadLayout heads_of(const Rule& rule) {
  if constexpr (requires { rule.heads; }) return rule.heads;
  return HeadLayout::kShared;
}

}  // namespace

BlockLayout sparse_layout(const SparseLayoutRule& rule, int64_t heads, int64_t length,
                          int64_t block, const Rng& rng) {
  check_positive(heads, "the number of heads");
  check_positive(block, "block");
  if (length < 1 || length % block != 0) {
    throw ConfigError(fmt::format(
        "sparse_attention: a sequence of {} tokens is no multiple of the block size {}; pad it",
        length, block));
  }
  BlockLayout layout(heads, length / block);
  std::visit(
      [&](const auto& chosen) {
        check(chosen, layout.blocks());
        const bool shared = heads_of(chosen) == HeadLayout::kShared;
        for (int64_t head = 0; head < (shared ? 1 : heads); ++head) {
          build(chosen, layout, head, rng.derive(static_cast<uint64_t>(head)));
        }
        for (int64_t head = 1; shared && head < heads; ++head) layout.copy_head(0, head);
      },
      rule);
  return layout;
}

}  // namespace ds
