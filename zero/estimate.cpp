// Memory rules of thumb.
#include "zero/estimate.h"

#include <algorithm>

#include "core/status/error.h"

namespace ds {

namespace {

int64_t bytes(double value) { return static_cast<int64_t>(value); }

double real(int64_t value) { return static_cast<double>(value); }

void check(int64_t params, const EstimateCluster& cluster) {
  DS_CHECK(params >= 0 && cluster.devices_per_node >= 1 && cluster.nodes >= 1,
           "estimate: {} parameters on {} nodes with {} devices", params, cluster.nodes,
           cluster.devices_per_node);
}

}  // namespace

MemoryEstimate estimate_stage2(int64_t params, OptimizerHome optimizer,
                               const EstimateCluster& cluster) {
  check(params, cluster);
  const int64_t devices = cluster.nodes * cluster.devices_per_node;
  if (optimizer == OptimizerHome::kHost) {
    const int64_t per_parameter = std::max<int64_t>(4 * devices, 16);
    return {.host_bytes = bytes(real(params * per_parameter) * cluster.buffer_factor),
            .device_bytes = 2 * params};
  }
  return {.host_bytes = bytes(real(params * 4 * cluster.devices_per_node) * cluster.buffer_factor),
          .device_bytes = 2 * params + bytes(real(18 * params) / real(devices))};
}

MemoryEstimate estimate_stage3(int64_t params, int64_t largest_layer_params,
                               OptimizerHome optimizer, ParameterHome parameters, ModelInit init,
                               const EstimateCluster& cluster) {
  check(params, cluster);
  const int64_t devices = cluster.nodes * cluster.devices_per_node;
  const int64_t layer = 4 * largest_layer_params;
  const double node_share = 1.0 / real(cluster.nodes);
  const double whole_copies = real(4 * cluster.devices_per_node);
  double host = 0;
  int64_t device = layer;
  if (optimizer == OptimizerHome::kHost) {
    const bool weights_too = parameters == ParameterHome::kHost;
    const int64_t per_parameter = weights_too ? 18 : 16;
    if (!weights_too) device += bytes(real(2 * params) / real(devices));
    host = init == ModelInit::kPartitioned
               ? real(params * per_parameter) * node_share
               : real(params) * std::max(whole_copies, real(per_parameter) * node_share);
  } else {
    device += bytes(real(18 * params) / real(devices));
    host = real(init == ModelInit::kPartitioned ? largest_layer_params : params) * whole_copies;
  }
  return {.host_bytes = bytes(host * cluster.buffer_factor),
          .device_bytes = device,
          .largest_layer_bytes = layer};
}

}  // namespace ds
