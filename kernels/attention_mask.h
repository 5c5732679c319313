// Which keys a query of attention sees. AttentionMask says it to the fronts; SeenKeys, which is
// pure and runs on devices too, answers it for one query and a tile of keys, and every half asks
// it: the loops over tiles are the same for all masks.
#pragma once

#include <algorithm>
#include <bit>

#include "core/tensor.h"

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

struct KeySpan {
  int64_t begin = 0;
  int64_t end = 0;
  constexpr bool is_empty() const { return begin >= end; }
};

// Keys of a tile up to the last one of these bits.
constexpr int64_t last_seen(uint64_t bits) { return kTileKeys - std::countl_zero(bits); }

// The lowest `count` bits, of which there are none below 0 and all from 64 on.
constexpr uint64_t low_bits(int64_t count) {
  if (count <= 0) return 0;
  return count >= kTileKeys ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

// AttentionMask without tensors, as halves and kernels are given it. Queries and keys are rows.
struct SeenKeys {
  int64_t left = kAnyDistance;
  int64_t right = 0;
  int64_t shift = 0;  // the position of the first query, less that of the first key
  const int32_t* ranges = nullptr;
  int64_t length = 0;  // rows of a sequence in `ranges`
  const uint8_t* layout = nullptr;
  int64_t layout_heads = 0, blocks = 0, block = 0;

  constexpr bool is_causal() const {
    return left >= kAnyDistance && right == 0 && ranges == nullptr && layout == nullptr;
  }
  // What positions and ranges let a query see of `keys` keys.
  constexpr KeySpan span(int64_t sample, int64_t query, int64_t keys) const {
    const int64_t own = query + shift;
    int64_t begin = std::max<int64_t>(own - left, 0);
    int64_t end = std::min(own + right + 1, keys);
    if (ranges != nullptr) {
      const int32_t* const row = ranges + 2 * (sample * length + query);
      begin = std::max<int64_t>(begin, row[0]);
      end = std::min<int64_t>(end, row[1]);
    }
    return {begin, end};
  }
  // Pairs that positions let meet; ranges and layouts, which may lie on a device, are not looked
  // at.
  constexpr double pairs(int64_t queries, int64_t keys) const {
    return keys_before(shift + right + 1, queries, keys) - keys_before(shift - left, queries, keys);
  }
  // Bit j says whether the query sees key `first` + j; of keys from `keys` on it sees none.
  constexpr uint64_t tile(int64_t sample, int64_t head, int64_t query, int64_t first,
                          int64_t keys) const {
    const KeySpan seen = span(sample, query, keys);
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
  constexpr uint64_t layout_bits(int64_t head, int64_t query, int64_t first) const {
    const uint8_t* const row =
        layout + ((layout_heads > 1 ? head : 0) * blocks + query / block) * blocks;
    uint64_t bits = 0;
    for (int64_t at = first / block; at < blocks && at * block < first + kTileKeys; ++at) {
      if (row[at] == 0) continue;
      bits |= low_bits((at + 1) * block - first) & ~low_bits(at * block - first);
    }
    return bits;
  }
};

// The queries of a block of rows in one head, and what they see together.
struct SeenByRows {
  SeenKeys seen;
  int64_t sample = 0, head = 0;
  int64_t first = 0, rows = 0;  // queries
  int64_t keys = 0;

  // Holds the keys of all rows, and may hold others.
  constexpr KeySpan span() const {
    if (seen.ranges == nullptr) {
      const KeySpan all{std::max<int64_t>(first + seen.shift - seen.left, 0),
                        std::min(first + rows + seen.shift + seen.right, keys)};
      return all.is_empty() ? KeySpan{} : all;
    }
    KeySpan all = seen.span(sample, first, keys);
    for (int64_t i = 1; i < rows; ++i) {
      const KeySpan row = seen.span(sample, first + i, keys);
      if (row.is_empty()) continue;
      all = all.is_empty() ? row
                           : KeySpan{std::min(all.begin, row.begin), std::max(all.end, row.end)};
    }
    return all.is_empty() ? KeySpan{} : all;
  }
  // The tiles [begin, end) that hold its keys.
  constexpr KeySpan tiles() const {
    const KeySpan all = span();
    return {all.begin / kTileKeys, (all.end + kTileKeys - 1) / kTileKeys};
  }
  // What row i sees of the tile of keys from `key` on: nothing if there is no such row.
  constexpr uint64_t tile(int64_t i, int64_t key) const {
    return i < rows ? seen.tile(sample, head, first + i, key, keys) : 0;
  }
};

}  // namespace detail
}  // namespace ds::kernels
