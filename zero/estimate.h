// Memory that parameters, gradients and Adam states need under ZeRO (pure), by the formulas that
// DeepSpeed publishes: rules of thumb for choosing hardware before anything runs. Exact figures of
// this engine come from the dry run (`dslaunch plan`). Activations and buffers are not in them,
// except as buffer_factor on host memory.
#pragma once

#include <cstdint>

namespace ds {

struct EstimateCluster {
  int64_t devices_per_node = 1;
  int64_t nodes = 1;
  double buffer_factor = 1.5;  // host memory on top of the states, for pinned buffers and copies
};

enum class OptimizerHome { kDevice, kHost };
enum class ParameterHome { kDevice, kHost };
// Whether weights are born partitioned, or whole on every rank's host first.
enum class ModelInit { kPartitioned, kWhole };

// Bytes, rounded down. host: per node. device: per device.
struct MemoryEstimate {
  int64_t host_bytes = 0;
  int64_t device_bytes = 0;
  int64_t largest_layer_bytes = 0;  // stage 3: weights and gradients of the layer that is gathered
};

// With n parameters on G devices. States on the device: 2n of 16-bit weights + 18n / G of gradients
// (2 + 4), fp32 weights (4), momentum and variance (8); host 4n per device of a node, for loading.
// States on the host: device 2n, host n * max(4G, 16).
MemoryEstimate estimate_stage2(int64_t params, OptimizerHome optimizer,
                               const EstimateCluster& cluster);

// As above with everything partitioned; device memory never falls below the gathered layer (4 bytes
// a parameter). Parameters on the host need the optimizer there, too; otherwise `parameters` is not
// looked at.
MemoryEstimate estimate_stage3(int64_t params, int64_t largest_layer_params,
                               OptimizerHome optimizer, ParameterHome parameters, ModelInit init,
                               const EstimateCluster& cluster);

}  // namespace ds
