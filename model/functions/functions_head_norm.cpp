#include <vector>

#include "comm/contract/communicator.h"
#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/runs.h"
#include "model/exchange/tensor.h"
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
  // With the heads of the group's other ranks, of which `copies` at a time have the same; null:
  // whatever is normed together is here.
  Communicator* group = nullptr;
  int64_t copies = 1;

  int64_t numel() const { return count * width; }  // of a row, here
  kernels::RunGrid grid() const { return {.outer = 1, .inner = rows, .numel = numel()}; }
  kernels::RunPlaces in_rows() const { return {.first = first, .outer = 0, .inner = packed}; }
  kernels::RunPlaces alone() const { return {.first = 0, .outer = 0, .inner = numel()}; }
  Shape shape() const { return {rows * count, width}; }
  int64_t shares() const { return group->size() / copies; }
  // Among all that are normed together.
  kernels::RunPlaces own_share() const {
    if (group == nullptr) return alone();
    return {.first = group->rank() / copies * numel(), .outer = 0, .inner = shares() * numel()};
  }
};

// Heads of queries, or of keys, in the rows of a projection.
struct HeadGroup {
  const std::vector<ParamId>& weights;
  int64_t first_weight = 0, count = 0;
  int64_t first = 0;  // element of a row
  int copies = 1;     // ranks that have these
};

void add_heads(std::vector<Heads>& to, const kernels::AttentionShape& s, const HeadNormSpec& spec,
               const HeadGroup& group, Communicator* ranks) {
  const auto add = [&](ParamId gamma, int64_t first, int64_t count, int64_t width) {
    NormSpec norm = spec.norm;
    norm.gamma = gamma;
    to.push_back({norm, s.batch * s.length, s.packed(), first, count, width});
    if (spec.weights == HeadNormSpec::Weights::kOverAll) to.back().group = ranks;
    to.back().copies = group.copies;
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

// Queries, and keys. `ranks`: those that share the heads of a layer, or null.
std::vector<Heads> heads_of(const kernels::AttentionShape& s, const HeadNormSpec& spec,
                            Communicator* ranks) {
  std::vector<Heads> heads;
  add_heads(heads, s, spec, {spec.queries, spec.first_query, s.heads, 0}, ranks);
  add_heads(heads, s, spec,
            {spec.keys, spec.first_key, s.kv_heads, s.heads * s.head_dim, spec.key_copies}, ranks);
  return heads;
}

Tensor taken_out(Stream& stream, const Heads& heads, const Tensor& packed) {
  Tensor out = Tensor::empty(heads.shape(), packed.dtype(), stream);
  kernels::copy_runs(stream, heads.grid(), packed, heads.in_rows(), out, heads.alone());
  return out;
}

void put_back(Stream& stream, const Heads& heads, const Tensor& from, Tensor& packed) {
  kernels::copy_runs(stream, heads.grid(), from, heads.own_share(), packed, heads.in_rows());
}

// What ranks have the same of, each its copy: which of them counts.
enum class Copies : uint8_t { kAnyOne, kSum };

// `own` beside what other ranks have of these heads, so that a row is a token's. Collective.
Tensor with_other_ranks(Stream& stream, const Heads& heads, Tensor own, Copies copies) {
  if (heads.group == nullptr) return own;
  const Tensor by_rank = rows_of_all(stream, *heads.group, own);
  const int64_t block = heads.rows * heads.numel();
  const kernels::RunGrid grid{.outer = heads.shares(), .inner = heads.rows, .numel = heads.numel()};
  const auto one_of_each = [&](int64_t copy) {
    Tensor out = Tensor::empty({heads.rows, heads.shares() * heads.numel()}, own.dtype(), stream);
    kernels::copy_runs(
        stream, grid, by_rank,
        {.first = copy * block, .outer = heads.copies * block, .inner = heads.numel()}, out,
        {.first = 0, .outer = heads.numel(), .inner = heads.shares() * heads.numel()});
    return out;
  };
  Tensor all = one_of_each(0);
  if (copies == Copies::kAnyOne) return all;
  for (int64_t copy = 1; copy < heads.copies; ++copy) {
    kernels::accumulate(stream, one_of_each(copy), all);
  }
  return all;
}

NormSums norm_in_place(Context& context, const Heads& heads, Tensor& packed) {
  Tensor whole = with_other_ranks(context.stream, heads, taken_out(context.stream, heads, packed),
                                  Copies::kAnyOne);
  NormValues values = normalize(context, whole, Tensor(), heads.norm);
  put_back(context.stream, heads, values.y, packed);
  return std::move(values.of);
}

void gradient_in_place(Stream& stream, ParameterStore& store, const Heads& heads,
                       const NormSums& sums, Tensor& packed) {
  const Tensor dy = with_other_ranks(stream, heads, taken_out(stream, heads, packed), Copies::kSum);
  Tensor dx = norm_gradient(stream, store, heads.norm, sums, dy, Tensor());
  // The projections' gradients are summed over the ranks that have the same heads.
  const bool is_counted = heads.group == nullptr || heads.group->rank() % heads.copies == 0;
  if (!is_counted) kernels::fill(stream, dx, 0.0F);
  put_back(stream, heads, dx, packed);
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
  Communicator* const ranks = context.parallel.group(Axis::kTensor);
  std::vector<SavedSums> saved;
  for (const Heads& heads : heads_of(shape, spec, ranks)) {
    const NormSums sums = norm_in_place(context, heads, qkv.value);
    saved.push_back({context.save(sums.sum), context.save(sums.mean), context.save(sums.inv_std)});
  }
  auto backward = [&stream, &store, ranks, shape, spec,
                   kept = std::move(saved)](GradientFlow& flow) mutable {
    Tensor dqkv = own(stream, flow.take(0));
    const std::vector<Heads> heads = heads_of(shape, spec, ranks);
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
