// What low-rank adapters add to the products of a linear layer (LoRA; Hu et al., arXiv 2106.09685),
// on tensors: y += s x A^T B^T, and its gradients. An adapter multiplies twice by its small rank r,
// and W + s B A is never made. Nothing is recorded on a tape here.
#pragma once

#include "model/functions/functions.h"
#include "model/functions/row_dropout.h"

namespace ds {

bool has_adapters(const LinearSpec& spec);
// Whether some of them train: for their gradients x is kept.
bool has_training_adapters(const ParameterStore& store, const LinearSpec& spec);

// y [N, out()] += what the adapters of the parts give of x [N, in], in the columns of the parts.
void add_adapters(Stream& stream, ParameterStore& store, const LinearSpec& spec,
                  const DroppedRows& rows, const Tensor& x, Tensor& y);
// The gradients of A [r, in] and of B [out, r], of dy [N, out()], into the store's slots.
void write_adapter_gradients(Stream& stream, ParameterStore& store, const LinearSpec& spec,
                             const DroppedRows& rows, const Tensor& x, const Tensor& dy);
// dx [N, in] += s dy B A, summed over the parts. Factors have the dtype of dy.
void add_adapter_input_gradients(Stream& stream, ParameterStore& store, const LinearSpec& spec,
                                 const DroppedRows& rows, const Tensor& dy, Tensor& dx);

}  // namespace ds
