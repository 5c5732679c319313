#include "rankd/device/rank_device.h"

#include <functional>

#include "comm/contract/host_exchange.h"
#include "comm/nccl/comm.h"
#include "comm/solo_comm.h"
#include "comm/staged_comm.h"
#include "core/cuda/library_calls.h"
#include "core/device/host_copy.h"
#include "core/files/home.h"
#include "core/libraries/gpu_libraries.h"
#include "core/tasks/host.h"
#include "kernels/attention/attention_choice.h"
#include "model/exchange/sequence.h"
#include "model/families/transformer_block.h"
#include "model/pass/context.h"
#include "train/assemble.h"

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

uint64_t gpu_of_host(Device device) {
  return std::hash<std::string>()(own_host_name() + "/" + unique_name(device));
}

}  // namespace

// Whether tensors go through memory of the host the ranks find out when they meet: it is planned
// for.
DeviceCeilings cuda_ceilings(const EngineOptions& options, const Config& config, int ranks,
                             int threads) {
  DeviceCeilings ceilings = cuda_ceilings(options.dtype, threads, ranks);
  ceilings.overlaps_communication = config.zero_optimization.overlap_comm;
  if (options.zero.state.update_ahead) {
    ceilings.updater_share = 1.0 * updater_threads(config, threads) / threads;
  }
  ceilings.pinned_beside = HostCopy::pinned_bytes();
  if (ranks > 1) ceilings.pinned_beside += StagedOptions{}.pinned_bytes;
  return ceilings;
}

// A thread of its own talks to peers where the one that computes has nothing to say to them
// meanwhile: groups are confined to a thread, and axes share them.
DeviceCeilings cpu_ceilings(const EngineOptions& options, const Config& config,
                            const MeshSizes& mesh, int threads) {
  DeviceCeilings ceilings = cpu_ceilings(threads, options.dtype);
  const bool talks_of_state_alone =
      mesh.pipe == 1 && mesh.sequence == 1 && mesh.tensor == 1 && mesh.expert == 1;
  ceilings.overlaps_communication = config.zero_optimization.overlap_comm && mesh.data > 1 &&
                                    talks_of_state_alone &&
                                    options.zero.why_no_peer_thread().empty();
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
      description_ = "one rank";
      break;
    case TensorPath::kNccl:
      own_ = open_nccl_group(
          world, {.device = job.device, .memory = blocks->device.get(), .timeout = kLongestWait});
      description_ = "collectives by NCCL";
      break;
    case TensorPath::kStaged:
      own_ = std::make_unique<StagedComm>(
          world,
          StagedOptions{.memory = blocks->device.get(), .pool = &pool_.emplace(job.threads)});
      pinned_bytes_ = StagedOptions{}.pinned_bytes;
      description_ = "collectives through host memory";
      if (!choice.why.empty()) description_ += fmt::format(" ({})", choice.why);
      break;
  }
  group_ = own_.get();
}

RankDevice::RankDevice(const JobPlan& job, const RankDeviceOptions& options, Communicator& world,
                       const MeshSizes& sizes, const TracedComm::Sinks& sinks)
    : device_(job.device),
      tunes_matmul_(options.tunes_matmul),
      blocks_(blocks_of(job, options.planned)),
      transport_(job, options.nccl, world, blocks_ ? &*blocks_ : nullptr),
      connections_(Connections::over(world, transport_.group(), sizes, sinks)),
      workspace_(
          {.device = job.device,
           .threads = job.threads,
           .updater_threads = options.updater_threads,
           .trace = options.trace,
           .overlaps_communication = options.overlaps_communication,
           .beside = options.beside,
           .blocks = blocks_ ? &*blocks_ : nullptr,
           .limits = options.limits,
           .pinned_beside = blocks_ ? HostCopy::pinned_bytes() + transport_.pinned_bytes() : 0},
          connections_.peers()) {
  if (!tunes_matmul_) return;
  if (const auto place = kernels::matmul_place(device_)) {
    const std::string folder = user_cache_folder();
    choices_.emplace(files_, folder.empty() ? "" : join_path(folder, choices_file_name(*place)),
                     *place);
  }
}

std::string_view RankDevice::graph_words(const EngineOptions& options) {
  if (!options.gpu.graphs) {
    return "kernel by kernel (train.cuda_graphs is off, or parts of steps are timed)";
  }
  if (options.zero.placement.policy.params.tier == Tier::kNvme) {
    return "kernel by kernel (weights come from a swap file)";
  }
  if (connections_.peers().mesh.size(Axis::kPipe) > 1) {
    return "kernel by kernel (stages take turns)";
  }
  if (workspace_.resources().talk_on_two_streams()) {
    return "kernel by kernel (ranks that exchange heads or share layers talk beside overlap_comm)";
  }
  return transport_.group().is_recordable() ? "steps as CUDA graphs"
                                            : "kernel by kernel (host memory is in the way)";
}

// Empty where nothing was asked for.
std::string RankDevice::product_words(const EngineOptions& options) const {
  std::string words;
  if (options.gpu.matmul.allow_tf32) {
    words += options.dtype == DType::kF32 ? "products of fp32 in TF32; "
                                          : "no products of fp32 to make in TF32; ";
  }
  if (!tunes_matmul_) return words;
  if (!choices_) return words + "products that have no choice to tune; ";
  words += choices_->path().empty()
               ? "products tuned and not remembered (no XDG_CACHE_HOME, no HOME)"
               : fmt::format("products tuned, {} shapes known from {}", choices_->size(),
                             choices_->path());
  if (!choices_->problem().empty()) words += fmt::format(" ({})", choices_->problem());
  return words + "; ";
}

std::string RankDevice::attention_words(const EngineOptions& options) {
  const ModelDimensions sizes = dimensions(options.model);
  const Mesh& mesh = connections_.peers().mesh;
  if (mesh.size(Axis::kRing) > 1) {
    return "attention: own flash kernel, because keys and values go round a ring";
  }
  const int sharers = mesh.size(Axis::kUlysses), parts = mesh.size(Axis::kTensor);
  const int64_t kv_heads = sizes.kv_heads * mesh.size(Axis::kKeyReplica) / parts;
  const kernels::AttentionShape shape =
      attention_of_share({.batch = options.micro_batch,
                          .length = options.length / mesh.size(Axis::kSequence),
                          .heads = sizes.heads / parts,
                          .kv_heads = kv_heads,
                          .head_dim = sizes.head_dim},
                         sharers);
  const TransformerSpec spec = transformer_spec(options.model);
  const auto words_of = [&](int64_t layer) {
    kernels::AttentionSpec attention = attention_spec(spec, sizes, layer);
    attention.shape = shape;
    if (options.content.key_ranges) {  // of which nobody asks the values here
      attention.mask.ranges = unread_value({shape.batch, shape.length, 2}, DType::kI32);
    }
    const auto chosen = kernels::attention_kernels(workspace_.stream(), attention, options.dtype,
                                                   static_cast<float>(sizes.attention_dropout),
                                                   options.gpu.attention);
    return kernels::to_text(chosen.value());
  };
  // Some layers may have a window.
  std::string whole, windowed;
  for (int64_t layer = 0; layer < sizes.layers; ++layer) {
    std::string& words = has_window(spec, layer) ? windowed : whole;
    if (words.empty()) words = words_of(layer);
  }
  if (whole.empty() || whole == windowed) return windowed;
  if (windowed.empty()) return whole;
  return fmt::format("{}; with a window, {}", whole, windowed);
}

std::string RankDevice::description(const EngineOptions& options) {
  if (!blocks_) return "";
  return fmt::format("{}: {}; {}; {}{}", device_.to_string(), transport_.description(),
                     attention_words(options), product_words(options), graph_words(options));
}

}  // namespace ds
