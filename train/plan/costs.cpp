#include "train/plan/costs.h"

#include <algorithm>

#include "core/index.h"

namespace ds {

std::optional<Link> link_of(std::string_view op) {
  for (int link = 0; link < kLinks; ++link) {
    if (op == name_of(static_cast<Link>(link))) return static_cast<Link>(link);
  }
  return std::nullopt;
}

double DeviceCeilings::seconds_of(std::string_view op, const OpCost& cost) const {
  if (const auto link = link_of(op)) return cost.bytes / nth(link_bytes_per_s, *link);
  const double allowed = std::max(cost.flops / flops_per_s, cost.bytes / bytes_per_s);
  const auto known = slowdown.find(op);
  return known == slowdown.end() ? allowed : allowed * known->second;
}

namespace {

// Bytes per second of one drive, and of 16 lanes of PCIe 4, as they are reached in practice.
constexpr double kDiskRead = 3e9, kDiskWrite = 1.5e9, kPcie = 2.4e10;

}  // namespace

DeviceCeilings cpu_ceilings(int threads, DType dtype) {
  const double per_thread = dtype == DType::kF32 ? 1.0e11 : 2.0e11;
  // Between the tiers that a CPU plays bytes are copied: each is read and written.
  const double copied = 1.5e10 * threads / 2;
  return {.flops_per_s = per_thread * threads,
          .bytes_per_s = 1.5e10 * threads,
          .link_bytes_per_s = {copied, copied, kDiskRead, kDiskWrite}};
}

DeviceCeilings cuda_ceilings(DType dtype) {
  return {.device = Device::cuda(0),
          .flops_per_s = dtype == DType::kF32 ? 1.5e13 : 2.0e14,
          .bytes_per_s = 1.3e12,
          .link_bytes_per_s = {kPcie, kPcie, kDiskRead, kDiskWrite}};
}

void CostClock::on_op(std::string_view name, const OpCost& cost) {
  flops_ += cost.flops;
  if (const auto link = link_of(name)) nth(link_bytes_, *link) += cost.bytes;
  seconds_ += ceilings_.seconds_of(name, cost);
}

void CostClock::not_before(double seconds) { seconds_ = std::max(seconds_, seconds); }

}  // namespace ds
