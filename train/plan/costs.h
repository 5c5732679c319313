// How long operations take on a machine: two ceilings (the roofline of Williams et al., CACM 2009),
// and for each kind of operation by how much it stays below them, where that was measured.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/device/across.h"
#include "core/device/trace.h"
#include "core/values/device.h"
#include "core/values/dtype.h"

namespace ds {

// What a step keeps busy, each on its own: it takes as long as the busiest of them, and longer
// where one waits for another.
enum class Busy : uint8_t { kCompute, kPeers, kToDevice, kToHost, kHost, kNvme };
inline constexpr int kBusyKinds = 6;
// "compute", "peers", "h2d", "d2h", "host_update", "nvme".
std::string_view name_of(Busy what);
using BusySeconds = std::array<double, kBusyKinds>;

struct DeviceCeilings {
  Device device = Device::cpu();  // whose they are
  double flops_per_s = 1e11;      // of all threads of a rank
  double bytes_per_s = 2e10;
  // What passes each link to another tier.
  std::array<double, kLinks> link_bytes_per_s{1e10, 1e10, 2e9, 1e9};
  // The CPU that keeps what lies beside a device and updates it there has these: all threads of a
  // rank, and its share of the host's memory. A CPU that plays both parts has those of the device.
  double host_flops_per_s = 1e11;
  double host_bytes_per_s = 2e10;
  double updater_share = 1;  // of those, what an update ahead of the norm has

  // The slowdown of an operation is the time it takes over the time that the ceilings allow. What
  // is not named here is expected to reach them.
  std::map<std::string, double, std::less<>> slowdown{};

  // This is the bandwidth of each host to others, which a rank's groups share, and how many ranks a
  // host has; 0: there is one host.
  double network_bytes_per_s = 1.25e10;
  int ranks_of_host = 0;

  // Peers are talked to on a stream of its own, while the other computes.
  bool overlaps_communication = false;
  // Pinned memory that a rank of a GPU has beside its steps: what files pass through, and what
  // groups of the host carry tensors in.
  size_t pinned_beside = 0;

  double seconds_of(std::string_view op, const OpCost& cost) const;
  // As of a device: that CPU, or such a share of it.
  DeviceCeilings of_host(double share = 1) const;
};
// The link that an operation passes, by its name; nothing where it is one of the device's own.
std::optional<Link> link_of(std::string_view op);

// A cautious guess for CPU threads.
DeviceCeilings cpu_ceilings(int threads, DType dtype);
// This is a cautious guess for a GPU of a data centre (A100 and newer), with products of fp32 in
// fp32, in a host of which the rank has so many threads, and `ranks` have GPUs.
DeviceCeilings cuda_ceilings(DType dtype, int threads = 1, int ranks = 1);

// The clock of one stream: what it is given takes as long as the ceilings say, one after the other.
class CostClock final : public Trace {
 public:
  // The ceilings must outlive the clock. `own`: what is busy with operations that pass no link and
  // are no talk of peers.
  explicit CostClock(const DeviceCeilings& ceilings, Busy own = Busy::kCompute)
      : ceilings_(ceilings), own_(own) {}
  void on_op(std::string_view name, const OpCost& cost) override;
  double now() const override { return seconds_; }
  void not_before(double seconds) override;
  // Counts from here on, at that time, which is not before now.
  void begin(double seconds);
  double flops() const { return flops_; }
  const std::array<double, kLinks>& link_bytes() const { return link_bytes_; }
  const BusySeconds& busy() const { return busy_; }

 private:
  Busy busy_with(std::string_view op) const;

  const DeviceCeilings& ceilings_;
  const Busy own_;
  double seconds_ = 0;
  BusySeconds busy_{};
  double flops_ = 0;
  std::array<double, kLinks> link_bytes_{};
};

}  // namespace ds
