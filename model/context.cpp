#include "model/context.h"

namespace ds {

std::vector<Var> Context::record(std::string_view name, std::span<const Var> inputs,
                                 std::vector<Tensor> outputs, Backward backward) {
  if (tape != nullptr) {
    return tape->record(name, inputs, std::move(outputs), std::move(backward), stream.label());
  }
  std::vector<Var> vars;
  for (Tensor& output : outputs) vars.push_back({std::move(output), Var::kConstant});
  return vars;
}

Saved Context::save(const Tensor& tensor) { return tape != nullptr ? tape->save(tensor) : Saved(); }

}  // namespace ds
