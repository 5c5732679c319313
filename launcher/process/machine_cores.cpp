#include "launcher/process/machine_cores.h"

#include <hwloc.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "core/status/error.h"

namespace ds {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, DestroyTopology>;

Topology load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) {
    throw Unsupported(fmt::format("hwloc cannot be used here: {}", std::strerror(errno)));
  }
  Topology topology(raw);
  // Caches, devices and the like would only take time.
  hwloc_topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc_topology_load(raw) != 0) {
    throw Unsupported(fmt::format("hwloc cannot read this machine: {}", std::strerror(errno)));
  }
  return topology;
}

PhysicalCore core_of(hwloc_topology_t topology, hwloc_obj_t object) {
  PhysicalCore core;
  for (int cpu = hwloc_bitmap_first(object->cpuset); cpu >= 0;
       cpu = hwloc_bitmap_next(object->cpuset, cpu)) {
    core.cpus.push_back(cpu);
  }
  core.numa = std::max(0, hwloc_bitmap_first(object->nodeset));
  const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object);
  core.package = package ? static_cast<int>(package->logical_index) : 0;
  return core;
}

}  // namespace

std::vector<PhysicalCore> machine_cores() {
  const Topology topology = load_topology();
  // Some virtual machines know processors, and nothing of cores.
  const bool has_cores = hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_CORE) > 0;
  const hwloc_obj_type_t type = has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  std::vector<PhysicalCore> cores;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology.get(), type, object)) != nullptr) {
    cores.push_back(core_of(topology.get(), object));
  }
  return cores;
}

}  // namespace ds
