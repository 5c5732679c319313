// The memory rules of thumb on numbers that can be checked by hand.
#include "zero/estimate.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

TEST_CASE("stage 2 divides everything but the weights", "[zero]") {
  const EstimateCluster cluster{.devices_per_node = 8, .nodes = 2, .buffer_factor = 1};
  const auto on_device = estimate_stage2(1000, OptimizerHome::kDevice, cluster);
  CHECK(on_device.device_bytes == 2000 + 1125);
  CHECK(on_device.host_bytes == 32000);
  const auto on_host = estimate_stage2(1000, OptimizerHome::kHost, cluster);
  CHECK(on_host.device_bytes == 2000);
  CHECK(on_host.host_bytes == 64000);
}

TEST_CASE("stage 3 never falls below the layer that is gathered", "[zero]") {
  const EstimateCluster cluster{.devices_per_node = 4, .nodes = 2, .buffer_factor = 1};
  const auto all_on_host = estimate_stage3(1000, 100, OptimizerHome::kHost, ParameterHome::kHost,
                                           ModelInit::kPartitioned, cluster);
  CHECK(all_on_host.device_bytes == 400);
  CHECK(all_on_host.host_bytes == 9000);
  const auto states_on_host = estimate_stage3(1000, 100, OptimizerHome::kHost,
                                              ParameterHome::kDevice, ModelInit::kWhole, cluster);
  CHECK(states_on_host.device_bytes == 400 + 250);
  CHECK(states_on_host.host_bytes == 16000);
  const auto on_device = estimate_stage3(1000, 100, OptimizerHome::kDevice, ParameterHome::kDevice,
                                         ModelInit::kPartitioned, cluster);
  CHECK(on_device.device_bytes == 400 + 2250);
  CHECK(on_device.host_bytes == 1600);
  CHECK_THROWS_AS(estimate_stage2(-1, OptimizerHome::kHost, cluster), InternalError);
}

}  // namespace
}  // namespace ds
