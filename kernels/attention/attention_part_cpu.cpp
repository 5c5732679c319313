// Parts of attention on the CPU: as kernels/attention/attention_cpu.cpp, a head is one item of
// work, but what its queries have seen before is taken up again, keys have rows of their own, and
// gradients are added to fp32 sums.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_part_cpu.cpp"
#include "kernels/attention/attention_part_cpu.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>

#include "core/device/dispatch.h"
#include "core/values/index.h"
#include "kernels/attention/attention_items.h"
#include "kernels/attention/attention_operands.h"
#include "kernels/attention/attention_tiles.inl"
#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {

using detail::PartOperands;

namespace {

// A PartHead says where the queries of one head lie, and the keys and values that they look at.
struct PartHead {
  int64_t batch = 0, head = 0, keys_head = 0;
  const AttentionPart& part;

  int64_t width() const { return part.heads * part.head_dim; }
  int64_t keys_width() const { return 2 * part.kv_heads * part.head_dim; }
  int64_t packed() const { return width() + keys_width(); }
  // These are the row of the first query, and its number among the queries of all heads.
  int64_t row() const { return batch * part.queries.length + part.queries.first; }
  int64_t number() const {
    return (batch * part.heads + head) * part.queries.length + part.queries.first;
  }
  int64_t query_at() const { return row() * packed() + head * part.head_dim; }
  int64_t output_at() const { return row() * width() + head * part.head_dim; }
  int64_t key_at() const {
    return (batch * part.keys.length + part.keys.first) * keys_width() + keys_head * part.head_dim;
  }
  int64_t value_at() const { return key_at() + part.kv_heads * part.head_dim; }
};

PartHead part_head(const AttentionPart& part, int64_t batch, int64_t head) {
  return {batch, head, head / (part.heads / part.kv_heads), part};
}

// What a block of queries sees of the keys of the part.
detail::SeenByRows seen_by(const PartHead& head, const HeadPanels& q, int64_t block) {
  return {.seen = detail::seen_keys(head.part),
          .sample = head.batch,
          .head = head.head,
          .first = block * kBlock,
          .rows = rows_in(q, block),
          .keys = head.part.keys.count};
}

ScoreRule score_rule(const AttentionPart& part) {
  return {detail::scale_of(part.scale, part.head_dim), part.softcap};
}

void add_row(const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

// What the rows of a block of queries have seen: sums are those of weights e^(s - most).
struct SeenRows {
  float most[kBlock];
  float total[kBlock];

  // As it was kept, a total of 1 relative to the log-sum-exp; or nothing.
  void begin(const PartOperands& a, const PartHead& head, const HeadPanels& q, int64_t block,
             float* out) {
    std::fill(most, most + kBlock, -std::numeric_limits<float>::infinity());
    std::fill(total, total + kBlock, 0.0F);
    std::fill(out, out + q.block_floats(), 0.0F);
    if (a.write == Write::kOverwrite) return;
    const float* sums = a.log_sum_exp->data<float>() + head.number() + block * kBlock;
    const float* rows = a.y->data<float>() + head.output_at() + block * kBlock * head.width();
    for (int64_t i = 0; i < rows_in(q, block); ++i) {
      most[i] = sums[i];
      total[i] = 1;
      std::copy_n(rows + i * head.width(), q.dim, out + i * q.width);
    }
  }
  void end(const PartOperands& a, const PartHead& head, const HeadPanels& q, int64_t block,
           const float* out) const {
    float* sums = a.log_sum_exp->data<float>() + head.number() + block * kBlock;
    float* rows = a.y->data<float>() + head.output_at() + block * kBlock * head.width();
    for (int64_t i = 0; i < rows_in(q, block); ++i) {
      const float factor = total[i] == 0 ? 0.0F : 1.0F / total[i];
      store_row(out + i * q.width, factor, rows + i * head.width(), q.dim);
      sums[i] = most[i] + std::log(total[i]);
    }
  }
};

// One query head: item = b * heads + h.
template <class T>
void forward_head(const PartOperands& a, int64_t item, float* workspace) {
  const AttentionPart& part = a.part;
  const PartHead head = part_head(part, item / part.heads, item % part.heads);
  const HeadPanels q = head_panels(part.queries.count, part.head_dim);
  const HeadPanels k = head_panels(part.keys.count, part.head_dim);
  float* keys = workspace;
  float* values = keys + k.blocks * kBlock * k.dim;
  float* query = values + k.blocks * k.block_floats();
  float* scores = query + kBlock * k.dim;
  float* out = scores + kBlock * kBlock;
  const T* kv = a.kv.data<T>();
  for (int64_t block = 0; block < k.blocks; ++block) {
    pack_by_depth(k, kv + head.key_at(), head.keys_width(), block, keys + block * kBlock * k.dim);
    pack_by_row(k, kv + head.value_at(), head.keys_width(), block,
                values + block * k.block_floats());
  }
  const ScoreRule rule = score_rule(part);
  for (int64_t block = 0; block < q.blocks; ++block) {
    const detail::SeenByRows rows = seen_by(head, q, block);
    const auto [first, end] = rows.tiles();
    SeenRows seen;
    seen.begin(a, head, q, block, out);
    pack_left(q, a.qkv.data<T>() + head.query_at(), head.packed(), block, query);
    for (int64_t key = first; key < end; ++key) {
      const Extent extent = extent_of(rows.seen, key, block);
      block_scores(query, keys + key * kBlock * k.dim, k.dim, scores, extent);
      rule.cap(scores, nullptr);
      for (int64_t i = 0; i < kBlock; ++i) {
        const float shrink = online_softmax(scores + i * kBlock, rows.tile(i, key * kBlock),
                                            rule.factor(), &seen.most[i], &seen.total[i]);
        if (shrink != 1.0F) scale_row(shrink, out + i * k.width, k.width);
      }
      add_weighted(scores, values + key * k.block_floats(), k.width, out, k.width, extent);
    }
    seen.end(a, head, q, block, out);
  }
}

// What the backward of one key-value head keeps while its query heads pass by.
struct PartPanels {
  HeadPanels q, k;
  float *keys, *values;       // for products over the head dimension
  float* key_rows;            // for products over keys
  float *dkeys, *dvalues;     // [blocks * kBlock, width]
  float *query, *query_rows;  // of the block at hand, as left and right operand
  float *dy, *dy_rows;
  float *scores, *products;  // [kBlock, kBlock]
  float* slopes;             // the same
  float* dquery;
};

PartPanels part_panels(const AttentionPart& part, float* workspace) {
  PartPanels p{};
  p.q = head_panels(part.queries.count, part.head_dim);
  p.k = head_panels(part.keys.count, part.head_dim);
  const auto take = [&](int64_t floats) {
    float* start = workspace;
    workspace += floats;
    return start;
  };
  p.keys = take(p.k.blocks * kBlock * p.k.dim);
  p.values = take(p.k.blocks * kBlock * p.k.dim);
  p.key_rows = take(p.k.blocks * p.k.block_floats());
  p.dkeys = take(p.k.blocks * p.k.block_floats());
  p.dvalues = take(p.k.blocks * p.k.block_floats());
  p.query = take(kBlock * p.q.dim);
  p.query_rows = take(p.q.block_floats());
  p.dy = take(kBlock * p.q.dim);
  p.dy_rows = take(p.q.block_floats());
  p.scores = take(kBlock * kBlock);
  p.products = take(kBlock * kBlock);
  p.slopes = take(kBlock * kBlock);
  p.dquery = take(p.q.block_floats());
  return p;
}

// One block of queries, against all keys that it sees.
void backward_block(const PartOperands& a, const PartHead& head, const PartPanels& p,
                    int64_t block) {
  const detail::SeenByRows rows = seen_by(head, p.q, block);
  const ScoreRule rule = score_rule(a.part);
  const int64_t number = head.number() + block * kBlock;
  const float* lse = a.grads->log_sum_exp.data<float>() + number;
  const float* delta = a.grads->delta.data<float>() + number;
  const auto [first, end] = rows.tiles();
  for (int64_t key = first; key < end; ++key) {
    const Extent extent = extent_of(rows.seen, key, block);
    block_scores(p.query, p.keys + key * kBlock * p.k.dim, p.k.dim, p.scores, extent);
    block_scores(p.dy, p.values + key * kBlock * p.k.dim, p.k.dim, p.products, extent);
    rule.cap(p.scores, p.slopes);
    for (int64_t i = 0; i < kBlock; ++i) {
      const bool is_row = i < rows.rows;
      float* weights = p.scores + i * kBlock;
      float* gradients = p.products + i * kBlock;
      softmax_row_of(weights, gradients, rows.tile(i, key * kBlock), rule.factor(),
                     is_row ? lse[i] : 0.0F);
      gradient_row(weights, gradients, rule.factor(), is_row ? delta[i] : 0.0F);
    }
    rule.uncap(p.slopes, p.products);
    const int64_t at = key * p.k.block_floats();
    add_weighted_transposed(p.scores, p.dy_rows, p.k.width, p.dvalues + at, p.k.width, extent);
    add_weighted_transposed(p.products, p.query_rows, p.k.width, p.dkeys + at, p.k.width, extent);
    add_weighted(p.products, p.key_rows + at, p.k.width, p.dquery, p.k.width, extent);
  }
}

// One query head, its keys' and values' gradients added to the panels.
template <class T>
void backward_head(const PartOperands& a, const PartHead& head, const PartPanels& p) {
  const HeadPanels& q = p.q;
  const T* queries = a.qkv.data<T>() + head.query_at();
  const T* dy = a.grads->dy.data<T>() + head.output_at();
  float* dq = a.grads->dq.data<float>() + head.output_at();
  for (int64_t block = 0; block < q.blocks; ++block) {
    pack_left(q, queries, head.packed(), block, p.query);
    pack_by_row(q, queries, head.packed(), block, p.query_rows);
    pack_left(q, dy, head.width(), block, p.dy);
    pack_by_row(q, dy, head.width(), block, p.dy_rows);
    std::fill(p.dquery, p.dquery + q.block_floats(), 0.0F);
    backward_block(a, head, p, block);
    for (int64_t i = 0; i < rows_in(q, block); ++i) {
      add_row(p.dquery + i * q.width, dq + (block * kBlock + i) * head.width(), q.dim);
    }
  }
}

// One key-value head: item = b * kv_heads + kv.
template <class T>
void backward_group(const PartOperands& a, int64_t item, float* workspace) {
  const AttentionPart& part = a.part;
  const int64_t batch = item / part.kv_heads;
  const int64_t group = part.heads / part.kv_heads;
  const int64_t first = item % part.kv_heads * group;
  const PartPanels p = part_panels(part, workspace);
  const HeadPanels& k = p.k;
  const PartHead of_keys = part_head(part, batch, first);
  const T* kv = a.kv.data<T>();
  for (int64_t block = 0; block < k.blocks; ++block) {
    const int64_t at = block * kBlock * k.dim;
    pack_by_depth(k, kv + of_keys.key_at(), of_keys.keys_width(), block, p.keys + at);
    pack_by_depth(k, kv + of_keys.value_at(), of_keys.keys_width(), block, p.values + at);
    pack_by_row(k, kv + of_keys.key_at(), of_keys.keys_width(), block,
                p.key_rows + block * k.block_floats());
  }
  std::fill(p.dkeys, p.dkeys + k.blocks * k.block_floats(), 0.0F);
  std::fill(p.dvalues, p.dvalues + k.blocks * k.block_floats(), 0.0F);
  for (int64_t h = first; h < first + group; ++h) {
    backward_head<T>(a, part_head(part, batch, h), p);
  }
  float* dkv = a.grads->dkv.data<float>();
  for (int64_t t = 0; t < part.keys.count; ++t) {
    const int64_t row = t * of_keys.keys_width();
    add_row(p.dkeys + t * k.width, dkv + of_keys.key_at() + row, k.dim);
    add_row(p.dvalues + t * k.width, dkv + of_keys.value_at() + row, k.dim);
  }
}

}  // namespace

void attention_part_item(const PartOperands& a, int64_t item, float* workspace) {
  on_float(a.qkv.dtype(), [&]<class T>() { forward_head<T>(a, item, workspace); });
}

void attention_part_backward_item(const PartOperands& a, int64_t item, float* workspace) {
  on_float(a.qkv.dtype(), [&]<class T>() { backward_group<T>(a, item, workspace); });
}

// Floats of one thread's workspace; the backward's serves both.
size_t attention_part_workspace(const AttentionPart& part) {
  const HeadPanels k = head_panels(part.keys.count, part.head_dim);
  const int64_t of_keys = k.blocks * (2 * kBlock * k.dim + 3 * k.block_floats());
  return to_size(of_keys + 2 * kBlock * k.dim + 3 * k.block_floats() + 3 * kBlock * kBlock);
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels {
namespace {

DS_SIMD_EXPORT(attention_part_item);
DS_SIMD_EXPORT(attention_part_backward_item);
DS_SIMD_EXPORT(attention_part_workspace);

}  // namespace

namespace detail {

void attention_part_forward_cpu(Stream& stream, const AttentionPart& part, const Tensor& qkv,
                                const Tensor& kv, Tensor& y, Tensor& log_sum_exp, Write write) {
  const auto run = DS_SIMD(attention_part_item);
  const PartOperands operands{
      .part = part, .qkv = qkv, .kv = kv, .y = &y, .log_sum_exp = &log_sum_exp, .write = write};
  for_each_item(stream, DS_SIMD(attention_part_workspace)(part), part.batch * part.heads,
                [&](int64_t item, float* workspace) { run(operands, item, workspace); });
}

void attention_delta_cpu(Stream& stream, const AttentionShape& shape, const Tensor& y,
                         const Tensor& dy, Tensor& delta) {
  stream.pool().parallel_for(shape.batch * shape.length, 16, [&](int64_t begin, int64_t end) {
    on_float(y.dtype(), [&]<class T>() {
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t h = 0; h < shape.heads; ++h) {
          const int64_t at = (row * shape.heads + h) * shape.head_dim;
          const T* const values = y.data<T>() + at;
          const T* const gradients = dy.data<T>() + at;
          double sum = 0;
          for (int64_t i = 0; i < shape.head_dim; ++i) {
            sum += static_cast<double>(static_cast<float>(values[i])) *
                   static_cast<double>(static_cast<float>(gradients[i]));
          }
          const int64_t number =
              (row / shape.length * shape.heads + h) * shape.length + row % shape.length;
          delta.data<float>()[number] = static_cast<float>(sum);
        }
      }
    });
  });
}

void attention_part_backward_cpu(Stream& stream, const AttentionPart& part, const Tensor& qkv,
                                 const Tensor& kv, const AttentionPartGrads& grads) {
  const auto run = DS_SIMD(attention_part_backward_item);
  const PartOperands operands{.part = part, .qkv = qkv, .kv = kv, .grads = &grads};
  for_each_item(stream, DS_SIMD(attention_part_workspace)(part), part.batch * part.kv_heads,
                [&](int64_t item, float* workspace) { run(operands, item, workspace); });
}

}  // namespace detail
}  // namespace ds::kernels
#endif  // HWY_ONCE
