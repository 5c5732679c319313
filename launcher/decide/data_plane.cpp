#include "launcher/decide/data_plane.h"

#include "core/status/error.h"

namespace ds {
namespace {

void require_one_host(const DataPlaneFacts& facts) {
  if (facts.hosts <= 1) return;
  throw ConfigError(
      fmt::format("communication.backend: shm is memory of one host, and this job has {}; use tcp, "
                  "or leave it out",
                  facts.hosts));
}

void require_mpi_job(const DataPlaneFacts& facts) {
  if (!facts.built_with_mpi) {
    throw Unsupported(
        "communication.backend: mpi is not in this build; install libopenmpi-dev and build with "
        "DS_WITH_MPI=ON");
  }
  if (facts.starter != "mpirun" && facts.starter != "srun") {
    throw ConfigError(
        "communication.backend: mpi wants two ranks or more and one dslaunch for each, started by "
        "mpirun or srun: mpirun -n RANKS dslaunch train.json, srun --mpi=pmix -n RANKS dslaunch "
        "train.json; elsewhere use shm or tcp, or leave it out");
  }
  if (!facts.offers_pmix) {
    throw Unsupported(
        fmt::format("communication.backend: mpi needs PMIx, and {} has set no PMIX_NAMESPACE, "
                    "PMIX_RANK and PMIX_SERVER_URI; use {}, or another backend",
                    facts.starter,
                    facts.starter == "srun" ? "srun --mpi=pmix" : "mpirun of Open MPI 4 or newer"));
  }
  if (facts.ranks != facts.started) {
    throw ConfigError(
        fmt::format("communication.backend: {} has started an MPI world of {}, and this job has {} "
                    "ranks; start as many as it has",
                    facts.starter, facts.started, facts.ranks));
  }
}

}  // namespace

std::string_view name_of(DataPlane plane) {
  switch (plane) {
    case DataPlane::kShm:
      return "shm";
    case DataPlane::kTcp:
      return "tcp";
    case DataPlane::kMpi:
      return "mpi";
  }
  throw InternalError("a data plane without a name");
}

DataPlane choose_data_plane(const DataPlaneFacts& facts) {
  switch (facts.asked) {
    case CommunicationBackend::kAuto:
    case CommunicationBackend::kNccl:
      return facts.by_agents ? DataPlane::kTcp : DataPlane::kShm;
    case CommunicationBackend::kShm:
      require_one_host(facts);
      return DataPlane::kShm;
    case CommunicationBackend::kTcp:
      return DataPlane::kTcp;
    case CommunicationBackend::kMpi:
      require_mpi_job(facts);
      return DataPlane::kMpi;
  }
  throw InternalError("a backend that nobody chooses by");
}

void require_device_of(CommunicationBackend asked, Device device) {
  if (asked != CommunicationBackend::kNccl || device.kind == Device::Kind::kCuda) return;
  throw ConfigError(
      "communication.backend: nccl is for tensors of GPUs, and the ranks of this job compute on "
      "the CPU; leave it out, or see `dslaunch env` for why they do not compute on GPUs");
}

}  // namespace ds
