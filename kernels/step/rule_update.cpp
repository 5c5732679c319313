// The front of the rules' updates, see rule_update.h: what their operands must be, and what they
// cost.
#include "kernels/step/rule_update.h"

#include "core/dispatch.h"
#include "kernels/argument.h"
#include "kernels/cpu/rule_update.h"
#include "kernels/cuda/rule_update.h"

namespace ds::kernels {
namespace {

void check(const Stream& stream, const RuleArgs& args, bool has_state) {
  constexpr std::string_view kOp = "rule_update";
  detail::require_numel(kOp, "master", stream, args.master, args.master.numel());
  const int64_t n = args.master.numel();
  detail::require_dtype(kOp, "master", args.master, DType::kF32);
  detail::require_numel(kOp, "grad", stream, args.grad, n);
  detail::require_float(kOp, "grad", args.grad);
  DS_CHECK(has_state || !args.state.defined(), "{}: state is given to a rule without any", kOp);
  if (has_state) {
    detail::require_numel(kOp, "state", stream, args.state, n);
    detail::require_dtype(kOp, "state", args.state, DType::kF32);
  }
  if (args.copy.defined()) {
    detail::require_numel(kOp, "copy", stream, args.copy, n);
    detail::require_float(kOp, "copy", args.copy);
  }
  const auto bytes_of = [](const Tensor& tensor) {
    return tensor.defined() ? static_cast<double>(tensor.bytes()) : 0.0;
  };
  stream.report(kOp, {.flops = 8 * static_cast<double>(n),
                      .bytes = 2 * bytes_of(args.master) + 2 * bytes_of(args.state) +
                               bytes_of(args.grad) + bytes_of(args.copy)});
}

}  // namespace

template <class Rule>
void rule_update(Stream& stream, const RuleArgs& args, const Rule& rule,
                 const StepScalars& scalars) {
  check(stream, args, rule.has_state());
  on_device(
      stream, [&](Cpu) { detail::rule_update_cpu(stream, args, rule, scalars); },
      [&](Cuda) { detail::rule_update_cuda(stream, args, rule, scalars); });
}

template void rule_update(Stream&, const RuleArgs&, const LionRule&, const StepScalars&);
template void rule_update(Stream&, const RuleArgs&, const AdagradRule&, const StepScalars&);
template void rule_update(Stream&, const RuleArgs&, const SgdRule&, const StepScalars&);

}  // namespace ds::kernels
