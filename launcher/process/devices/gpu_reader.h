// How the GPUs of this machine are, through NVML. Confined to one thread. Refuses to change
// anything about them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/libraries/nvml.h"
#include "launcher/decide/devices/gpu_state.h"

namespace ds {

class GpuReader {
 public:
  // Throws Unsupported where there is no NVML, or its driver is not loaded.
  explicit GpuReader(const std::string& file = kNvmlFile);
  GpuReader(const GpuReader&) = delete;  // ends what it has started
  GpuReader& operator=(const GpuReader&) = delete;
  ~GpuReader();

  // All that can be known.
  GpuReport read();
  // Only what identifies GPUs, and their figures.
  GpuReport sample();

 private:
  GpuState identify(unsigned int index, nvmlDevice_t& device) const;
  GpuFigures figures(nvmlDevice_t device) const;
  void add_memory(nvmlDevice_t device, GpuFigures& figures) const;
  // Adds the parts of a GPU in MIG mode: each is as the GPU is but for what is its own. Returns the
  // handles by which NVML knows the parts.
  std::vector<nvmlDevice_t> add_parts(nvmlDevice_t device, GpuState& state) const;
  void add_health(nvmlDevice_t device, GpuState& state) const;
  void add_processes(nvmlDevice_t device, GpuState& state) const;
  void add_peers(const std::vector<nvmlDevice_t>& devices, GpuReport& report) const;
  void watch_for_xids();
  void take_xids();
  std::string description(nvmlReturn_t result) const;

  const Nvml nvml_;
  std::vector<nvmlDevice_t> devices_;  // null where one does not answer
  nvmlEventSet_t events_ = nullptr;
  std::map<nvmlDevice_t, int64_t> xids_;
};

// What read() says, or why nothing can be said.
GpuReport gpus_of_this_machine();

}  // namespace ds
