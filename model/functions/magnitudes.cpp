#include "model/functions/magnitudes.h"

#include <algorithm>

#include "comm/contract/communicator.h"
#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/scaling.h"
#include "kernels/matmul/matmul.h"
#include "kernels/reduce/dots.h"

namespace ds {
namespace {

using kernels::MatrixView;
using kernels::Transpose;
using kernels::Write;

MatrixView all_of(const Tensor& x) { return kernels::matrix(x, x.shape()[0], x.shape()[1]); }

// |W + s B A|^2 of each row, of the columns that are here: |W|^2 + B (2 s W A^T + s^2 B (A A^T)) by
// rows, so that nothing of the size of W is made.
Tensor squared_lengths(Stream& stream, ParameterStore& store, const LinearSpec& spec,
                       const LinearPart& part) {
  const Adapter& adapter = *part.adapter;
  const Lease weight = store.acquire(part.weight), a = store.acquire(adapter.a),
              b = store.acquire(adapter.b);
  const Tensor& w = weight.weight();
  const bool out_in = spec.layout == WeightLayout::kOutIn;
  const MatrixView weights =
      out_in ? kernels::matrix(w, part.out, spec.in) : kernels::matrix(w, spec.in, part.out);
  Tensor squares = Tensor::empty({part.out}, DType::kF32, stream);
  if (out_in) {
    kernels::row_dots(stream, weights, weights, Write::kOverwrite, squares);
  } else {
    kernels::column_dots(stream, weights, weights, Write::kOverwrite, squares);
  }
  Tensor mixed = Tensor::empty({part.out, adapter.rank}, DType::kF32, stream);
  kernels::matmul(stream, {.a = weights,
                           .b = all_of(a.weight()),
                           .c = all_of(mixed),
                           .transpose_a = out_in ? Transpose::kNo : Transpose::kYes,
                           .transpose_b = Transpose::kYes});
  kernels::scale(stream, 2 * adapter.scale, mixed);
  const Tensor factor = as_operand(stream, a.weight(), DType::kF32);
  Tensor own = Tensor::empty({adapter.rank, adapter.rank}, DType::kF32, stream);
  kernels::matmul(
      stream,
      {.a = all_of(factor), .b = all_of(factor), .c = all_of(own), .transpose_b = Transpose::kYes});
  kernels::scale(stream, adapter.scale * adapter.scale, own);
  const Tensor rows = as_operand(stream, b.weight(), DType::kF32);
  kernels::matmul(
      stream,
      {.a = all_of(rows), .b = all_of(own), .c = all_of(mixed), .write = Write::kAccumulate});
  kernels::row_dots(stream, all_of(rows), all_of(mixed), Write::kAccumulate, squares);
  return squares;
}

// Calls use(part, what the forward pass made of it, its columns of a matrix [N, out()]).
void for_each_part(const LinearSpec& spec, const Magnitudes& magnitudes, const auto& use) {
  int64_t column = 0;
  for (size_t i = 0; i < spec.parts.size(); ++i) {
    use(spec.parts[i], magnitudes.parts[i], column);
    column += spec.parts[i].out;
  }
}

}  // namespace

bool has_magnitudes(const LinearSpec& spec) {
  return std::ranges::any_of(spec.parts, [](const LinearPart& part) {
    return part.adapter && part.adapter->magnitude != kNoParam;
  });
}

Magnitudes apply_magnitudes(Stream& stream, ParameterStore& store, const LinearSpec& spec,
                            const Parallel& parallel, const Tensor& before, bool adds_bias,
                            Tensor& y) {
  Magnitudes made;
  Communicator* const others = spec.is_part_of_sum ? parallel.group(Axis::kTensor) : nullptr;
  for (const LinearPart& part : spec.parts) {
    Magnitudes::OfPart& of_part = made.parts.emplace_back();
    if (!part.adapter || part.adapter->magnitude == kNoParam) continue;
    of_part.squares = squared_lengths(stream, store, spec, part);
    if (others != nullptr) others->all_reduce(of_part.squares, ReduceOp::kSum, stream);
    const Lease magnitude = store.acquire(part.adapter->magnitude);
    of_part.factors = Tensor::empty({part.out}, DType::kF32, stream);
    kernels::over_roots(stream, magnitude.weight(), of_part.squares, of_part.factors);
  }
  for_each_part(
      spec, made, [&](const LinearPart& part, const Magnitudes::OfPart& of_part, int64_t column) {
        const bool biased = adds_bias && part.bias != kNoParam;
        std::optional<Lease> bias;
        if (biased) bias.emplace(store.acquire(part.bias));
        kernels::scale_columns(stream, kernels::columns_of(all_of(before), column, part.out),
                               of_part.factors, biased ? bias->weight() : Tensor(),
                               kernels::columns_of(all_of(y), column, part.out));
      });
  return made;
}

Tensor gradient_before(Stream& stream, const LinearSpec& spec, const Magnitudes& magnitudes,
                       const Tensor& dy) {
  Tensor gradient = Tensor::empty(dy.shape(), dy.dtype(), stream);
  for_each_part(spec, magnitudes,
                [&](const LinearPart& part, const Magnitudes::OfPart& of_part, int64_t column) {
                  kernels::scale_columns(stream, kernels::columns_of(all_of(dy), column, part.out),
                                         of_part.factors, Tensor(),
                                         kernels::columns_of(all_of(gradient), column, part.out));
                });
  return gradient;
}

void write_magnitude_gradients(Stream& stream, ParameterStore& store, const LinearSpec& spec,
                               const Magnitudes& magnitudes, const Tensor& before,
                               const Tensor& dy) {
  for_each_part(spec, magnitudes,
                [&](const LinearPart& part, const Magnitudes::OfPart& of_part, int64_t column) {
                  if (!of_part.squares.defined() || !store.trains(part.adapter->magnitude)) return;
                  Tensor gradient = Tensor::empty({part.out}, DType::kF32, stream);
                  kernels::column_dots(stream,
                                       kernels::columns_of(all_of(before), column, part.out),
                                       kernels::columns_of(all_of(dy), column, part.out),
                                       Write::kOverwrite, gradient);
                  kernels::over_roots(stream, gradient, of_part.squares, gradient);
                  GradSlot slot = store.grad_slot(part.adapter->magnitude);
                  if (slot.write == Write::kOverwrite) {
                    kernels::cast(stream, gradient, slot.grad);
                  } else {
                    kernels::accumulate(stream, gradient, slot.grad);
                  }
                  store.grad_ready(part.adapter->magnitude);
                });
}

}  // namespace ds
