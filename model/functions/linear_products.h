// The three products of a linear layer, on tensors: y, the gradients of its parameters, and dx.
// linear() and mlp() are made of them. Parts whose parameters lie side by side in memory are one
// product: a larger one is faster than several small ones. Nothing is recorded on a tape here.
#pragma once

#include <vector>

#include "model/functions/functions.h"
#include "model/functions/magnitudes.h"
#include "model/functions/row_dropout.h"

namespace ds {

// Memory of one part's parameters, or of their gradients; of several parts once they are joined.
struct PartMemory {
  int64_t out = 0;
  Tensor weight;
  Tensor bias;  // or undefined
  kernels::Write write_weight = kernels::Write::kOverwrite;
  kernels::Write write_bias = kernels::Write::kOverwrite;
};
// Makes one of neighbours, in order, where weights and biases (or no biases) both lie end to end
// and are written alike. Weights of layout kInOut never join: side by side they are no matrix.
std::vector<PartMemory> join_neighbours(const std::vector<PartMemory>& parts, WeightLayout layout);

// What a product does to its result: y = activation(x * W + b), and what it was before that.
struct Epilogue {
  bool adds_bias = true;
  kernels::Activation activation = kernels::Activation::kNone;
  Tensor pre_activation = {};  // [N, out] or undefined
};
// What a layer with magnitudes keeps for its backward pass; of another one it is empty.
struct Projected {
  Magnitudes magnitudes{};
  Tensor before{};  // [N, out]: what they are applied to
};
// y [N, out] of x [N, in], with what adapters add. With an activation, the layer has one part.
// `rows`: as adapters drop of them.
Projected project(Stream& stream, ParameterStore& store, const LinearSpec& spec,
                  const DroppedRows& rows, const Tensor& x, const Epilogue& epilogue, Tensor& y);
// Whether products are made: what magnitudes are applied to is wanted for gradients, whoever reads
// the outputs.
bool makes_products(const Context& context, const LinearSpec& spec);
// Memory for them, [N, out] of x [N, in].
Tensor room_for_outputs(const Context& context, const LinearSpec& spec, const Tensor& x);
// The same, kept as a closure keeps tensors.
class SavedProjection {
 public:
  SavedProjection(Context& context, Projected projected)
      : magnitudes_(std::move(projected.magnitudes)), before_(context.save(projected.before)) {}
  Projected take() { return {std::move(magnitudes_), ds::take(before_)}; }

 private:
  Magnitudes magnitudes_;
  Saved before_;
};
// Whether some of the layer's weights or adapters train: for their gradients alone x is kept.
bool has_training_weights(const ParameterStore& store, const LinearSpec& spec);
// dW = x^T * dy (kInOut) or dy^T * x (kOutIn), db = sum of the rows of dy, and those of adapters,
// of the parameters that train, into the store's slots; left to `flow` for later, if there are any.
// `x` is let go before the biases are ready; it is undefined if no weight trains.
// Returns the gradient of the products: dy, or that of what magnitudes are applied to.
Tensor write_parameter_gradients_later(GradientFlow& flow, Stream& stream, ParameterStore& store,
                                       const LinearSpec& spec, const DroppedRows& rows, Tensor x,
                                       Projected projected, Tensor dy);

// An activation that x = activation(before) came from.
struct Behind {
  kernels::Activation activation = kernels::Activation::kNone;
  Tensor before = {};  // [N, in], or undefined without an activation
};
// dx [N, in] = dy * W (kOutIn) or dy * W^T (kInOut), and what adapters make of dy, summed over the
// parts; dy is the gradient of the products. With an activation, dx is the gradient before that.
Tensor input_gradient(Stream& stream, ParameterStore& store, const LinearSpec& spec,
                      const DroppedRows& rows, const Tensor& dy, Operands operands,
                      const Behind& behind = {});

}  // namespace ds
