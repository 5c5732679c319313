#include "model/functions/linear_products.h"

#include <algorithm>

#include "kernels/matmul/matmul.h"
#include "kernels/reduce/reduce.h"
#include "model/functions/adapters.h"

namespace ds {
namespace {

using kernels::Activation;
using kernels::Factor;
using kernels::MatrixView;
using kernels::Transpose;
using kernels::Write;

MatrixView weight_view(const Tensor& weight, const LinearSpec& spec, int64_t out) {
  return spec.layout == WeightLayout::kOutIn ? kernels::matrix(weight, out, spec.in)
                                             : kernels::matrix(weight, spec.in, out);
}

// One part of both, or no weight where they are not neighbours.
PartMemory joined(const PartMemory& first, const PartMemory& next) {
  if (!first.weight.defined() || !next.weight.defined()) return {};  // frozen
  const bool biased = first.bias.defined();
  if (biased != next.bias.defined() || first.write_weight != next.write_weight ||
      (biased && first.write_bias != next.write_bias)) {
    return {};
  }
  PartMemory both = first;
  both.out += next.out;
  both.weight = first.weight.joined_with(next.weight);
  if (biased) both.bias = first.bias.joined_with(next.bias);
  return biased && !both.bias.defined() ? PartMemory() : both;
}

// The weights of a layer while they are leased. All parts at once, whether they join or not, so
// that a dry run and a run gather alike.
class LeasedParts {
 public:
  enum class Biases : uint8_t { kNo, kYes };

  LeasedParts(ParameterStore& store, const LinearSpec& spec, Biases biases) {
    std::vector<PartMemory> parts;
    for (const LinearPart& part : spec.parts) {
      PartMemory memory{.out = part.out, .weight = lease(store, part.weight), .bias = {}};
      if (biases == Biases::kYes && part.bias != kNoParam) memory.bias = lease(store, part.bias);
      parts.push_back(std::move(memory));
    }
    joined_ = join_neighbours(parts, spec.layout);
  }
  const std::vector<PartMemory>& joined() const { return joined_; }

 private:
  const Tensor& lease(ParameterStore& store, ParamId id) {
    leases_.push_back(store.acquire(id));
    return leases_.back().weight();
  }

  std::vector<Lease> leases_;
  std::vector<PartMemory> joined_;
};

// Without memory of what is frozen.
std::vector<PartMemory> gradient_slots(ParameterStore& store, const LinearSpec& spec) {
  std::vector<PartMemory> parts;
  for (const LinearPart& part : spec.parts) {
    PartMemory memory{.out = part.out, .weight = {}, .bias = {}};
    if (store.trains(part.weight)) {
      const GradSlot weight = store.grad_slot(part.weight);
      memory.weight = weight.grad;
      memory.write_weight = weight.write;
    }
    if (store.trains(part.bias)) {
      const GradSlot bias = store.grad_slot(part.bias);
      memory.bias = bias.grad;
      memory.write_bias = bias.write;
    }
    parts.push_back(std::move(memory));
  }
  return join_neighbours(parts, spec.layout);
}

// Those of a part, whose share of dy is `dy`.
void write_gradients(Stream& stream, const LinearSpec& spec, const Tensor& x, const MatrixView& dy,
                     const MatrixView& of_outputs, const PartMemory& part) {
  if (!part.weight.defined()) {
    Tensor bias = part.bias;
    if (bias.defined()) kernels::column_sum(stream, of_outputs, part.write_bias, bias);
    return;
  }
  const bool out_in = spec.layout == WeightLayout::kOutIn;
  const MatrixView input = kernels::matrix(x, dy.rows, spec.in);
  kernels::matmul(stream, {.a = out_in ? dy : input,
                           .b = out_in ? input : dy,
                           .c = weight_view(part.weight, spec, part.out),
                           .transpose_a = Transpose::kYes,
                           .write = part.write_weight,
                           .bias_gradient = part.bias,
                           .bias_gradient_of = out_in ? Factor::kA : Factor::kB,
                           .write_bias_gradient = part.write_bias});
}

struct OutputGradients {
  Tensor outputs;   // [N, out]: dy
  Tensor products;  // dy again, or the gradient of what magnitudes are applied to
};

bool has_training_parameters(const ParameterStore& store, const LinearSpec& spec) {
  return has_training_weights(store, spec) ||
         std::ranges::any_of(spec.parts,
                             [&](const LinearPart& part) { return store.trains(part.bias); });
}

void write_parameter_gradients(Stream& stream, ParameterStore& store, const LinearSpec& spec,
                               const DroppedRows& of_dropout, Tensor x, Projected projected,
                               const OutputGradients& dy) {
  const int64_t rows = dy.products.shape()[0];
  const Tensor output = x.defined() ? as_operand(stream, dy.products, x.dtype()) : dy.products;
  const MatrixView whole = kernels::matrix(output, rows, spec.out());
  const bool is_scaled = projected.before.defined();
  const MatrixView outputs = is_scaled ? kernels::matrix(dy.outputs, rows, spec.out()) : whole;
  std::vector<PartMemory> slots = gradient_slots(store, spec);
  int64_t column = 0;
  for (const PartMemory& part : slots) {
    write_gradients(stream, spec, x, kernels::columns_of(whole, column, part.out),
                    kernels::columns_of(outputs, column, part.out), part);
    column += part.out;
  }
  for (const LinearPart& part : spec.parts) {
    if (store.trains(part.weight)) store.grad_ready(part.weight);
  }
  if (has_training_adapters(store, spec)) {
    write_adapter_gradients(stream, store, spec, of_dropout, x, output);
  }
  if (is_scaled) {
    write_magnitude_gradients(stream, store, spec, projected.magnitudes, projected.before,
                              dy.outputs);
  }
  projected = {};
  // A reduced bucket and the input are kept by nobody else now.
  x = Tensor();
  slots.clear();
  for (const LinearPart& part : spec.parts) {
    if (store.trains(part.bias)) store.grad_ready(part.bias);
  }
}

}  // namespace

bool has_training_weights(const ParameterStore& store, const LinearSpec& spec) {
  return has_training_adapters(store, spec) ||
         std::ranges::any_of(spec.parts,
                             [&](const LinearPart& part) { return store.trains(part.weight); });
}

std::vector<PartMemory> join_neighbours(const std::vector<PartMemory>& parts, WeightLayout layout) {
  std::vector<PartMemory> result;
  for (const PartMemory& part : parts) {
    if (!result.empty() && layout == WeightLayout::kOutIn) {
      PartMemory both = joined(result.back(), part);
      if (both.weight.defined()) {
        result.back() = std::move(both);
        continue;
      }
    }
    result.push_back(part);
  }
  return result;
}

namespace {

// x * W + b, and what the epilogue says besides.
void multiply(Stream& stream, ParameterStore& store, const LinearSpec& spec, const Tensor& x,
              const Epilogue& epilogue, Tensor& y) {
  const int64_t rows = x.shape()[0];
  const LeasedParts leased(store, spec, LeasedParts::Biases::kYes);
  int64_t column = 0;
  for (const PartMemory& part : leased.joined()) {
    kernels::matmul(
        stream,
        {.a = kernels::matrix(x, rows, spec.in),
         .b = weight_view(as_operand(stream, part.weight, x.dtype()), spec, part.out),
         .c = kernels::columns_of(kernels::matrix(y, rows, spec.out()), column, part.out),
         .transpose_b = spec.layout == WeightLayout::kOutIn ? Transpose::kYes : Transpose::kNo,
         .bias = epilogue.adds_bias ? part.bias : Tensor(),
         .activation = epilogue.activation,
         .pre_activation = epilogue.pre_activation});
    column += part.out;
  }
}

}  // namespace

bool makes_products(const Context& context, const LinearSpec& spec) {
  return !context.pass.unread || has_magnitudes(spec);
}

Tensor room_for_outputs(const Context& context, const LinearSpec& spec, const Tensor& x) {
  const Shape shape{x.shape()[0], spec.out()};
  return has_magnitudes(spec) ? Tensor::empty(shape, x.dtype(), context.stream)
                              : context.room_for(shape, x.dtype());
}

Projected project(Stream& stream, ParameterStore& store, const LinearSpec& spec,
                  const DroppedRows& rows, const Tensor& x, const Epilogue& epilogue, Tensor& y) {
  DS_CHECK(epilogue.activation == kernels::Activation::kNone || spec.parts.size() == 1,
           "linear: an activation over {} weights", spec.parts.size());
  Projected projected;
  if (!has_adapters(spec)) {
    multiply(stream, store, spec, x, epilogue, y);
    return projected;
  }
  // The activation is of the sum.
  Tensor sum = epilogue.pre_activation.defined() ? epilogue.pre_activation : y;
  if (has_magnitudes(spec)) {
    projected.before = Tensor::empty(sum.shape(), sum.dtype(), stream);
    multiply(stream, store, spec, x, {.adds_bias = false}, projected.before);
    add_adapters(stream, store, spec, rows, x, projected.before);
    projected.magnitudes = apply_magnitudes(stream, store, spec, *rows.parallel, projected.before,
                                            epilogue.adds_bias, sum);
  } else {
    multiply(stream, store, spec, x, {.adds_bias = epilogue.adds_bias}, sum);
    add_adapters(stream, store, spec, rows, x, sum);
  }
  if (epilogue.activation != kernels::Activation::kNone) {
    kernels::activation_forward(stream, epilogue.activation, sum, y);
  }
  return projected;
}

Tensor write_parameter_gradients_later(GradientFlow& flow, Stream& stream, ParameterStore& store,
                                       const LinearSpec& spec, const DroppedRows& rows, Tensor x,
                                       Projected projected, Tensor dy) {
  OutputGradients gradients;
  gradients.outputs = dy;
  gradients.products = std::move(dy);
  if (projected.before.defined()) {
    gradients.products = gradient_before(stream, spec, projected.magnitudes, gradients.outputs);
  }
  Tensor of_products = gradients.products;
  if (!has_training_parameters(store, spec)) return of_products;
  flow.later([&stream, &store, spec, rows, x = std::move(x), projected = std::move(projected),
              gradients = std::move(gradients)]() mutable {
    write_parameter_gradients(stream, store, spec, rows, std::move(x), std::move(projected),
                              gradients);
  });
  return of_products;
}

Tensor input_gradient(Stream& stream, ParameterStore& store, const LinearSpec& spec,
                      const DroppedRows& of_dropout, const Tensor& dy, Operands operands,
                      const Behind& behind) {
  const int64_t rows = dy.shape()[0];
  Tensor dx = Tensor::empty({rows, spec.in}, dy.dtype(), stream);
  const Tensor output = as_operand(stream, dy, operands);
  const MatrixView whole = kernels::matrix(output, rows, spec.out());
  const LeasedParts leased(store, spec, LeasedParts::Biases::kNo);
  // If several products are summed, the activation is undone when the sum is whole.
  const bool at_once = leased.joined().size() == 1 && !has_adapters(spec);
  int64_t column = 0;
  for (const PartMemory& part : leased.joined()) {
    kernels::matmul(
        stream,
        {.a = kernels::columns_of(whole, column, part.out),
         .b = weight_view(as_operand(stream, part.weight, operands), spec, part.out),
         .c = kernels::matrix(dx, rows, spec.in),
         .transpose_b = spec.layout == WeightLayout::kOutIn ? Transpose::kNo : Transpose::kYes,
         .write = column == 0 ? Write::kOverwrite : Write::kAccumulate,
         .activation_backward = at_once ? behind.activation : Activation::kNone,
         .activation_input = at_once ? behind.before : Tensor()});
    column += part.out;
  }
  add_adapter_input_gradients(stream, store, spec, of_dropout, output, dx);
  if (!at_once && behind.activation != Activation::kNone) {
    kernels::activation_backward(stream, behind.activation, behind.before, dx, dx);
  }
  return dx;
}

}  // namespace ds
