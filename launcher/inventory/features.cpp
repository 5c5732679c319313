#include "launcher/inventory/features.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ds {
namespace {

// Features that stand or fall with a key of train.json.
struct KeyedFeature {
  const char* name;
  const char* needs;
  const char* key;
};

constexpr std::array kKeyed{
    KeyedFeature{"fp16", "fp16 kernels", "fp16"},
    KeyedFeature{"activations partitioned or on the CPU", "recomputation in the engine",
                 "activation_checkpointing"},
    KeyedFeature{"optimizer state off the device", "offload; for NVMe also libaio or liburing",
                 "zero_optimization.offload_optimizer"},
    KeyedFeature{"parameters off the device", "offload; for NVMe also libaio or liburing",
                 "zero_optimization.offload_param"},
    KeyedFeature{"pipeline parallelism", "stages in the engine", "pipeline.stages"},
    KeyedFeature{"tensor parallelism", "split layers in the engine", "tensor_parallel.autotp_size"},
    KeyedFeature{"expert parallelism", "mixture-of-experts layers", "expert_parallel"},
    KeyedFeature{"sequence parallelism", "split sequences in the engine", "sequence_parallel_size"},
    KeyedFeature{"curriculum", "a sampler by difficulty",
                 "data_efficiency.data_sampling.curriculum_learning"},
    KeyedFeature{"TensorBoard", "a writer of its event files", "tensorboard"},
    KeyedFeature{"FLOPs profiler", "counts per module", "flops_profiler"},
    KeyedFeature{"autotuning", "a search over configurations", "autotuning"},
};

bool contains(const std::vector<std::string>& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

// The key itself, or one in the section that it names.
bool refuses(const std::vector<std::string>& missing_keys, const std::string& key) {
  return std::ranges::any_of(missing_keys, [&](const std::string& missing) {
    return missing == key || missing.starts_with(key + ".");
  });
}

FeatureFact feature(std::string name, std::string needs, std::optional<bool> has, std::string how) {
  return {std::move(name), std::move(needs), has, has == true ? "" : std::move(how)};
}

FeatureFact by_program(const FeatureInputs& inputs, const char* name, const char* program,
                       const char* how) {
  return feature(name, fmt::format("{} in PATH", program), contains(inputs.programs, program), how);
}

FeatureFact gpu_feature(const FeatureInputs& inputs) {
  const char* const how =
      inputs.has_cuda
          ? "this machine shows no GPU: install the driver, or let the container have it"
          : "build with DS_WITH_CUDA=ON; this one computes on CPUs, whatever is installed";
  return feature("GPUs", "training by CUDA kernels, an NVIDIA driver",
                 inputs.has_cuda && inputs.gpus > 0, how);
}

}  // namespace

std::vector<FeatureFact> judge_features(const FeatureInputs& inputs) {
  const bool engine = inputs.engine_problem.empty();
  std::vector<FeatureFact> out;
  out.push_back(
      feature("training on CPUs", "rankd of the same build", engine, inputs.engine_problem));
  out.push_back(feature(
      "bf16 faster than fp32", "AMX, or AVX512-BF16 of AMD",
      engine ? inputs.bf16_products : std::nullopt,
      engine ? "bf16 trains here too: products are computed in fp32" : "rankd could not be asked"));
  out.push_back(feature("several ranks on a machine", "/dev/shm",
                        inputs.shared_memory_problem.empty(), inputs.shared_memory_problem));
  out.push_back(by_program(inputs, "hosts by ssh", "ssh", "apt install openssh-client"));
  out.push_back(by_program(inputs, "hosts by mpirun", "mpirun", "apt install openmpi-bin"));
  out.push_back(by_program(inputs, "hosts by Slurm", "srun",
                           "apt install slurm-client, or run inside of an allocation"));
  out.push_back(
      feature("MPI communicator", "OpenMPI when it was built", inputs.has_mpi,
              "build with DS_WITH_MPI=ON; runs use shared memory and TCP, and do without"));
  out.push_back(gpu_feature(inputs));
  out.push_back(feature("Parquet", "Apache Arrow when it was built", false,
                        "no build has it yet; JSON lines and text are read, also compressed"));
  for (const KeyedFeature& keyed : kKeyed) {
    out.push_back(feature(keyed.name, keyed.needs, !refuses(inputs.missing_keys, keyed.key),
                          fmt::format("not in this build, which refuses \"{}\"", keyed.key)));
  }
  return out;
}

}  // namespace ds
