// What was measured on hosts, what a job asks of them, and what is wrong with them: the words in
// which preflight.h judges.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/decide/devices/device_choice.h"
#include "launcher/decide/hosts/host_filter.h"
#include "proto/agent.pb.h"

namespace ds {

// What the job asks of its hosts. 0: not known, so not judged.
struct PreflightNeeds {
  int world_size = 1;
  int threads = 1;               // of each rank
  int64_t memory_bytes = 0;      // of each rank at its peak
  int64_t checkpoint_bytes = 0;  // of one checkpoint, of all ranks
  bool uses_gpus = false;        // slots are GPUs, not shares of the cores
  GpuSharing gpu_sharing = GpuSharing::kRefused;
  // As HostGpus::of_slots, by host.
  std::map<std::string, std::vector<std::vector<std::string>>> slot_gpus{};
  int64_t gpu_memory_bytes = 0;   // of each rank at its peak
  bool shares_directory = false;  // several machines write into the run directory
};

// How far a host's clock is from ours, and how well that is known.
struct ClockOffset {
  int64_t offset_us = 0;  // positive: it is ahead
  int64_t uncertainty_us = 0;
};
struct SurveyedHost {
  HostSlots host;         // empty name: this machine; a rank for each slot
  std::string problem{};  // why it could not be asked; there are no facts then
  std::string advice{};   // what to do about that, empty where nobody knows
  std::optional<agent::Facts> facts{};
  std::optional<ClockOffset> clock{};  // none: it is our own
  std::string own_file_error{};        // why the launcher does not see what the host wrote
};

enum class FindingLevel { kBad, kWarning };

struct Finding {
  std::string host;
  std::string check;  // "disk", "clock", ...
  FindingLevel level = FindingLevel::kBad;
  std::string what;
  std::string fix;
};

}  // namespace ds
