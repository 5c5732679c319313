// The devices of a run's ranks, from what this machine and the hosts' agents say of theirs.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "launcher/agents/host_agents.h"
#include "launcher/decide/devices/device_choice.h"

namespace ds {

// host -> what mpirun or srun left to each slot of it; "" is this machine, where it is the only
// one.
using SlotGpus = std::map<std::string, std::vector<std::vector<std::string>>>;

class JobDevices {
 public:
  // `own` are the GPUs that this process may use.
  JobDevices(DeviceRequest request, BuildDevices build, VisibleGpus own, SlotGpus of_slots)
      : request_(request), build_(build), own_(std::move(own)), of_slots_(std::move(of_slots)) {}

  // Returns the device of ranks without hosts. Throws as choose_device().
  Device local_device() const;
  // How many ranks without hosts have a GPU each; 0: they do not compute on GPUs. Throws as
  // choose_device().
  int local_gpus() const;
  // These return the devices of ranks on this machine alone, and of ranks on hosts that were
  // reached. They throw as choose_device() and place_on_gpus().
  RankDevices place_here(const std::vector<RankPlacement>& ranks) const;
  RankDevices place(const std::vector<RankPlacement>& ranks,
                    const std::vector<ReachedHost>& reached) const;
  const SlotGpus& slot_gpus() const { return of_slots_; }
  // For epochs that follow: the GPUs of their ranks, if `first` has some. Throws HostsUnusable.
  std::vector<std::string> place_again(const RankDevices& first,
                                       const std::vector<RankPlacement>& ranks,
                                       const std::vector<ReachedHost>& reached) const;

 private:
  HostGpus here() const;
  RankDevices place_on(const std::vector<RankPlacement>& ranks,
                       const std::vector<HostGpus>& hosts) const;
  std::vector<std::vector<std::string>> of_slots(const std::string& host) const;
  std::vector<HostGpus> gpus_of(const std::vector<RankPlacement>& ranks,
                                const std::vector<ReachedHost>& reached) const;

  DeviceRequest request_;
  BuildDevices build_;
  VisibleGpus own_;
  SlotGpus of_slots_;
};

}  // namespace ds
