#include "comm/connect.h"

#include "comm/mpi/comm.h"
#include "tests/support/catch.h"
#include "tests/support/processes.h"

using namespace ds;

TEST_CASE("connect makes a world of one, of processes, or of nobody", "[comm]") {
  const auto alone = connect({});
  CHECK(alone->size() == 1);
  alone->barrier();
  const auto meta = connect({.backend = "meta", .rank = 3, .size = 4});
  CHECK(meta->rank() == 3);
  const std::string name = random_shm_name();
  const auto join = [&](int rank) {
    return [=] { connect({.rank = rank, .size = 2, .shm_name = name})->barrier(); };
  };
  for (const auto& result : ds::test::run_processes({join(0), join(1)})) CHECK(result.error == "");
}

TEST_CASE("connect refuses backends that it does not know or have", "[comm]") {
  CHECK_THROWS_AS(connect({.backend = "gloo"}), ConfigError);
  CHECK_THROWS_WITH(connect({.backend = "nccl"}), Catch::Contains("NCCL"));
  CHECK_THROWS_WITH(connect({.size = 2}), Catch::Contains("no segment name"));
  if (!built_with_mpi()) {
    CHECK_THROWS_WITH(connect({.backend = "mpi"}), Catch::Contains("DS_WITH_MPI"));
  }
}
