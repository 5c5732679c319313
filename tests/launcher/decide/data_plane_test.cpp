#include "launcher/decide/data_plane.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

DataPlaneFacts asked(CommunicationBackend backend) { return {.asked = backend, .ranks = 4}; }

DataPlaneFacts under_mpirun() {
  return {.asked = CommunicationBackend::kMpi,
          .hosts = 2,
          .by_agents = true,
          .ranks = 4,
          .starter = "mpirun",
          .started = 4,
          .offers_pmix = true,
          .built_with_mpi = true};
}

}  // namespace

TEST_CASE("nothing said: memory where we start the ranks, TCP where agents do", "[launcher]") {
  DataPlaneFacts facts = asked(CommunicationBackend::kAuto);
  CHECK(choose_data_plane(facts) == DataPlane::kShm);
  facts.by_agents = true;  // of one host, too: what holds for hosts does not depend on their number
  CHECK(choose_data_plane(facts) == DataPlane::kTcp);
  facts.hosts = 3;
  CHECK(choose_data_plane(facts) == DataPlane::kTcp);
  facts = under_mpirun();
  facts.asked = CommunicationBackend::kAuto;
  CHECK(choose_data_plane(facts) == DataPlane::kTcp);
  facts.hosts = 1;
  facts.by_agents = false;
  CHECK(choose_data_plane(facts) == DataPlane::kShm);
}

TEST_CASE("what is asked for is had, or an error says why not", "[launcher]") {
  CHECK(choose_data_plane(asked(CommunicationBackend::kTcp)) == DataPlane::kTcp);
  DataPlaneFacts facts = asked(CommunicationBackend::kShm);
  facts.by_agents = true;
  CHECK(choose_data_plane(facts) == DataPlane::kShm);
  facts.hosts = 2;
  CHECK_THROWS_AS(choose_data_plane(facts), ConfigError);
  CHECK_THROWS_WITH(choose_data_plane(facts), Catch::Contains("this job has 2; use tcp"));
}

TEST_CASE("NCCL is beside what auto chooses, and for ranks on GPUs alone", "[launcher]") {
  DataPlaneFacts facts = asked(CommunicationBackend::kNccl);
  CHECK(choose_data_plane(facts) == DataPlane::kShm);
  facts.by_agents = true;
  facts.hosts = 2;
  CHECK(choose_data_plane(facts) == DataPlane::kTcp);

  CHECK_NOTHROW(require_device_of(CommunicationBackend::kNccl, Device::cuda(0)));
  CHECK_THROWS_AS(require_device_of(CommunicationBackend::kNccl, Device::cpu()), ConfigError);
  CHECK_THROWS_WITH(require_device_of(CommunicationBackend::kNccl, Device::cpu()),
                    Catch::Contains("compute on the CPU"));
  for (const auto other : {CommunicationBackend::kAuto, CommunicationBackend::kShm,
                           CommunicationBackend::kTcp, CommunicationBackend::kMpi}) {
    CHECK_NOTHROW(require_device_of(other, Device::cpu()));
    CHECK_NOTHROW(require_device_of(other, Device::cuda(0)));
  }
}

TEST_CASE("MPI is had in a job of MPI processes alone", "[launcher]") {
  CHECK(choose_data_plane(under_mpirun()) == DataPlane::kMpi);

  DataPlaneFacts facts = under_mpirun();
  facts.built_with_mpi = false;
  CHECK_THROWS_AS(choose_data_plane(facts), Unsupported);
  CHECK_THROWS_WITH(choose_data_plane(facts), Catch::Contains("DS_WITH_MPI=ON"));

  facts = under_mpirun();
  facts.starter = "";
  CHECK_THROWS_AS(choose_data_plane(facts), ConfigError);
  CHECK_THROWS_WITH(choose_data_plane(facts), Catch::Contains("mpirun -n RANKS dslaunch"));

  facts = under_mpirun();
  facts.offers_pmix = false;
  CHECK_THROWS_AS(choose_data_plane(facts), Unsupported);
  CHECK_THROWS_WITH(choose_data_plane(facts), Catch::Contains("mpirun of Open MPI 4"));
  facts.starter = "srun";
  CHECK_THROWS_WITH(choose_data_plane(facts), Catch::Contains("srun --mpi=pmix"));

  facts = under_mpirun();
  facts.ranks = 3;
  CHECK_THROWS_AS(choose_data_plane(facts), ConfigError);
  CHECK_THROWS_WITH(choose_data_plane(facts), Catch::Contains("MPI world of 4"));
}

TEST_CASE("data planes are called as connect() calls them", "[launcher]") {
  CHECK(name_of(DataPlane::kShm) == "shm");
  CHECK(name_of(DataPlane::kTcp) == "tcp");
  CHECK(name_of(DataPlane::kMpi) == "mpi");
}

}  // namespace ds
