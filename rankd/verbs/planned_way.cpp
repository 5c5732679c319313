#include "rankd/verbs/planned_way.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "config/effect.h"
#include "config/load.h"
#include "core/files/file.h"
#include "core/values/number_text.h"
#include "kernels/front/cuda_halves.h"
#include "rankd/device/rank_device.h"
#include "train/assemble.h"
#include "train/plan/calibration.h"

namespace ds {
namespace {

DeviceCeilings ceilings_of_gpus(const PlanArgs& args, const PlannedWay& way) {
  if (!kernels::has_cuda_halves()) {
    throw Unsupported(
        "plan --device cuda: this build has no kernels of GPUs, whose scratch memory a plan "
        "counts; configure one with DS_WITH_CUDA=ON, which needs nvcc and no GPU");
  }
  return cuda_ceilings(way.options, way.config, args.ranks(), args.threads);
}

// What weights and state are swapped to, where it is on this machine; where they go to two disks,
// that of the state, through which more passes.
std::optional<DiskToMeasure> disk_of(const Config& config) {
  const auto& param = config.zero_optimization.offload_param;
  const auto& optimizer = config.zero_optimization.offload_optimizer;
  std::optional<std::string> path;
  if (param && param->device == OffloadDevice::kNvme) path = param->nvme_path;
  if (optimizer && optimizer->device == OffloadDevice::kNvme) path = optimizer->nvme_path;
  if (!path) return std::nullopt;
  if (!RealFileSystem().exists(*path)) {
    spdlog::warn("plan: {} is not on this machine, so the time that its disk takes is a guess",
                 *path);
    return std::nullopt;
  }
  return DiskToMeasure{.folder = *path, .io = io_options(config.aio, *path)};
}

std::string words_of(const Problem& problem) {
  return problem.path.empty() ? problem.message
                              : fmt::format("{}: {}", problem.path, problem.message);
}

}  // namespace

WayRead read_way(const PlanArgs& args, const ModelConfig& model, const Settings& settings) {
  Settings overrides = args.overrides;
  overrides.insert(overrides.end(), settings.begin(), settings.end());
  try {
    ReadConfig read = read_config(args.config_path, overrides);
    const std::vector<Problem>& problems = read.problems.all();
    const auto error = std::ranges::find(problems, Severity::kError, &Problem::severity);
    if (error != problems.end()) return {.refused = words_of(*error)};
    for (const MissingFeature& missing : effects_of(read.config).missing) {
      return {.refused = fmt::format("{}: {}", missing.path, missing.message)};
    }
    EngineOptions options = engine_options(read.config, model, args.ranks());
    return {.way = PlannedWay{.config = std::move(read.config), .options = std::move(options)}};
  } catch (const ConfigError& error) {
    return {.refused = error.what()};
  } catch (const Unsupported& error) {
    return {.refused = error.what()};
  }
}

DeviceCeilings planned_ceilings(const PlanArgs& args, const PlannedWay& way) {
  const bool on_gpus = args.device == "cuda";
  DeviceCeilings ceilings =
      on_gpus ? ceilings_of_gpus(args, way)
              : calibrate(way.options, ranks_here(args.ranks_of_host(), args.threads));
  if (!on_gpus) measure_links(disk_of(way.config), ceilings);
  if (args.num_hosts) ceilings.ranks_of_host = args.ranks_of_host();
  if (args.network) {
    ceilings.network_bytes_per_s = static_cast<double>(parse_bytes(*args.network).value());
  }
  return ceilings;
}

}  // namespace ds
