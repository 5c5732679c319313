#include "rankd/rank_device.h"

#include <functional>

#include "comm/host_exchange.h"
#include "comm/nccl/comm.h"
#include "comm/solo_comm.h"
#include "comm/staged_comm.h"
#include "core/cuda/library_calls.h"
#include "core/host.h"
#include "core/libraries/gpu_libraries.h"
#include "kernels/attention_choice.h"

namespace ds {
namespace {

// The launcher sees a rank that hangs long before, as with the group of the hosts.
constexpr std::chrono::minutes kLongestWait{60};
// What is made at first use, and not when a step is planned: words of flags, tables.
constexpr size_t kUnplannedBytes = size_t{1} << 20;

std::optional<DeviceBlocks> blocks_of(const JobPlan& job, const BlockSizes& planned) {
  if (job.device.kind != Device::Kind::kCuda) return std::nullopt;
  const size_t of_collectives = job.world_size > 1 ? NcclOptions{}.scratch_bytes : 0;
  return DeviceBlocks(job.device, {.device = planned.device + of_collectives + kUnplannedBytes,
                                   .pinned = planned.pinned + kUnplannedBytes});
}

// Empty: it is there.
std::string why_no_nccl_here() {
  try {
    require_table(GpuLibrary::kNccl);
    return "";
  } catch (const Unsupported& missing) {
    return missing.what();
  }
}

double attention_dropout(const ModelConfig& model) {
  const auto* const gpt2 = std::get_if<Gpt2Config>(&model);
  return gpt2 != nullptr ? gpt2->attn_pdrop : std::get<LlamaConfig>(model).attention_dropout;
}

uint64_t gpu_of_host(Device device) {
  return std::hash<std::string>()(own_host_name() + "/" + unique_name(device));
}

}  // namespace

DeviceCeilings ceilings_of(const JobPlan& job, const ZeroConfig& zero, DType dtype) {
  if (job.device.kind != Device::Kind::kCuda) return cpu_ceilings(job.threads, dtype);
  DeviceCeilings ceilings = cuda_ceilings(dtype);
  ceilings.overlaps_communication = zero.overlap_comm;
  return ceilings;
}

TensorTransport::TensorTransport(const JobPlan& job, NcclWish wish, Communicator& world,
                                 const DeviceBlocks* blocks)
    : group_(&world) {
  if (blocks == nullptr) return;
  const std::string lack = wish == NcclWish::kNever ? "" : why_no_nccl_here();
  HostExchange exchange(world);
  const std::vector<TensorFacts> facts = exchange.gather(
      std::vector{TensorFacts{.gpu = gpu_of_host(job.device), .has_nccl = lack.empty()}});
  const TensorPathChoice choice = choose_tensor_path(wish, facts, lack);
  switch (choice.path) {
    case TensorPath::kAlone:
      own_ = std::make_unique<SoloComm>(*blocks->device);
      words_ = "one rank";
      break;
    case TensorPath::kNccl:
      own_ = open_nccl_group(
          world, {.device = job.device, .memory = blocks->device.get(), .timeout = kLongestWait});
      words_ = "collectives by NCCL";
      break;
    case TensorPath::kStaged:
      own_ = std::make_unique<StagedComm>(
          world,
          StagedOptions{.memory = blocks->device.get(), .pool = &pool_.emplace(job.threads)});
      words_ = "collectives through host memory";
      if (!choice.why.empty()) words_ += fmt::format(" ({})", choice.why);
      break;
  }
  group_ = own_.get();
}

RankDevice::RankDevice(const JobPlan& job, const RankDeviceOptions& options, Communicator& world,
                       const MeshSizes& sizes, const TracedComm::Sinks& sinks)
    : device_(job.device),
      blocks_(blocks_of(job, options.planned)),
      transport_(job, options.nccl, world, blocks_ ? &*blocks_ : nullptr),
      connections_(Connections::over(world, transport_.group(), sizes, sinks)),
      workspace_({.device = job.device,
                  .threads = job.threads,
                  .trace = options.trace,
                  .overlaps_communication = options.overlaps_communication,
                  .blocks = blocks_ ? &*blocks_ : nullptr,
                  .limits = options.limits},
                 connections_.peers()) {}

std::string_view RankDevice::graph_words(const EngineOptions& options) {
  if (!options.cuda_graphs)
    return "kernel by kernel (train.cuda_graphs is off, or parts of steps are timed)";
  return transport_.group().is_recordable() ? "steps as CUDA graphs"
                                            : "kernel by kernel (host memory is in the way)";
}

std::string RankDevice::words(const EngineOptions& options) {
  if (!blocks_) return "";
  const ModelDimensions sizes = dimensions(options.model);
  const kernels::AttentionShape shape{.batch = options.micro_batch,
                                      .length = options.length,
                                      .heads = sizes.heads,
                                      .kv_heads = sizes.kv_heads,
                                      .head_dim = sizes.head_dim};
  const auto attention =
      kernels::attention_kernels(workspace_.stream(), shape, options.dtype,
                                 static_cast<float>(attention_dropout(options.model)));
  return fmt::format("{}: {}; {}; {}", device_.to_string(), transport_.words(),
                     kernels::to_text(attention.value()), graph_words(options));
}

}  // namespace ds
