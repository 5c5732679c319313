#include "model/pass/context.h"

#include "kernels/elementwise/elementwise.h"

namespace ds {

Tensor as_operand(Stream& stream, const Tensor& x, Operands operands) {
  if (!operands || *operands == x.dtype()) return x;
  Tensor rounded = Tensor::empty(x.shape(), *operands, stream);
  kernels::cast(stream, x, rounded);
  return rounded;
}

Tensor as_value(Stream& stream, Tensor x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor value = Tensor::empty(x.shape(), dtype, stream);
  kernels::cast(stream, x, value);
  return value;
}

Tensor unread_value(const Shape& shape, DType dtype) {
  static std::byte nothing;  // on meta nobody reads or writes there
  return Tensor::borrow(&nothing, shape, dtype, Device::meta());
}

Context Context::end_of_segment() const {
  Context end = *this;
  end.pass.unread = pass.recompute.again;
  return end;
}

Context Context::part_of_segment(bool is_last) const {
  Context part = *this;
  part.pass.recompute.again = pass.recompute.again && is_last;
  return part;
}

Tensor Context::room_for(const Shape& shape, DType dtype) const {
  return pass.unread ? unread_value(shape, dtype) : Tensor::empty(shape, dtype, stream);
}

Context Context::with(ParameterStore& other_store, Tape* other_tape) const {
  Context other = *this;
  other.store = &other_store;
  other.tape = other_tape;
  return other;
}

std::vector<Var> Context::record(std::string_view name, std::span<const Var> inputs,
                                 std::vector<Tensor> outputs, Backward backward) {
  for (const Tensor& output : outputs) show(NumberKind::kOutput, name, output);
  if (tape != nullptr) {
    return tape->record(name, inputs, std::move(outputs), std::move(backward), stream.label());
  }
  std::vector<Var> vars;
  for (Tensor& output : outputs) vars.push_back({std::move(output), Var::kConstant});
  return vars;
}

void Context::show(NumberKind kind, std::string_view name, const Tensor& made) {
  // What is unread was there the first time.
  if (numbers != nullptr && !pass.unread) numbers->look(kind, stream.label(), name, made);
}

void Context::report_loss(std::string_view name, const Tensor& part) {
  if (losses != nullptr) losses->on_losses(stream, name, part);
}

Saved Context::save(const Tensor& kept) { return tape != nullptr ? tape->save(kept) : Saved(); }

}  // namespace ds
