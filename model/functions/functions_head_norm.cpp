#include <array>

#include "kernels/elementwise/runs.h"
#include "kernels/norm/layer_norm.h"
#include "model/functions/functions.h"
#include "model/pass/module_label.h"
#include "model/pass/own.h"

namespace ds {
namespace {

// What is normed by itself, side by side in the rows of a packed projection, and its norm.
struct Heads {
  ParamId gamma = kNoParam;
  int64_t rows = 0, packed = 0;  // of the projection
  int64_t first = 0;             // element of a row
  int64_t count = 0, width = 0;

  kernels::RunGrid grid() const { return {.outer = 1, .inner = rows, .numel = count * width}; }
  kernels::RunPlaces in_rows() const { return {.first = first, .outer = 0, .inner = packed}; }
  kernels::RunPlaces alone() const { return {.first = 0, .outer = 0, .inner = count * width}; }
  Shape shape() const { return {rows * count, width}; }
};

// Queries, and keys.
std::array<Heads, 2> heads_of(const kernels::AttentionShape& s, const HeadNormSpec& spec) {
  const int64_t rows = s.batch * s.length;
  const int64_t queries = s.heads * s.head_dim, keys = s.kv_heads * s.head_dim;
  if (spec.over_all_heads) {
    return {Heads{spec.queries, rows, s.packed(), 0, 1, queries},
            Heads{spec.keys, rows, s.packed(), queries, 1, keys}};
  }
  return {Heads{spec.queries, rows, s.packed(), 0, s.heads, s.head_dim},
          Heads{spec.keys, rows, s.packed(), queries, s.kv_heads, s.head_dim}};
}

Tensor taken_out(Stream& stream, const Heads& heads, const Tensor& packed) {
  Tensor out = Tensor::empty(heads.shape(), packed.dtype(), stream);
  kernels::copy_runs(stream, heads.grid(), packed, heads.in_rows(), out, heads.alone());
  return out;
}

void put_back(Stream& stream, const Heads& heads, const Tensor& from, Tensor& packed) {
  kernels::copy_runs(stream, heads.grid(), from, heads.alone(), packed, heads.in_rows());
}

struct Normed {
  Tensor x, inverse_rms;  // what the backward needs
};

Normed norm_in_place(Context& context, const Heads& heads, const HeadNormSpec& spec,
                     Tensor& packed) {
  Stream& stream = context.stream;
  const Span span(stream, module_label(*context.store, heads.gamma));
  const Lease gamma = context.store->acquire(heads.gamma);
  Normed out{.x = taken_out(stream, heads, packed),
             .inverse_rms = Tensor::empty({heads.shape()[0]}, DType::kF32, stream)};
  Tensor y = Tensor::empty(heads.shape(), packed.dtype(), stream);
  kernels::rms_norm(stream, out.x, gamma.weight(), spec.eps, y, out.inverse_rms, spec.weight);
  put_back(stream, heads, y, packed);
  return out;
}

void gradient_in_place(Stream& stream, ParameterStore& store, const Heads& heads,
                       kernels::RmsWeight weight, const Normed& normed, Tensor& packed) {
  const Lease gamma = store.acquire(heads.gamma);
  const GradSlot slot = store.grad_slot(heads.gamma);
  kernels::LayerNormGrads grads{.dgamma = slot.grad, .write_gamma = slot.write};
  Tensor dx = taken_out(stream, heads, packed);
  const Tensor dy = dx;  // whose place the gradient takes
  kernels::rms_norm_backward(stream, normed.x, gamma.weight(), normed.inverse_rms, dy, Tensor(), dx,
                             grads, weight);
  store.grad_ready(heads.gamma);
  put_back(stream, heads, dx, packed);
}

}  // namespace

Var norm_heads(Context& context, const kernels::AttentionShape& shape, const HeadNormSpec& spec,
               Var qkv) {
  DS_CHECK(qkv.value.is_sole_owner(), "norm of heads: works in place, but somebody else holds qkv");
  Stream& stream = context.stream;
  ParameterStore& store = *context.store;
  const auto [queries, keys] = heads_of(shape, spec);
  const Normed q = norm_in_place(context, queries, spec, qkv.value);
  const Normed k = norm_in_place(context, keys, spec, qkv.value);
  auto backward = [&stream, &store, shape, spec, q_saved = context.save(q.x),
                   q_inverse = context.save(q.inverse_rms), k_saved = context.save(k.x),
                   k_inverse = context.save(k.inverse_rms)](GradientFlow& flow) mutable {
    Tensor dqkv = own(stream, flow.take(0));
    const auto [of_queries, of_keys] = heads_of(shape, spec);
    gradient_in_place(stream, store, of_keys, spec.weight, {take(k_saved), take(k_inverse)}, dqkv);
    gradient_in_place(stream, store, of_queries, spec.weight, {take(q_saved), take(q_inverse)},
                      dqkv);
    flow.give(0, std::move(dqkv));
  };
  Tensor normed = std::move(qkv.value);
  return context.record("norm of heads", {&qkv, 1}, {std::move(normed)}, std::move(backward))
      .front();
}

}  // namespace ds
