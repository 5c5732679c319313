// What a user may want to do, what that needs, and whether this build on this machine has it
// (pure).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/inventory/inventory.h"

namespace ds {

struct FeatureInputs {
  std::string engine_problem{};  // why rankd could not be asked, or does not fit; empty: it fits
  std::optional<bool> bf16_products{};
  std::string shared_memory_problem{};  // of /dev/shm; empty: it can be written
  std::vector<std::string> programs{};  // of ssh, mpirun and srun, those that were found
  bool has_cuda = false;                // the build trains on GPUs
  bool has_mpi = false;
  int gpus = 0;                             // of this machine
  std::vector<std::string> missing_keys{};  // config/available.h
};

std::vector<FeatureFact> judge_features(const FeatureInputs& inputs);

}  // namespace ds
