#include "train/plan/costs.h"

#include <algorithm>

namespace ds {

double DeviceCeilings::seconds_of(std::string_view op, const OpCost& cost) const {
  const double allowed = std::max(cost.flops / flops_per_s, cost.bytes / bytes_per_s);
  const auto known = slowdown.find(op);
  return known == slowdown.end() ? allowed : allowed * known->second;
}

DeviceCeilings cpu_ceilings(int threads, DType dtype) {
  const double per_thread = dtype == DType::kF32 ? 1.0e11 : 2.0e11;
  return {.flops_per_s = per_thread * threads, .bytes_per_s = 1.5e10 * threads};
}

DeviceCeilings cuda_ceilings(DType dtype) {
  return {.device = Device::cuda(0),
          .flops_per_s = dtype == DType::kF32 ? 1.5e13 : 2.0e14,
          .bytes_per_s = 1.3e12};
}

void CostClock::on_op(std::string_view name, const OpCost& cost) {
  flops_ += cost.flops;
  seconds_ += ceilings_.seconds_of(name, cost);
}

void CostClock::not_before(double seconds) { seconds_ = std::max(seconds_, seconds); }

}  // namespace ds
