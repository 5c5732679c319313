#include "train/watch/memory_saver.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/train/heard_reports.h"
#include "tests/train/runs/small_engine.h"
#include "train/workspace.h"

namespace ds {
namespace {

using namespace testing;
using Lines = std::vector<std::string>;

TEST_CASE("states are kept when they are due, and what fails costs nothing but a warning",
          "[train]") {
  const Fd host(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  test::run_ranks(1, [&](Communicator& comm) {
    Connections connections = Connections::over(comm, {.data = comm.size()});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    Engine engine(options_of({}), workspace.resources(), std::nullopt);
    engine.initialize();
    JobPlan plan;
    plan.run_dir = "/run";
    plan.memory_fd = host.get();
    MemoryTier memory(engine, plan, connections.peers().host);
    memory.find();
    memory.settle(nullptr, 1, {});
    HeardReports heard;
    MemorySaver saver(memory, heard, {.rank = 0, .every = 2, .copy_every = 4, .last_step = 8});
    const auto edge = [&](int64_t step) {
      engine.restore_step(step);
      saver.at_edge(step);
      return heard.take();
    };
    Measured measured;
    saver.measure(measured);
    CHECK(measured.results.empty());
    for (const int64_t step : {1, 8}) CHECK_FALSE(saver.needs_edge(step));
    for (const int64_t step : {2, 4}) CHECK(saver.needs_edge(step));
    CHECK(edge(1).empty());
    CHECK(edge(2) == Lines{"save 2.0"});
    saver.measure(measured);
    CHECK(measured.results.at("seconds_per_memory_save") > 0);
    CHECK(edge(8).empty());  // nothing comes after it
    REQUIRE(fcntl(host.get(), F_ADD_SEALS, F_SEAL_WRITE) == 0);
    const Lines said = edge(4);
    REQUIRE(said.size() == 2);
    CHECK_THAT(said[1], Catch::StartsWith("warning: step 4 could not be kept in memory"));
    CHECK(edge(6) == Lines{"save 6.0"});  // said once
  });
}

}  // namespace
}  // namespace ds
