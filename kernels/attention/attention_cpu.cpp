// Attention on the CPU. A head is one item of work: its keys and values are copied to fp32
// panels once, then blocks of queries run over blocks of keys. Workspaces are O(T) per thread and
// live as long as the stream.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_cpu.cpp"
#include "kernels/attention/attention_cpu.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/device/dispatch.h"
#include "core/values/index.h"
#include "kernels/attention/attention_cpu_bf16.h"
#include "kernels/attention/attention_items.h"
#include "kernels/attention/attention_tiles.inl"
#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

// Each row of a cache of keys and values is read once, far from the one before, so that the
// hardware does not look ahead.
constexpr int64_t kKeysAtOnce = 4;
constexpr int64_t kAheadKeys = 16;

// scores[s] = scale q . keys[s], for kKeys rows that are `stride` apart.
template <int64_t kKeys, class T>
HWY_INLINE void score_keys(const float* q, const T* keys, int64_t stride, int64_t dim, float scale,
                           float* scores) {
  const Lanes d;
  F32Vector sum[kKeys];
  for (auto& total : sum) total = hn::Zero(d);
  for (int64_t i = 0; i < dim; i += lane_count()) {
    const int64_t count = at_most_lanes(dim - i);
    const auto x = get(d, q + i, count);
#pragma GCC unroll 4
    for (int64_t s = 0; s < kKeys; ++s) {
      __builtin_prefetch(keys + (s + kAheadKeys) * stride + i);
      sum[s] = hn::MulAdd(x, get(d, keys + s * stride + i, count), sum[s]);
    }
  }
  for (int64_t s = 0; s < kKeys; ++s) scores[s] = sum_lanes(d, sum[s]) * scale;
}

// out[0..kVectors vectors) = sum over s of weights[s] values[s], which stays in registers.
template <int kVectors, class T>
HWY_INLINE void weigh_values(const float* weights, const T* values, int64_t stride, int64_t count,
                             float* out) {
  const Lanes d;
  F32Vector sum[kVectors];
  for (auto& total : sum) total = hn::Zero(d);
  for (int64_t s = 0; s < count; ++s) {
    const auto weight = hn::Set(d, weights[s]);
    const T* row = values + s * stride;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      __builtin_prefetch(row + kAheadKeys * stride + v * lane_count());
      sum[v] = hn::MulAdd(weight, load(d, row + v * lane_count()), sum[v]);
    }
  }
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, out + v * lane_count());
}

// The same of the last columns, fewer than a vector.
template <class T>
HWY_INLINE void weigh_last_values(const float* weights, const T* values, int64_t stride,
                                  int64_t count, int64_t columns, float* out) {
  const Lanes d;
  auto sum = hn::Zero(d);
  for (int64_t s = 0; s < count; ++s) {
    sum = hn::MulAdd(hn::Set(d, weights[s]), load_n(d, values + s * stride, columns), sum);
  }
  store_n(sum, d, out, columns);
}

// Scores become weights e^(s - most); returns their sum. Behind them, up to whole vectors, stands
// -infinity, whose weight is 0.
HWY_INLINE float weights_of(float* scores, int64_t count) {
  const Lanes d;
  auto top = hn::LoadU(d, scores);
  for (int64_t s = lane_count(); s < count; s += lane_count()) {
    top = hn::Max(top, hn::LoadU(d, scores + s));
  }
  const auto most = hn::Set(d, max_lanes(d, top));
  auto sum = hn::Zero(d);
  for (int64_t s = 0; s < count; s += lane_count()) {
    const auto weight = exp(d, hn::Sub(hn::LoadU(d, scores + s), most));
    hn::StoreU(weight, d, scores + s);
    sum = hn::Add(sum, weight);
  }
  return sum_lanes(d, sum);
}

// Scores of one query, which have been scaled.
HWY_INLINE void cap_scores(float softcap, float* scores, int64_t count) {
  if (softcap == 0) return;
  const Lanes d;
  for (int64_t s = 0; s < count; s += lane_count()) {
    const int64_t lanes = at_most_lanes(count - s);
    const auto t = tanh(d, hn::Mul(get(d, scores + s, lanes), hn::Set(d, 1.0F / softcap)));
    put(hn::Mul(t, hn::Set(d, softcap)), d, scores + s, lanes);
  }
}

// One query against `count` keys whose rows are `stride` apart.
template <class T>
void attend(const detail::DecodeOperands& a, const T* q, const T* keys, const T* values,
            int64_t count, T* y, std::vector<float>& scratch) {
  const int64_t dim = a.shape.head_dim, stride = a.shape.kv_heads * dim;
  const float scale = a.scale;
  const int64_t lanes = lane_count();
  const int64_t padded = round_up(count, lanes);
  scratch.assign(to_size(padded + 2 * dim), -std::numeric_limits<float>::infinity());
  float* scores = scratch.data();
  float* query = scores + padded;
  float* out = query + dim;
  for (int64_t i = 0; i < dim; ++i) query[i] = static_cast<float>(q[i]);
  int64_t s = 0;
  for (; s + kKeysAtOnce <= count; s += kKeysAtOnce) {
    score_keys<kKeysAtOnce>(query, keys + s * stride, stride, dim, scale, scores + s);
  }
  for (; s < count; ++s) score_keys<1>(query, keys + s * stride, stride, dim, scale, scores + s);
  cap_scores(a.softcap, scores, count);
  const float total = weights_of(scores, count);
  int64_t i = 0;
  for (; i + 4 * lanes <= dim; i += 4 * lanes) {
    weigh_values<4>(scores, values + i, stride, count, out + i);
  }
  for (; i + lanes <= dim; i += lanes) {
    weigh_values<1>(scores, values + i, stride, count, out + i);
  }
  if (i < dim) weigh_last_values(scores, values + i, stride, count, dim - i, out + i);
  store_row(out, 1.0F / total, y, dim);
}

// A Head says where the operands of one head lie.
template <class T>
struct Head {
  const T* queries;  // row t at t * packed()
  const T* keys;
  const T* values;
  int64_t stride;
};

template <class T>
Head<T> head_of(const detail::AttentionOperands& a, int64_t b, int64_t h) {
  const AttentionShape& s = a.shape;
  const T* rows = a.qkv.data<T>() + b * s.length * s.packed();
  const T* keys = rows + (s.heads + h / (s.heads / s.kv_heads)) * s.head_dim;
  return {rows + h * s.head_dim, keys, keys + s.kv_heads * s.head_dim, s.packed()};
}

// One query head: item = b * heads + h.
template <class T>
void forward_head(const detail::AttentionOperands& a, int64_t item, float* workspace) {
  const AttentionShape& s = a.shape;
  const Head<T> head = head_of<T>(a, item / s.heads, item % s.heads);
  const HeadPanels p = head_panels(s.length, s.head_dim);
  float* keys = workspace;
  float* values = keys + p.blocks * kBlock * p.dim;
  float* query = values + p.blocks * p.block_floats();
  float* scores = query + kBlock * p.dim;
  float* out = scores + kBlock * kBlock;
  for (int64_t block = 0; block < p.blocks; ++block) {
    pack_by_depth(p, head.keys, head.stride, block, keys + block * kBlock * p.dim);
    pack_by_row(p, head.values, head.stride, block, values + block * p.block_floats());
  }
  const ScoreRule rule{a.scale, a.softcap};
  T* const y = a.y.data<T>();
  float* const log_sum_exp = a.log_sum_exp.data<float>() + item * s.length;
  for (int64_t block = 0; block < p.blocks; ++block) {
    const int64_t rows = rows_in(p, block);
    const detail::SeenByRows seen{a.seen,         item / s.heads, item % s.heads,
                                  block * kBlock, rows,           s.length};
    const auto [first, end] = seen.tiles();
    float most[kBlock];
    float total[kBlock] = {};
    std::fill(most, most + kBlock, -std::numeric_limits<float>::infinity());
    std::fill(out, out + p.block_floats(), 0.0F);
    pack_left(p, head.queries, head.stride, block, query);
    for (int64_t key = first; key < end; ++key) {
      const Extent extent = extent_of(a.seen, key, block);
      block_scores(query, keys + key * kBlock * p.dim, p.dim, scores, extent);
      rule.cap(scores, nullptr);
      for (int64_t i = 0; i < kBlock; ++i) {
        const uint64_t visible = seen.tile(i, key * kBlock);
        float* row = scores + i * kBlock;
        const float shrink = online_softmax(row, visible, rule.factor(), &most[i], &total[i]);
        if (key > first && shrink != 1.0F) scale_row(shrink, out + i * p.width, p.width);
        if (a.dropout.p > 0 && visible != 0) {
          const int64_t number = item * s.length + block * kBlock + i;
          detail::drop_probabilities(a, number, key * kBlock, detail::last_seen(visible), row);
        }
      }
      add_weighted(scores, values + key * p.block_floats(), p.width, out, p.width, extent);
    }
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t t = block * kBlock + i;
      const int64_t at = (item / s.heads * s.length + t) * s.heads + item % s.heads;
      const float factor = total[i] == 0 ? 0.0F : 1.0F / total[i];
      store_row(out + i * p.width, factor, y + at * p.dim, p.dim);
      log_sum_exp[t] = most[i] + std::log(total[i]);
    }
  }
}

// What the backward of one key-value head keeps while its query heads pass by.
struct BackwardPanels {
  HeadPanels p;
  float *keys, *values;       // for products over the head dimension
  float* key_rows;            // for products over keys
  float *dkeys, *dvalues;     // [blocks * kBlock, width]
  float *query, *query_rows;  // of the block at hand, as left and right operand
  float *dy, *dy_rows;
  float *scores, *products;  // [blocks][kBlock, kBlock] of the block of queries at hand
  float* slopes;             // the same, if scores are capped
  float* dquery;

  float* slopes_of(int64_t key) const {
    return slopes == nullptr ? nullptr : slopes + key * kBlock * kBlock;
  }
};

BackwardPanels backward_panels(const detail::AttentionOperands& a, float* workspace) {
  const AttentionShape& s = a.shape;
  BackwardPanels b{};
  b.p = head_panels(s.length, s.head_dim);
  const auto take = [&](int64_t floats) {
    float* start = workspace;
    workspace += floats;
    return start;
  };
  b.keys = take(b.p.blocks * kBlock * b.p.dim);
  b.values = take(b.p.blocks * kBlock * b.p.dim);
  b.key_rows = take(b.p.blocks * b.p.block_floats());
  b.dkeys = take(b.p.blocks * b.p.block_floats());
  b.dvalues = take(b.p.blocks * b.p.block_floats());
  b.query = take(kBlock * b.p.dim);
  b.query_rows = take(b.p.block_floats());
  b.dy = take(kBlock * b.p.dim);
  b.dy_rows = take(b.p.block_floats());
  b.scores = take(b.p.blocks * kBlock * kBlock);
  b.products = take(b.p.blocks * kBlock * kBlock);
  b.slopes = a.softcap > 0 ? take(b.p.blocks * kBlock * kBlock) : nullptr;
  b.dquery = take(b.p.block_floats());
  return b;
}

// A block of queries of one head: what its rows need to know.
struct QueryRows {
  const detail::AttentionOperands& a;
  int64_t number;  // of the first row among all queries of all heads of the batch
  detail::SeenByRows seen;
  ScoreRule rule;

  void drop(int64_t i, int64_t key, uint64_t visible, float* values) const {
    if (a.dropout.p == 0 || visible == 0) return;
    detail::drop_probabilities(a, number + i, key * kBlock, detail::last_seen(visible), values);
  }
};

// Weights p and their gradients dp of one block of queries against all its keys, kept for the
// second pass; returns delta = sum(p dp) / sum(p) of every row, where sum(p), which is 1 but for
// rounding, is left out if a sink has the rest of it. It is taken from these very numbers, not from
// dy * y as in arXiv 2205.14135, so that each row of score gradients sums to zero to the last bit:
// gradients that vanish in exact arithmetic (of a bias on the keys) stay so small that an optimizer
// which divides by their size does not turn them into steps.
void backward_weights(const BackwardPanels& b, const QueryRows& q, int64_t block, float* delta) {
  const HeadPanels& p = b.p;
  const float* lse = q.a.log_sum_exp.data<float>() + q.number;
  RowSums sums[kBlock];
  const auto [first, end] = q.seen.tiles();
  for (int64_t key = first; key < end; ++key) {
    const Extent extent = extent_of(q.a.seen, key, block);
    float* scores = b.scores + key * kBlock * kBlock;
    float* products = b.products + key * kBlock * kBlock;
    block_scores(b.query, b.keys + key * kBlock * p.dim, p.dim, scores, extent);
    block_scores(b.dy, b.values + key * kBlock * p.dim, p.dim, products, extent);
    q.rule.cap(scores, b.slopes_of(key));
    for (int64_t i = 0; i < kBlock; ++i) {
      const uint64_t visible = q.seen.tile(i, key * kBlock);
      float* row = products + i * kBlock;
      softmax_row_of(scores + i * kBlock, row, visible, q.rule.factor(),
                     visible != 0 ? lse[i] : 0.0F);
      q.drop(i, key, visible, row);
      if (visible != 0) add_row_sums(scores + i * kBlock, row, sums[i]);
    }
  }
  for (int64_t i = 0; i < kBlock; ++i) {
    const double total = q.a.has_sink ? 1 : sums[i].total;
    delta[i] = total == 0 ? 0.0F : static_cast<float>(sums[i].weighted / total);
  }
}

// The second pass: score gradients, and what they add to the gradients of queries, keys and values.
void backward_products(const BackwardPanels& b, const QueryRows& q, int64_t block,
                       const float* delta) {
  const HeadPanels& p = b.p;
  const auto [first, end] = q.seen.tiles();
  for (int64_t key = first; key < end; ++key) {
    const Extent extent = extent_of(q.a.seen, key, block);
    float* scores = b.scores + key * kBlock * kBlock;
    float* products = b.products + key * kBlock * kBlock;
    for (int64_t i = 0; i < kBlock; ++i) {
      gradient_row(scores + i * kBlock, products + i * kBlock, q.rule.factor(), delta[i]);
    }
    q.rule.uncap(b.slopes_of(key), products);
    for (int64_t i = 0; q.a.dropout.p > 0 && i < kBlock; ++i) {
      q.drop(i, key, q.seen.tile(i, key * kBlock), scores + i * kBlock);
    }
    const int64_t at = key * p.block_floats();
    add_weighted_transposed(scores, b.dy_rows, p.width, b.dvalues + at, p.width, extent);
    add_weighted_transposed(products, b.query_rows, p.width, b.dkeys + at, p.width, extent);
    add_weighted(products, b.key_rows + at, p.width, b.dquery, p.width, extent);
  }
}

// One query head, its keys' and values' gradients added to the panels.
template <class T>
void backward_head(const detail::AttentionOperands& a, int64_t batch, int64_t h,
                   const BackwardPanels& b) {
  const AttentionShape& s = a.shape;
  const HeadPanels& p = b.p;
  const Head<T> head = head_of<T>(a, batch, h);
  const int64_t out_stride = s.heads * p.dim;
  const int64_t out_at = batch * s.length * out_stride + h * p.dim;
  const T* dy = a.dy.data<T>() + out_at;
  T* dquery = a.dqkv.data<T>() + batch * s.length * s.packed() + h * p.dim;
  for (int64_t block = 0; block < p.blocks; ++block) {
    const int64_t rows = rows_in(p, block);
    const int64_t first = block * kBlock;
    pack_left(p, head.queries, head.stride, block, b.query);
    pack_by_row(p, head.queries, head.stride, block, b.query_rows);
    pack_left(p, dy, out_stride, block, b.dy);
    pack_by_row(p, dy, out_stride, block, b.dy_rows);
    std::fill(b.dquery, b.dquery + p.block_floats(), 0.0F);
    const QueryRows q{a,
                      (batch * s.heads + h) * s.length + first,
                      {a.seen, batch, h, first, rows, s.length},
                      {a.scale, a.softcap}};
    float delta[kBlock];
    backward_weights(b, q, block, delta);
    backward_products(b, q, block, delta);
    for (int64_t i = 0; i < rows; ++i) {
      store_row(b.dquery + i * p.width, 1.0F, dquery + (first + i) * s.packed(), p.dim);
    }
  }
}

// One key-value head: item = b * kv_heads + kv.
template <class T>
void backward_group(const detail::AttentionOperands& a, int64_t item, float* workspace) {
  const AttentionShape& s = a.shape;
  const int64_t batch = item / s.kv_heads;
  const int64_t kv = item % s.kv_heads;
  const int64_t group = s.heads / s.kv_heads;
  const BackwardPanels b = backward_panels(a, workspace);
  const HeadPanels& p = b.p;
  const Head<T> head = head_of<T>(a, batch, kv * group);
  for (int64_t block = 0; block < p.blocks; ++block) {
    pack_by_depth(p, head.keys, head.stride, block, b.keys + block * kBlock * p.dim);
    pack_by_depth(p, head.values, head.stride, block, b.values + block * kBlock * p.dim);
    pack_by_row(p, head.keys, head.stride, block, b.key_rows + block * p.block_floats());
  }
  std::fill(b.dkeys, b.dkeys + p.blocks * p.block_floats(), 0.0F);
  std::fill(b.dvalues, b.dvalues + p.blocks * p.block_floats(), 0.0F);
  for (int64_t h = kv * group; h < (kv + 1) * group; ++h) backward_head<T>(a, batch, h, b);
  T* rows = a.dqkv.data<T>() + batch * s.length * s.packed();
  for (int64_t t = 0; t < s.length; ++t) {
    T* dkey = rows + t * s.packed() + (s.heads + kv) * p.dim;
    store_row(b.dkeys + t * p.width, 1.0F, dkey, p.dim);
    store_row(b.dvalues + t * p.width, 1.0F, dkey + s.kv_heads * p.dim, p.dim);
  }
}

}  // namespace

void attention_item(const detail::AttentionOperands& a, int64_t item, float* workspace) {
  on_float(a.qkv.dtype(), [&]<class T>() { forward_head<T>(a, item, workspace); });
}

void attention_backward_item(const detail::AttentionOperands& a, int64_t item, float* workspace) {
  on_float(a.qkv.dtype(), [&]<class T>() { backward_group<T>(a, item, workspace); });
}

// Floats of one thread's workspace; the backward's serves both.
size_t attention_workspace(const detail::AttentionOperands& a) {
  const HeadPanels p = head_panels(a.shape.length, a.shape.head_dim);
  const int64_t tiles = a.softcap > 0 ? 3 : 2;
  const int64_t per_block = 2 * kBlock * p.dim + 3 * p.block_floats() + tiles * kBlock * kBlock;
  const int64_t once = 2 * kBlock * p.dim + 3 * p.block_floats() + kBlock * kBlock;
  return to_size(p.blocks * per_block + once);
}

void attention_decode_items(const detail::DecodeOperands& a, int64_t begin, int64_t end) {
  const AttentionShape& s = a.shape;
  on_float(a.q.dtype(), [&]<class T>() {
    std::vector<float> scratch;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t b = item / s.heads;
      const int64_t kv = item % s.heads / (s.heads / s.kv_heads);
      const int64_t at = ((b * a.capacity + a.first_key) * s.kv_heads + kv) * s.head_dim;
      attend(a, a.q.data<T>() + item * s.head_dim, a.keys.data<T>() + at, a.values.data<T>() + at,
             s.length - a.first_key, a.y.data<T>() + item * s.head_dim, scratch);
    }
  });
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels {
namespace {

DS_SIMD_EXPORT(attention_item);
DS_SIMD_EXPORT(attention_backward_item);
DS_SIMD_EXPORT(attention_workspace);
DS_SIMD_EXPORT(attention_decode_items);

// Query heads that one item takes: all that share a head of keys, which is then packed once, where
// that leaves enough items for the threads to share.
int64_t heads_at_once(const AttentionShape& shape, int threads) {
  return shape.batch * shape.kv_heads >= int64_t{4} * threads ? shape.heads / shape.kv_heads : 1;
}

void require_bf16_dots(const detail::AttentionOperands& operands) {
  if (!has_bf16_dots()) {
    throw Unsupported("attention: products of bf16 need AVX512-BF16, which this CPU has not");
  }
  DS_CHECK(operands.qkv.dtype() == DType::kBF16, "attention: products of bf16 of {} operands",
           name_of(operands.qkv.dtype()));
  DS_CHECK(operands.softcap == 0, "attention: products of bf16 cap no scores, and {} is their cap",
           operands.softcap);
}

bool takes_bf16_dots(const detail::AttentionOperands& operands) {
  return operands.qkv.dtype() == DType::kBF16 && operands.softcap == 0 && prefers_bf16_dots();
}

}  // namespace

namespace detail {

void attention_forward_cpu(Stream& stream, const AttentionOperands& operands) {
  const auto run = takes_bf16_dots(operands) ? attention_forward_bf16 : attention_forward_fp32;
  run(stream, operands);
}

void attention_backward_cpu(Stream& stream, const AttentionOperands& operands) {
  const auto run = takes_bf16_dots(operands) ? attention_backward_bf16 : attention_backward_fp32;
  run(stream, operands);
}

void attention_forward_fp32(Stream& stream, const AttentionOperands& operands) {
  const AttentionShape& shape = operands.shape;
  const auto run = DS_SIMD(attention_item);
  for_each_item(stream, DS_SIMD(attention_workspace)(operands), shape.batch * shape.heads,
                [&](int64_t item, float* workspace) { run(operands, item, workspace); });
}

void attention_backward_fp32(Stream& stream, const AttentionOperands& operands) {
  const AttentionShape& shape = operands.shape;
  const auto run = DS_SIMD(attention_backward_item);
  for_each_item(stream, DS_SIMD(attention_workspace)(operands), shape.batch * shape.kv_heads,
                [&](int64_t item, float* workspace) { run(operands, item, workspace); });
}

void attention_forward_bf16(Stream& stream, const AttentionOperands& operands) {
  require_bf16_dots(operands);
  const AttentionShape& shape = operands.shape;
  const int64_t heads = heads_at_once(shape, stream.pool().threads());
  for_each_item(
      stream, attention_bf16_workspace(shape), shape.batch * shape.heads / heads,
      [&](int64_t item, float* own) { attention_bf16_heads(operands, item * heads, heads, own); });
}

void attention_backward_bf16(Stream& stream, const AttentionOperands& operands) {
  require_bf16_dots(operands);
  const AttentionShape& shape = operands.shape;
  for_each_item(
      stream, attention_bf16_workspace(shape), shape.batch * shape.kv_heads,
      [&](int64_t item, float* own) { attention_bf16_backward_item(operands, item, own); });
}

void attention_decode_cpu(Stream& stream, const DecodeOperands& operands) {
  const AttentionShape& shape = operands.shape;
  stream.pool().parallel_for(shape.batch * shape.heads, 1, [&](int64_t begin, int64_t end) {
    DS_SIMD(attention_decode_items)(operands, begin, end);
  });
}

}  // namespace detail
}  // namespace ds::kernels
#endif  // HWY_ONCE
