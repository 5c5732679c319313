// Over what the ranks of a job talk to each other (pure): what communication.backend asks for,
// against how the ranks are started, what this build has and on what they compute. Refuses, before
// any rank is started, what cannot be had; nothing is replaced in silence.
#pragma once

#include <string>
#include <string_view>

#include "config/sections/training.h"
#include "core/values/device.h"

namespace ds {

enum class DataPlane { kShm, kTcp, kMpi };
std::string_view name_of(DataPlane plane);  // as comm/connect.h calls it

struct DataPlaneFacts {
  CommunicationBackend asked = CommunicationBackend::kAuto;
  int hosts = 1;             // on which ranks may be, spares included
  bool by_agents = false;    // ranks are started by agents of hosts, which may be this machine
  int ranks = 1;             // of the first world
  std::string starter = {};  // "mpirun" or "srun" where it started one dslaunch for each rank
  int started = 0;           // how many of them
  bool offers_pmix = false;  // it also told them how they find each other as MPI processes
  bool built_with_mpi = false;
};

// Throws ConfigError where the start does not allow it, Unsupported where the build or the starter
// lacks it. NCCL carries tensors of GPUs and needs another plane beside it, which is that of auto.
DataPlane choose_data_plane(const DataPlaneFacts& facts);

// Throws ConfigError where ranks of that device have no use for what is asked for.
void require_device_of(CommunicationBackend asked, Device device);

}  // namespace ds
