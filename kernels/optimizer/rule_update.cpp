// The front of the rules' updates, see rule_update.h: what their operands must be, and what they
// cost.
#include "kernels/optimizer/rule_update.h"

#include <utility>

#include "core/device/dispatch.h"
#include "core/values/index.h"
#include "kernels/front/argument.h"
#include "kernels/optimizer/rule_update_cpu.h"
#include "kernels/optimizer/rule_update_cuda.h"

namespace ds::kernels {
namespace {

DType dtype_of(MomentFormat format) {
  switch (format) {
    case MomentFormat::kFp32:
      return DType::kF32;
    case MomentFormat::kBf16:
      return DType::kBF16;
    case MomentFormat::kMxFp8:
    case MomentFormat::kMxFp8Root:
      return DType::kU8;
  }
  throw InternalError("unknown format of moments");
}

// Returns the bytes of the state.
double check_state(std::string_view op, const Stream& stream, const StateTensor& state, int64_t n) {
  detail::require_numel(op, "state", stream, state.values, n);
  detail::require_dtype(op, "state", state.values, dtype_of(state.format));
  double bytes = static_cast<double>(state.values.bytes());
  if (dtype_of(state.format) == DType::kU8) {
    detail::require_numel(op, "scales", stream, state.scales,
                          (n + kMomentBlock - 1) / kMomentBlock);
    detail::require_dtype(op, "scales", state.scales, DType::kU8);
    bytes += static_cast<double>(state.scales.bytes());
  }
  return bytes;
}

// One format for all, but for roots, which those states have that are never negative.
template <class Rule>
void check_formats(std::string_view op, const std::vector<StateTensor>& states) {
  using Factors = decltype(factors_of(std::declval<Rule>(), std::declval<StepInputs>()));
  for (size_t j = 0; j < states.size(); ++j) {
    const DType dtype = dtype_of(states[j].format);
    DS_CHECK(dtype == dtype_of(states[0].format) && (dtype == DType::kF32 || !kFp32Only<Factors>),
             "{}: state {} is {}, expected {}", op, j, name_of(dtype),
             kFp32Only<Factors> ? "fp32" : "the dtype of all");
    const bool root = (kRootStates<Factors> >> j & 1U) != 0;
    DS_CHECK(dtype != DType::kU8 || root == (states[j].format == MomentFormat::kMxFp8Root),
             "{}: state {} in 8 bits is {} root", op, j, root ? "no" : "a");
  }
}

template <class Rule>
void check(const Stream& stream, const RuleArgs& args, int states) {
  constexpr std::string_view kOp = "rule_update";
  detail::require_numel(kOp, "master", stream, args.master, args.master.numel());
  const int64_t n = args.master.numel();
  detail::require_float(kOp, "master", args.master);
  DS_CHECK(!args.noise || args.master.dtype() == DType::kBF16,
           "{}: masters in {} are to be rounded at random, expected bf16", kOp,
           name_of(args.master.dtype()));
  detail::require_numel(kOp, "grad", stream, args.grad, n);
  detail::require_float(kOp, "grad", args.grad);
  DS_CHECK(narrow<int>(args.states.size()) == states,
           "{}: {} states are given to a rule that has {}", kOp, args.states.size(), states);
  check_formats<Rule>(kOp, args.states);
  double state_bytes = 0;
  for (const StateTensor& state : args.states) state_bytes += check_state(kOp, stream, state, n);
  if (args.copy.defined()) {
    detail::require_numel(kOp, "copy", stream, args.copy, n);
    detail::require_float(kOp, "copy", args.copy);
  }
  const auto bytes_of = [](const Tensor& tensor) {
    return tensor.defined() ? static_cast<double>(tensor.bytes()) : 0.0;
  };
  stream.report(kOp, {.flops = 8 * static_cast<double>(n),
                      .bytes = 2 * bytes_of(args.master) + 2 * state_bytes + bytes_of(args.grad) +
                               bytes_of(args.copy)});
}

void check_packing(std::string_view op, const Stream& stream, const StateTensor& state,
                   const Tensor& numbers) {
  detail::require_numel(op, "numbers", stream, numbers, numbers.numel());
  detail::require_dtype(op, "numbers", numbers, DType::kF32);
  const double bytes = check_state(op, stream, state, numbers.numel());
  stream.report(op, {.bytes = static_cast<double>(numbers.bytes()) + bytes});
}

}  // namespace

template <class Rule>
void rule_update(Stream& stream, const RuleArgs& args, const Rule& rule,
                 const StepScalars& scalars) {
  check<Rule>(stream, args, rule.states());
  on_device(
      stream, [&](Cpu) { detail::rule_update_cpu(stream, args, rule, scalars); },
      [&](Cuda) { detail::rule_update_cuda(stream, args, rule, scalars); });
}

template void rule_update(Stream&, const RuleArgs&, const AdamStateRule&, const StepScalars&);
template void rule_update(Stream&, const RuleArgs&, const LionRule&, const StepScalars&);
template void rule_update(Stream&, const RuleArgs&, const AdagradRule&, const StepScalars&);
template void rule_update(Stream&, const RuleArgs&, const SgdRule&, const StepScalars&);
template void rule_update(Stream&, const RuleArgs&, const RmspropRule&, const StepScalars&);
template void rule_update(Stream&, const RuleArgs&, const OneBitRule&, const StepScalars&);
template void rule_update(Stream&, const RuleArgs&, const ZeroOneRule&, const StepScalars&);
template void rule_update(Stream&, const RuleArgs&, const OneBitLambRule&, const StepScalars&);
template void rule_update(Stream&, const RuleArgs&, const AgreedRule&, const StepScalars&);

void unpack_state(Stream& stream, const StateTensor& state, const Tensor& numbers) {
  check_packing("unpack_state", stream, state, numbers);
  on_device(
      stream, [&](Cpu) { detail::unpack_state_cpu(stream, state, numbers); },
      [&](Cuda) { detail::unpack_state_cuda(stream, state, numbers); });
}

void pack_state(Stream& stream, const Tensor& numbers, const StateTensor& state) {
  check_packing("pack_state", stream, state, numbers);
  on_device(
      stream, [&](Cpu) { detail::pack_state_cpu(stream, numbers, state); },
      [&](Cuda) { detail::pack_state_cuda(stream, numbers, state); });
}

}  // namespace ds::kernels
