#include "train/plan/costs.h"

#include <algorithm>

#include "comm/contract/operation.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

std::optional<Link> link_of(std::string_view op) {
  for (int link = 0; link < kLinks; ++link) {
    if (op == name_of(static_cast<Link>(link))) return static_cast<Link>(link);
  }
  return std::nullopt;
}

std::string_view name_of(Busy what) {
  switch (what) {
    case Busy::kCompute:
      return "compute";
    case Busy::kPeers:
      return "peers";
    case Busy::kToDevice:
      return name_of(Link::kToDevice);
    case Busy::kToHost:
      return name_of(Link::kToHost);
    case Busy::kHost:
      return "host_update";
    case Busy::kNvme:
      return "nvme";
  }
  throw InternalError("name_of: what is busy is unknown");
}

double DeviceCeilings::seconds_of(std::string_view op, const OpCost& cost) const {
  if (const auto link = link_of(op)) return cost.bytes / nth(link_bytes_per_s, *link);
  if (op == kBetweenHosts) return cost.bytes / network_bytes_per_s;
  const double allowed = std::max(cost.flops / flops_per_s, cost.bytes / bytes_per_s);
  const auto known = slowdown.find(op);
  return known == slowdown.end() ? allowed : allowed * known->second;
}

DeviceCeilings DeviceCeilings::of_host(double share) const {
  return {.flops_per_s = host_flops_per_s * share,
          .bytes_per_s = host_bytes_per_s * share,
          .link_bytes_per_s = link_bytes_per_s};
}

namespace {

// Bytes per second of one drive, and of 16 lanes of PCIe 4, as they are reached in practice.
constexpr double kDiskRead = 3e9, kDiskWrite = 1.5e9, kPcie = 2.4e10;
// This is the memory bandwidth of a host with data-centre GPUs, and how many GPUs most have.
constexpr double kHostMemory = 4e11;
constexpr int kGpusOfHost = 8;
constexpr double kFlopsOfThread = 1e11, kBytesOfThread = 1.5e10;

}  // namespace

DeviceCeilings cpu_ceilings(int threads, DType dtype) {
  const double per_thread = dtype == DType::kF32 ? kFlopsOfThread : 2 * kFlopsOfThread;
  // Between the tiers that a CPU plays bytes are copied: each is read and written.
  const double copied = kBytesOfThread * threads / 2;
  return {.flops_per_s = per_thread * threads,
          .bytes_per_s = kBytesOfThread * threads,
          .link_bytes_per_s = {copied, copied, kDiskRead, kDiskWrite}};
}

DeviceCeilings cuda_ceilings(DType dtype, int threads, int ranks) {
  return {.device = Device::cuda(0),
          .flops_per_s = dtype == DType::kF32 ? 1.5e13 : 2.0e14,
          .bytes_per_s = 1.3e12,
          .link_bytes_per_s = {kPcie, kPcie, kDiskRead, kDiskWrite},
          .host_flops_per_s = kFlopsOfThread * threads,
          .host_bytes_per_s =
              std::min(kBytesOfThread * threads, kHostMemory / std::min(ranks, kGpusOfHost))};
}

namespace {

bool is_of_peers(std::string_view op) {
  if (op == kBetweenHosts) return true;
  for (int kind = 0; kind <= static_cast<int>(CommOp::kSplit); ++kind) {
    if (op == name_of(static_cast<CommOp>(kind))) return true;
  }
  return false;
}

}  // namespace

Busy CostClock::busy_with(std::string_view op) const {
  if (const auto link = link_of(op)) {
    switch (*link) {
      case Link::kToDevice:
        return Busy::kToDevice;
      case Link::kToHost:
        return Busy::kToHost;
      case Link::kNvmeRead:
      case Link::kNvmeWrite:
        return Busy::kNvme;
    }
  }
  return is_of_peers(op) ? Busy::kPeers : own_;
}

void CostClock::on_op(std::string_view name, const OpCost& cost) {
  flops_ += cost.flops;
  if (const auto link = link_of(name)) nth(link_bytes_, *link) += cost.bytes;
  const double seconds = ceilings_.seconds_of(name, cost);
  nth(busy_, busy_with(name)) += seconds;
  seconds_ += seconds;
}

void CostClock::begin(double seconds) {
  not_before(seconds);
  flops_ = 0;
  link_bytes_ = {};
  busy_ = {};
}

void CostClock::not_before(double seconds) { seconds_ = std::max(seconds_, seconds); }

}  // namespace ds
