#include <vector>

#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/runs.h"
#include "model/functions/functions.h"
#include "model/functions/norm_passes.h"
#include "model/pass/own.h"

namespace ds {
namespace {

// What is normed by itself, side by side in the rows of a packed projection, and its norm.
struct Heads {
  NormSpec norm{};
  int64_t rows = 0, packed = 0;  // of the projection
  int64_t first = 0;             // element of a row
  int64_t count = 0, width = 0;

  kernels::RunGrid grid() const { return {.outer = 1, .inner = rows, .numel = count * width}; }
  kernels::RunPlaces in_rows() const { return {.first = first, .outer = 0, .inner = packed}; }
  kernels::RunPlaces alone() const { return {.first = 0, .outer = 0, .inner = count * width}; }
  Shape shape() const { return {rows * count, width}; }
};

// Heads of queries, or of keys, in the rows of a projection.
struct HeadGroup {
  const std::vector<ParamId>& weights;
  int64_t first_weight = 0, count = 0;
  int64_t first = 0;  // element of a row
};

void add_heads(std::vector<Heads>& to, const kernels::AttentionShape& s, const HeadNormSpec& spec,
               const HeadGroup& group) {
  const auto add = [&](ParamId gamma, int64_t first, int64_t count, int64_t width) {
    NormSpec norm = spec.norm;
    norm.gamma = gamma;
    to.push_back({norm, s.batch * s.length, s.packed(), first, count, width});
  };
  switch (spec.weights) {
    case HeadNormSpec::Weights::kShared:
      return add(group.weights.front(), group.first, group.count, s.head_dim);
    case HeadNormSpec::Weights::kOverAll:
      return add(group.weights.front(), group.first, 1, group.count * s.head_dim);
    case HeadNormSpec::Weights::kEachOwn:
      for (int64_t head = 0; head < group.count; ++head) {
        add(nth(group.weights, group.first_weight + head), group.first + head * s.head_dim, 1,
            s.head_dim);
      }
  }
}

// Queries, and keys.
std::vector<Heads> heads_of(const kernels::AttentionShape& s, const HeadNormSpec& spec) {
  std::vector<Heads> heads;
  add_heads(heads, s, spec, {spec.queries, spec.first_query, s.heads, 0});
  add_heads(heads, s, spec, {spec.keys, spec.first_key, s.kv_heads, s.heads * s.head_dim});
  return heads;
}

Tensor taken_out(Stream& stream, const Heads& heads, const Tensor& packed) {
  Tensor out = Tensor::empty(heads.shape(), packed.dtype(), stream);
  kernels::copy_runs(stream, heads.grid(), packed, heads.in_rows(), out, heads.alone());
  return out;
}

void put_back(Stream& stream, const Heads& heads, const Tensor& from, Tensor& packed) {
  kernels::copy_runs(stream, heads.grid(), from, heads.alone(), packed, heads.in_rows());
}

NormSums norm_in_place(Context& context, const Heads& heads, Tensor& packed) {
  NormValues values =
      normalize(context, taken_out(context.stream, heads, packed), Tensor(), heads.norm);
  put_back(context.stream, heads, values.y, packed);
  return std::move(values.of);
}

void gradient_in_place(Stream& stream, ParameterStore& store, const Heads& heads,
                       const NormSums& sums, Tensor& packed) {
  const Tensor dy = taken_out(stream, heads, packed);
  put_back(stream, heads, norm_gradient(stream, store, heads.norm, sums, dy, Tensor()), packed);
}

// The weights of heads that other ranks have.
void write_zeros(Stream& stream, ParameterStore& store, const std::vector<ParamId>& weights,
                 int64_t first_here, int64_t here) {
  for (int64_t head = 0; head < std::ssize(weights); ++head) {
    if (head >= first_here && head < first_here + here) continue;
    const ParamId weight = nth(weights, head);
    if (!store.trains(weight)) continue;
    GradSlot slot = store.grad_slot(weight);
    if (slot.write == kernels::Write::kOverwrite) kernels::fill(stream, slot.grad, 0.0F);
    store.grad_ready(weight);
  }
}

struct SavedSums {
  Saved sum, mean, inv_std;
};

}  // namespace

Var norm_heads(Context& context, const kernels::AttentionShape& shape, const HeadNormSpec& spec,
               Var qkv) {
  DS_CHECK(qkv.value.is_sole_owner(), "norm of heads: works in place, but somebody else holds qkv");
  Stream& stream = context.stream;
  ParameterStore& store = *context.store;
  std::vector<SavedSums> saved;
  for (const Heads& heads : heads_of(shape, spec)) {
    const NormSums sums = norm_in_place(context, heads, qkv.value);
    saved.push_back({context.save(sums.sum), context.save(sums.mean), context.save(sums.inv_std)});
  }
  auto backward = [&stream, &store, shape, spec,
                   kept = std::move(saved)](GradientFlow& flow) mutable {
    Tensor dqkv = own(stream, flow.take(0));
    const std::vector<Heads> heads = heads_of(shape, spec);
    for (size_t i = heads.size(); i-- > 0;) {
      const NormSums sums{take(kept[i].sum), take(kept[i].mean), take(kept[i].inv_std)};
      gradient_in_place(stream, store, heads[i], sums, dqkv);
    }
    if (spec.weights == HeadNormSpec::Weights::kEachOwn) {
      write_zeros(stream, store, spec.keys, spec.first_key, shape.kv_heads);
      write_zeros(stream, store, spec.queries, spec.first_query, shape.heads);
    }
    flow.give(0, std::move(dqkv));
  };
  Tensor normed = std::move(qkv.value);
  return context.record("norm of heads", {&qkv, 1}, {std::move(normed)}, std::move(backward))
      .front();
}

}  // namespace ds
