#include "launcher/run/job_devices.h"

#include <algorithm>

#include "core/values/index.h"
#include "launcher/process/world.h"

namespace ds {

HostGpus JobDevices::here() const { return {.all = own_, .of_slots = of_slots("")}; }

Device JobDevices::local_device() const {
  return choose_device(request_.wish, build_, {here()}).device;
}

int JobDevices::local_gpus() const {
  const bool gpus = local_device().kind == Device::Kind::kCuda && build_ == BuildDevices::kGpus;
  return gpus ? narrow<int>(own_.names.size()) : 0;
}

RankDevices JobDevices::place_here(const std::vector<RankPlacement>& ranks) const {
  HostGpus host = here();
  if (!ranks.empty()) host.host = ranks.front().host;
  return place_on(ranks, {host});
}

RankDevices JobDevices::place(const std::vector<RankPlacement>& ranks,
                              const std::vector<ReachedHost>& reached) const {
  return place_on(ranks, gpus_of(ranks, reached));
}

RankDevices JobDevices::place_on(const std::vector<RankPlacement>& ranks,
                                 const std::vector<HostGpus>& hosts) const {
  RankDevices out = choose_device(request_.wish, build_, hosts);
  if (out.device.kind == Device::Kind::kCpu || build_ != BuildDevices::kGpus) return out;
  RankDevices placed = place_on_gpus(ranks, hosts, request_.sharing);
  out.gpus = std::move(placed.gpus);
  out.notes.insert(out.notes.end(), placed.notes.begin(), placed.notes.end());
  return out;
}

std::vector<std::string> JobDevices::place_again(const RankDevices& first,
                                                 const std::vector<RankPlacement>& ranks,
                                                 const std::vector<ReachedHost>& reached) const {
  if (first.gpus.empty()) return {};
  std::vector<std::string> unfit;
  std::string why;
  const std::vector<HostGpus> hosts = gpus_of(ranks, reached);
  for (const HostGpus& host : hosts) {
    try {
      place_on_gpus(ranks, {host}, request_.sharing);
    } catch (const Error& error) {
      unfit.push_back(host.host);
      why += (why.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  if (!unfit.empty()) throw HostsUnusable(why, std::move(unfit));
  return place_on_gpus(ranks, hosts, request_.sharing).gpus;
}

std::vector<std::vector<std::string>> JobDevices::of_slots(const std::string& host) const {
  const auto found = of_slots_.find(host);
  return found == of_slots_.end() ? std::vector<std::vector<std::string>>{} : found->second;
}

std::vector<HostGpus> JobDevices::gpus_of(const std::vector<RankPlacement>& ranks,
                                          const std::vector<ReachedHost>& reached) const {
  std::vector<HostGpus> out;
  for (const ReachedHost& host : reached) {
    const std::string& name = host.link->host();
    const bool wanted = std::ranges::find(ranks, name, &RankPlacement::host) != ranks.end();
    if (!wanted) continue;
    const agent::Ready& ready = *host.link->ready();
    out.push_back({.host = name,
                   .all = {.names = {ready.gpu_names().begin(), ready.gpu_names().end()},
                           .why_none = ready.why_no_gpu()},
                   .of_slots = of_slots(name)});
  }
  return out;
}

}  // namespace ds
