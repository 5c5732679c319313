// Attention by bf16 products; see attention_cpu_bf16.h. The blocks, the two passes of the backward
// and the order of its sums are those of kernels/attention/attention_cpu.cpp.
#include "kernels/attention/attention_cpu_bf16.h"

#include "core/status/error.h"

#if defined(__x86_64__)

#include <cmath>
#include <limits>

#include "core/values/index.h"
#include "kernels/cpu/bf16_tiles.inl"

DS_BF16_DOTS_BEGIN
namespace ds::kernels {
namespace {

using namespace bf16_dots;

constexpr float kLog2E = 1.44269504F;

struct Sizes {
  int64_t length, blocks, dim;
  int64_t depth;                                        // pairs of the head dimension
  int64_t width;                                        // dim rounded up to panels
  int64_t by_depth() const { return kBlock * depth; }   // pairs of a block packed by depth
  int64_t by_row() const { return kPairRows * width; }  // pairs of a block packed by row
  int64_t block_floats() const { return kBlock * width; }
  int64_t rows_in(int64_t block) const { return std::min(kBlock, length - block * kBlock); }
};

Sizes sizes_of(const AttentionShape& s) {
  return {s.length, (s.length + kBlock - 1) / kBlock, s.head_dim, (s.head_dim + 1) / 2,
          round_up(s.head_dim, kPanel)};
}

// The workspace, handed out piece by piece. Every piece is a multiple of a cache line.
class Room {
 public:
  explicit Room(float* start) : next_(start) {}
  float* floats(int64_t count) {
    float* const start = next_;
    next_ += count;
    return start;
  }
  Pair* pairs(int64_t count) { return reinterpret_cast<Pair*>(floats(count)); }

 private:
  float* next_;
};

// Rows of one head: row t at rows + t * stride.
struct Rows {
  const BF16* rows;
  int64_t stride;
  const BF16* block(int64_t b) const { return rows + b * kBlock * stride; }
};

struct Head {
  Rows queries, keys, values;
};

Head head_of(const detail::AttentionOperands& a, int64_t batch, int64_t h) {
  const AttentionShape& s = a.shape;
  const BF16* rows = a.qkv.data<BF16>() + batch * s.length * s.packed();
  const BF16* keys = rows + (s.heads + h / (s.heads / s.kv_heads)) * s.head_dim;
  return {{rows + h * s.head_dim, s.packed()},
          {keys, s.packed()},
          {keys + s.kv_heads * s.head_dim, s.packed()}};
}

// A block of queries of one head.
struct Queries {
  const detail::AttentionOperands& a;
  int64_t number;  // of the first among all queries of all heads of the batch
  detail::SeenByRows seen;
  bool first_of_group = false;

  int64_t rows() const { return seen.rows; }
  float factor() const { return a.scale * kLog2E; }  // of scores
  // Keys that row i sees of a block.
  uint64_t visible(int64_t i, int64_t key) const { return seen.tile(i, key * kBlock); }
  Extent extent_of(int64_t key, int64_t block) const {
    return a.seen.right == 0 && key == block ? Extent::kLower : Extent::kWhole;
  }
  int64_t tiles_end() const { return round_up(rows(), kTileRows); }
  void drop(int64_t i, int64_t key, uint64_t visible, float* values) const {
    if (a.dropout.p > 0) drop_some(i, key, visible, values);
  }

  void drop_some(int64_t i, int64_t key, uint64_t visible, float* values) const {
    if (visible == 0) return;
    detail::drop_probabilities(a, number + i, key * kBlock, detail::last_seen(visible), values);
  }
};

// A block of queries of query head `item`, number b * heads + h.
Queries queries_of(const detail::AttentionOperands& a, int64_t item, int64_t block, int64_t rows) {
  const AttentionShape& s = a.shape;
  const int64_t first = block * kBlock;
  return {a,
          item * s.length + first,
          {a.seen, item / s.heads, item % s.heads, first, rows, s.length},
          item % (s.heads / s.kv_heads) == 0};
}

// Forward -----------------------------------------------------------------------------------------

struct ForwardPanels {
  Sizes s;
  Pair *keys, *values;    // of all blocks: by depth, by row
  Pair *query, *weights;  // of the block of queries at hand
  float *scores, *out;
};

ForwardPanels forward_panels(const AttentionShape& shape, float* workspace) {
  const Sizes s = sizes_of(shape);
  Room room(workspace);
  return {.s = s,
          .keys = room.pairs(s.blocks * s.by_depth()),
          .values = room.pairs(s.blocks * s.by_row()),
          .query = room.pairs(s.by_depth()),
          .weights = room.pairs(kBlock * kPairRows),
          .scores = room.floats(kBlock * kBlock),
          .out = room.floats(s.block_floats())};
}

// The online softmax of a block of queries.
struct alignas(64) Online {
  float most[kBlock];    // largest score so far
  float total[kBlock];   // sum of 2^((s - most) factor)
  float shrink[kBlock];  // of earlier sums, by the block of keys at hand
};

// Scores of the rows against block `key` become weights.
void online_softmax(const Queries& q, int64_t key, float* scores, Online& o) {
  const float factor = q.factor();
  for (int64_t i = 0; i < q.rows(); ++i) {
    o.shrink[i] = largest_of(scores + i * kBlock, q.visible(i, key));
  }
  const __m512 nothing = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  for (int64_t i = 0; i < q.rows(); i += kLanes) {
    const __m512 before = _mm512_load_ps(o.most + i);
    const __m512 now = _mm512_max_ps(before, _mm512_load_ps(o.shrink + i));
    // Rows that have seen nothing yet have no largest score to subtract.
    const __mmask16 seen = _mm512_cmp_ps_mask(now, nothing, _CMP_NEQ_UQ);
    const __m512 shrink = exp2(_mm512_mul_ps(_mm512_sub_ps(before, _mm512_maskz_mov_ps(seen, now)),
                                             _mm512_set1_ps(factor)));
    _mm512_store_ps(o.most + i, now);
    _mm512_store_ps(o.shrink + i, shrink);
    _mm512_store_ps(o.total + i, _mm512_mul_ps(_mm512_load_ps(o.total + i), shrink));
  }
  for (int64_t i = 0; i < q.tiles_end(); ++i) {
    const uint64_t visible = q.visible(i, key);
    const __m512 sum = weights_of_row(scores + i * kBlock, visible, factor, o.most[i] * factor);
    o.total[i] += _mm512_reduce_add_ps(sum);
  }
}

// y and log sum exp of one block of queries; `y` is of its first row.
void forward_block(const ForwardPanels& p, const Queries& q, int64_t block, BF16* y,
                   int64_t y_stride) {
  const Sizes& s = p.s;
  Online o{};
  std::fill(o.most, o.most + kBlock, -std::numeric_limits<float>::infinity());
  const auto [first, end] = q.seen.tiles();
  for (int64_t key = first; key < end; ++key) {
    const Extent extent = q.extent_of(key, block);
    block_scores(p.query, p.keys + key * s.by_depth(), s.depth, p.scores, q.rows(), extent);
    online_softmax(q, key, p.scores, o);
    for (int64_t i = 0; i < q.tiles_end(); ++i) {
      float* const row = p.scores + i * kBlock;
      if (key > first && o.shrink[i] != 1.0F) scale_row(o.shrink[i], p.out + i * s.width, s.width);
      q.drop(i, key, q.visible(i, key), row);
      round_row(row, p.weights + i * kPairRows);
    }
    add_weighted(p.weights, p.values + key * s.by_row(), s.width, p.out, q.rows(), extent,
                 key == first ? TileWrite::kSet : TileWrite::kAdd);
  }
  if (first >= end) std::fill_n(p.out, s.block_floats(), 0.0F);
  float* const lse = q.a.log_sum_exp.data<float>() + q.number;
  for (int64_t i = 0; i < q.rows(); ++i) {
    const float factor = o.total[i] == 0 ? 0.0F : 1.0F / o.total[i];
    store_row(p.out + i * s.width, factor, y + i * y_stride, s.dim);
    lse[i] = o.most[i] * q.a.scale + std::log(o.total[i]);
  }
}

// Backward ----------------------------------------------------------------------------------------

// What the backward of one key-value head keeps while its query heads pass by.
struct BackwardPanels {
  Sizes s;
  Pair *keys, *values, *key_rows;  // of all blocks: by depth, by depth, by row
  float *dkeys, *dvalues;          // [blocks * kBlock, width]
  Pair *query, *query_rows;        // of the block of queries at hand
  Pair *dy, *dy_rows;
  float *scores, *products;  // [blocks][kBlock, kBlock]: weights and their gradients
  Pair* weights_across;      // of one block: pairs of queries
  Pair *gradients, *gradients_across;
  float* dquery;
};

BackwardPanels backward_panels(const AttentionShape& shape, float* workspace) {
  const Sizes s = sizes_of(shape);
  Room room(workspace);
  return {.s = s,
          .keys = room.pairs(s.blocks * s.by_depth()),
          .values = room.pairs(s.blocks * s.by_depth()),
          .key_rows = room.pairs(s.blocks * s.by_row()),
          .dkeys = room.floats(s.blocks * s.block_floats()),
          .dvalues = room.floats(s.blocks * s.block_floats()),
          .query = room.pairs(s.by_depth()),
          .query_rows = room.pairs(s.by_row()),
          .dy = room.pairs(s.by_depth()),
          .dy_rows = room.pairs(s.by_row()),
          .scores = room.floats(s.blocks * kBlock * kBlock),
          .products = room.floats(s.blocks * kBlock * kBlock),
          .weights_across = room.pairs(kPairRows * kBlock),
          .gradients = room.pairs(kPairRows * kBlock),
          .gradients_across = room.pairs(kPairRows * kBlock),
          .dquery = room.floats(s.block_floats())};
}

struct alignas(64) RowSums {
  float lanes[kBlock * kLanes];
};

// Weights p and their gradients dp of one block of queries against all its keys, kept for the
// second pass; delta = sum(p dp) of every row is taken from these very numbers, not from dy * y,
// whose rounding to bf16 would shift all score gradients of a row the same way: what a mean of the
// keys multiplies.
void backward_weights(const BackwardPanels& b, const Queries& q, int64_t block, float* delta) {
  const Sizes& s = b.s;
  const float* lse = q.a.log_sum_exp.data<float>() + q.number;
  const float factor = q.factor();
  RowSums sums{};
  const auto [first, end] = q.seen.tiles();
  for (int64_t key = first; key < end; ++key) {
    const Extent extent = q.extent_of(key, block);
    float* scores = b.scores + key * kBlock * kBlock;
    float* products = b.products + key * kBlock * kBlock;
    block_scores(b.query, b.keys + key * s.by_depth(), s.depth, scores, q.rows(), extent);
    block_scores(b.dy, b.values + key * s.by_depth(), s.depth, products, q.rows(), extent);
    for (int64_t i = 0; i < q.tiles_end(); ++i) {
      const uint64_t visible = q.visible(i, key);
      const float offset = visible != 0 ? lse[i] * kLog2E : 0.0F;
      weights_of_row(scores + i * kBlock, visible, factor, offset);
      if (~visible != 0) clear_unseen(products + i * kBlock, visible);
      q.drop(i, key, visible, products + i * kBlock);
      add_products(scores + i * kBlock, products + i * kBlock, sums.lanes + i * kLanes);
    }
  }
  for (int64_t i = 0; i < q.tiles_end(); ++i) {
    delta[i] = _mm512_reduce_add_ps(_mm512_load_ps(sums.lanes + i * kLanes));
  }
}

// Every block of keys is seen by the queries of the same block first.
bool sums_begin_at_diagonal(const detail::AttentionOperands& a) {
  return a.seen.right == 0 && a.seen.ranges == nullptr && a.seen.layout == nullptr;
}

// The second pass: score gradients, but for their scale, and what they add to the gradients of
// queries, keys and values. If nothing sees keys behind it, what the first head of a group and the
// queries of the same block add to a block of keys is the first of its sum; else sums begin at
// zero.
void backward_products(const BackwardPanels& b, const Queries& q, int64_t block,
                       const float* delta) {
  const Sizes& s = b.s;
  const auto [first_key, end] = q.seen.tiles();
  for (int64_t key = first_key; key < end; ++key) {
    const Extent extent = q.extent_of(key, block);
    for (int64_t i = 0; i < q.tiles_end(); i += 2) {
      float* const p = b.scores + (key * kBlock + i) * kBlock;
      float* const dp = b.products + (key * kBlock + i) * kBlock;
      gradient_row(p, dp, delta[i]);
      gradient_row(p + kBlock, dp + kBlock, delta[i + 1]);
      q.drop(i, key, q.visible(i, key), p);
      q.drop(i + 1, key, q.visible(i + 1, key), p + kBlock);
      round_row(dp, b.gradients + i * kPairRows);
      round_row(dp + kBlock, b.gradients + (i + 1) * kPairRows);
      round_two_rows(dp, dp + kBlock, b.gradients_across + i / 2 * kBlock);
      round_two_rows(p, p + kBlock, b.weights_across + i / 2 * kBlock);
    }
    const int64_t at = key * s.block_floats();
    const bool first = sums_begin_at_diagonal(q.a) && q.first_of_group && key == block;
    const TileWrite write = first ? TileWrite::kSet : TileWrite::kAdd;
    add_weighted_transposed(b.weights_across, b.dy_rows, s.width, b.dvalues + at, q.rows(), extent,
                            write);
    add_weighted_transposed(b.gradients_across, b.query_rows, s.width, b.dkeys + at, q.rows(),
                            extent, write);
    add_weighted(b.gradients, b.key_rows + key * s.by_row(), s.width, b.dquery, q.rows(), extent,
                 key == first_key ? TileWrite::kSet : TileWrite::kAdd);
  }
}

// One query head, its keys' and values' gradients added to the panels.
void backward_head(const detail::AttentionOperands& a, int64_t batch, int64_t h,
                   const BackwardPanels& b) {
  const AttentionShape& shape = a.shape;
  const Sizes& s = b.s;
  const Head head = head_of(a, batch, h);
  const int64_t out_stride = shape.heads * s.dim;
  const Rows dy{a.dy.data<BF16>() + batch * s.length * out_stride + h * s.dim, out_stride};
  BF16* const dquery = a.dqkv.data<BF16>() + batch * s.length * shape.packed() + h * s.dim;
  for (int64_t block = 0; block < s.blocks; ++block) {
    const int64_t rows = s.rows_in(block);
    const int64_t first = block * kBlock;
    pack_by_depth(head.queries.block(block), head.queries.stride, rows, s.dim, b.query);
    pack_by_row(head.queries.block(block), head.queries.stride, rows, s.dim, b.query_rows);
    pack_by_depth(dy.block(block), dy.stride, rows, s.dim, b.dy);
    pack_by_row(dy.block(block), dy.stride, rows, s.dim, b.dy_rows);
    const Queries q = queries_of(a, batch * shape.heads + h, block, rows);
    float delta[kBlock];
    backward_weights(b, q, block, delta);
    backward_products(b, q, block, delta);
    if (q.seen.tiles().is_empty()) std::fill_n(b.dquery, s.block_floats(), 0.0F);
    for (int64_t i = 0; i < rows; ++i) {
      store_row(b.dquery + i * s.width, a.scale, dquery + (first + i) * shape.packed(), s.dim);
    }
  }
}

}  // namespace

namespace detail {

size_t attention_bf16_workspace(const AttentionShape& shape) {
  const Sizes s = sizes_of(shape);
  const int64_t per_block =
      2 * s.by_depth() + s.by_row() + 2 * s.block_floats() + 2 * kBlock * kBlock;
  const int64_t once =
      2 * s.by_depth() + 2 * s.by_row() + 3 * kPairRows * kBlock + s.block_floats();
  const int64_t forward = s.blocks * (s.by_depth() + s.by_row()) + s.by_depth() +
                          kPairRows * kBlock + kBlock * kBlock + s.block_floats();
  return to_size(std::max(s.blocks * per_block + once, forward));
}

void attention_bf16_heads(const AttentionOperands& a, int64_t first, int64_t count,
                          float* workspace) {
  const AttentionShape& shape = a.shape;
  const ForwardPanels p = forward_panels(shape, workspace);
  const Sizes& s = p.s;
  const int64_t batch = first / shape.heads;
  const Head shared = head_of(a, batch, first % shape.heads);
  for (int64_t block = 0; block < s.blocks; ++block) {
    const int64_t rows = s.rows_in(block);
    pack_by_depth(shared.keys.block(block), shared.keys.stride, rows, s.dim,
                  p.keys + block * s.by_depth());
    pack_by_row(shared.values.block(block), shared.values.stride, rows, s.dim,
                p.values + block * s.by_row());
  }
  const int64_t y_stride = shape.heads * s.dim;
  for (int64_t item = first; item < first + count; ++item) {
    const Rows queries = head_of(a, batch, item % shape.heads).queries;
    BF16* const y = a.y.data<BF16>() + batch * s.length * y_stride + item % shape.heads * s.dim;
    for (int64_t block = 0; block < s.blocks; ++block) {
      const int64_t rows = s.rows_in(block);
      pack_by_depth(queries.block(block), queries.stride, rows, s.dim, p.query);
      const Queries q = queries_of(a, item, block, rows);
      forward_block(p, q, block, y + block * kBlock * y_stride, y_stride);
    }
  }
}

void attention_bf16_backward_item(const AttentionOperands& a, int64_t item, float* workspace) {
  const AttentionShape& shape = a.shape;
  const int64_t batch = item / shape.kv_heads;
  const int64_t kv = item % shape.kv_heads;
  const int64_t group = shape.heads / shape.kv_heads;
  const BackwardPanels b = backward_panels(shape, workspace);
  const Sizes& s = b.s;
  const Head head = head_of(a, batch, kv * group);
  for (int64_t block = 0; block < s.blocks; ++block) {
    const int64_t rows = s.rows_in(block);
    const BF16* keys = head.keys.block(block);
    pack_by_depth(keys, shape.packed(), rows, s.dim, b.keys + block * s.by_depth());
    pack_by_row(keys, shape.packed(), rows, s.dim, b.key_rows + block * s.by_row());
    pack_by_depth(head.values.block(block), shape.packed(), rows, s.dim,
                  b.values + block * s.by_depth());
  }
  if (!sums_begin_at_diagonal(a)) {
    std::fill_n(b.dkeys, s.blocks * s.block_floats(), 0.0F);
    std::fill_n(b.dvalues, s.blocks * s.block_floats(), 0.0F);
  }
  for (int64_t h = kv * group; h < (kv + 1) * group; ++h) backward_head(a, batch, h, b);
  BF16* const rows = a.dqkv.data<BF16>() + batch * s.length * shape.packed();
  for (int64_t t = 0; t < s.length; ++t) {
    BF16* const dkey = rows + t * shape.packed() + (shape.heads + kv) * s.dim;
    store_row(b.dkeys + t * s.width, a.scale, dkey, s.dim);
    store_row(b.dvalues + t * s.width, 1.0F, dkey + shape.kv_heads * s.dim, s.dim);
  }
}

}  // namespace detail
}  // namespace ds::kernels
DS_BF16_DOTS_END

#else  // has_bf16_dots() is false

namespace ds::kernels::detail {
namespace {

[[noreturn]] void refuse() {
  throw Unsupported("attention: products of bf16 by AVX512-BF16 exist in builds for x86-64 alone");
}

}  // namespace

size_t attention_bf16_workspace(const AttentionShape&) { refuse(); }
void attention_bf16_heads(const AttentionOperands&, int64_t, int64_t, float*) { refuse(); }
void attention_bf16_backward_item(const AttentionOperands&, int64_t, float*) { refuse(); }

}  // namespace ds::kernels::detail
#endif
