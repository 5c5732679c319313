// Which keys a query of attention sees. AttentionMask says it to the fronts; SeenKeys, which is
// pure and runs on devices too, answers it for one query and a tile of keys, and every half asks
// it: the loops over tiles are the same for all masks.
#pragma once

#include <algorithm>
#include <bit>

#include "core/device/tensor.h"

namespace ds::kernels {

inline constexpr int64_t kAnyDistance = int64_t{1} << 40;

// A query sees the keys that all of these let it see. Positions count from the beginning of a
// sequence.
struct AttentionMask {
  // Keys before a query's own position that it sees, and keys behind it. A sliding window of W keys
  // that ends with the query's own (Mistral, arXiv 2310.06825) has W - 1 on its left.
  int64_t left = kAnyDistance;
  int64_t right = 0;
  // int32 [batch, T, 2]: the query of a row sees positions [begin, end) alone. Documents that share
  // a row, padding at its end, and a prefix that sees itself whole are ranges.
  Tensor ranges{};
  // uint8 [1 or heads, ceil(T / block), ceil(T / block)]: 1 if queries of a block see the keys of
  // another. It has one matrix for all heads, or one for each.
  Tensor layout{};
  int64_t block = 0;  // a multiple of 16; with a layout

  bool is_causal() const {
    return left >= kAnyDistance && right == 0 && !ranges.defined() && !layout.defined();
  }
  bool is_positional() const { return !ranges.defined() && !layout.defined(); }
  // The same for sequences of `length`: a distance that reaches beyond them is any.
  AttentionMask within(int64_t length) const;
};

inline AttentionMask full_mask() { return {.right = kAnyDistance}; }
inline AttentionMask window_mask(int64_t keys) { return {.left = keys - 1}; }

namespace detail {

inline constexpr int64_t kTileKeys = 64;  // of a word of bits
inline constexpr int32_t kFar = 1 << 30;  // kAnyDistance, where sequences are shorter than it

// Int: of kernels on devices, which have few registers, 32 bits.
template <class Int>
struct KeyRange {
  Int begin = 0;
  Int end = 0;
  constexpr bool is_empty() const { return begin >= end; }
};
using KeySpan = KeyRange<int64_t>;

// Keys of a tile up to the last one of these bits.
constexpr int64_t last_seen(uint64_t bits) { return kTileKeys - std::countl_zero(bits); }

// The lowest `count` bits, of which there are none below 0 and all from 64 on.
template <class Int>
constexpr uint64_t low_bits(Int count) {
  if (count <= 0) return 0;
  return count >= kTileKeys ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

// AttentionMask without tensors, as halves and kernels are given it. Queries and keys are rows, of
// which there are fewer than kFar.
struct SeenKeys {
  int32_t left = kFar;
  int32_t right = 0;
  int32_t query_position = 0, key_position = 0;  // of the first ones, in their sequence
  const int32_t* ranges = nullptr;
  int32_t length = 0;  // rows of a sequence in `ranges`
  const uint8_t* layout = nullptr;
  int32_t layout_heads = 0, blocks = 0, block = 0;

  // The row of the first query, among those of the keys.
  constexpr int32_t shift() const { return query_position - key_position; }
  // What positions and ranges let a query see of `keys` keys.
  template <class Int>
  constexpr KeyRange<Int> span(int64_t sample, Int query, Int keys) const {
    const Int own = query + shift();
    Int begin = std::max<Int>(own - left, 0);
    Int end = std::min<Int>(own + right + 1, keys);
    if (ranges != nullptr) {
      const int32_t* const row = ranges + 2 * (sample * length + query_position + query);
      begin = std::max<Int>(begin, row[0] - key_position);
      end = std::min<Int>(end, row[1] - key_position);
    }
    return {begin, end};
  }
  // Pairs that positions let meet; ranges and layouts, which may lie on a device, are not looked
  // at.
  constexpr double pairs(int64_t queries, int64_t keys) const {
    return keys_before(int64_t{shift()} + right + 1, queries, keys) -
           keys_before(int64_t{shift()} - left, queries, keys);
  }
  // Bit j says whether the query sees key `first` + j; of keys from `keys` on it sees none.
  template <class Int>
  constexpr uint64_t tile(int64_t sample, int64_t head, Int query, Int first, Int keys) const {
    const KeyRange<Int> seen = span(sample, query, keys);
    const uint64_t bits = low_bits(seen.end - first) & ~low_bits(seen.begin - first);
    return layout == nullptr || bits == 0 ? bits : bits & layout_bits(head, query, first);
  }

 private:
  // The sum over all queries of the keys in front of row query + `reach`.
  static constexpr double keys_before(int64_t reach, int64_t queries, int64_t keys) {
    const int64_t some = std::clamp<int64_t>(-reach, 0, queries);  // those before it have none
    const int64_t all = std::clamp<int64_t>(keys - reach, some, queries);  // and from here on, all
    const auto rows = static_cast<double>(all - some);
    const auto mean = static_cast<double>(reach) + static_cast<double>(some + all - 1) / 2;
    return rows * (all > some ? mean : 0) + static_cast<double>((queries - all) * keys);
  }
  template <class Int>
  constexpr uint64_t layout_bits(int64_t head, Int query, Int first) const {
    const Int row_block = (query_position + query) / block;
    const uint8_t* const row =
        layout + ((layout_heads > 1 ? head : 0) * blocks + row_block) * blocks;
    const Int position = key_position + first;
    uint64_t bits = 0;
    for (Int at = position / block; at < blocks && at * block < position + kTileKeys; ++at) {
      if (row[at] == 0) continue;
      bits |= low_bits((at + 1) * block - position) & ~low_bits(at * block - position);
    }
    return bits;
  }
};

// The queries of a block of rows in one head, and what they see together.
template <class Int>
struct SeenByRowsOf {
  SeenKeys seen;
  int64_t sample = 0, head = 0;
  Int first = 0, rows = 0;  // queries
  Int keys = 0;

  // Holds the keys of all rows, and may hold others.
  constexpr KeyRange<Int> span() const {
    if (seen.ranges == nullptr) {
      const Int own = first + seen.shift();
      const KeyRange<Int> all{std::max<Int>(own - seen.left, 0),
                              std::min<Int>(own + rows + seen.right, keys)};
      return all.is_empty() ? KeyRange<Int>{} : all;
    }
    KeyRange<Int> all = seen.span(sample, first, keys);
    for (Int i = 1; i < rows; ++i) {
      const KeyRange<Int> row = seen.span<Int>(sample, first + i, keys);
      if (row.is_empty()) continue;
      all = all.is_empty()
                ? row
                : KeyRange<Int>{std::min(all.begin, row.begin), std::max(all.end, row.end)};
    }
    return all.is_empty() ? KeyRange<Int>{} : all;
  }
  // The tiles [begin, end) that hold its keys.
  constexpr KeyRange<Int> tiles() const {
    const KeyRange<Int> all = span();
    return {all.begin / kTileKeys, (all.end + kTileKeys - 1) / kTileKeys};
  }
  // What row i sees of the tile of keys from `key` on: nothing if there is no such row.
  constexpr uint64_t tile(Int i, Int key) const {
    return i < rows ? seen.tile<Int>(sample, head, first + i, key, keys) : 0;
  }
};
using SeenByRows = SeenByRowsOf<int64_t>;

}  // namespace detail
}  // namespace ds::kernels
