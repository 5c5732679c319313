// barrier_rank: a rank (DSLAUNCH_RANKD) that joins, meets the others in its communicator, notes
// when the first barrier is over, and ends. tests/bench/launch_vs_mpirun.py starts it.
#include "comm/connect.h"
#include "rankd/control/session.h"
#include "tests/bench/collectives/barrier_stamp.h"

namespace {

int meet(const ds::JobPlan& plan, ds::ControlClient&, ds::TcpListener&) {
  const auto comm =
      ds::connect({.rank = plan.rank, .size = plan.world_size, .shm_name = plan.shm_name});
  comm->barrier();
  ds::bench::note_barrier();
  comm->barrier();
  return 0;
}

}  // namespace

int main() { return ds::run_session(meet); }
