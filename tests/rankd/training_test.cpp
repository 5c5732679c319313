#include "rankd/training.h"

#include "tests/rankd/deaf_control.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/tcp_ranks.h"

using namespace ds;
using namespace ds::testing;

namespace {

// Trains as processes, and returns the final weights. `place` tells a rank how to find the others.
template <class Place>
std::string final_weights(const JobPlan& common, const Place& place) {
  std::vector<std::function<void()>> bodies;
  for (int rank = 0; rank < common.world_size; ++rank) {
    bodies.emplace_back([=] {
      JobPlan plan = common;
      plan.rank = plan.local_rank = rank;
      TcpListener listener = place(plan);
      DeafControl control(plan);
      ds::test::require(run_training(plan, control, listener) == 0, "training did not end with 0");
    });
  }
  for (const auto& result : ds::test::run_processes(bodies)) {
    CHECK(result.error == "");
    CHECK(result.status == 0);
  }
  return weights_in(common.run_dir);
}

}  // namespace

TEST_CASE("ranks that meet over TCP train to the bits of ranks that share memory", "[rankd]") {
  for (const int stage : {0, 2, 3}) {
    constexpr int kRanks = 2;
    CAPTURE(stage);
    const TemporaryDirectory folder;
    const std::string config = config_of(folder.path(), {.ranks = kRanks, .stage = stage});
    JobPlan shared = plan_of(folder.path() / "shared", kRanks, config);
    shared.shm_name = random_shm_name();
    const std::string by_memory = final_weights(shared, [](JobPlan&) { return TcpListener(); });
    const auto ranks = std::make_shared<ds::test::TcpRanks>(kRanks);
    const JobPlan apart = plan_of(folder.path() / "apart", kRanks, config);
    const std::string by_tcp = final_weights(apart, [ranks](JobPlan& plan) {
      plan.backend = "tcp";
      plan.tcp.endpoints = ranks->world.endpoints;
      plan.tcp.secret = ranks->world.secret;
      return std::move(ranks->listeners[static_cast<size_t>(plan.rank)]);
    });
    CHECK(!by_memory.empty());
    CHECK((by_memory == by_tcp));
  }
}
