// Attention by cuDNN: a graph of one operation per pass and shape, which cuDNN's front end lowers
// to the descriptors of its backend. The front end is headers alone and finds cuDNN's functions in
// the library that core/libraries has opened. Where a stream's rules ask for a deterministic
// backward, its algorithm is chosen so; engines that are noted as not deterministic are left out.
#include "kernels/attention/cuda/attention_cudnn.h"

#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/libraries/cudnn.h"
#include "core/libraries/gpu_libraries.h"
#include "core/status/error.h"
#include "core/values/index.h"
#include "kernels/attention/attention_layout.h"

// The front end's own way of being told which library it is to look into.
namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace ds::kernels::detail {
namespace {

namespace fe = cudnn_frontend;
using Graph = fe::graph::Graph;
using TensorOfGraph = std::shared_ptr<fe::graph::Tensor_attributes>;

// What the operands are called in a graph.
enum class Uid : int64_t { kQ = 1, kK, kV, kY, kLogSumExp, kDy, kDq, kDk, kDv };

void check_cuda(cudaError_t error, std::string_view what) {
  if (error != cudaSuccess) {
    throw InternalError(fmt::format("attention by cuDNN: {}: {}", what, cudaGetErrorString(error)));
  }
}

const Cudnn& opened_cudnn() {
  static const Cudnn& table = []() -> const Cudnn& {
    const Cudnn& found = cudnn();
    fe::cudnn_dlhandle = found.library.handle();
    return found;
  }();
  return table;
}

// What a plan is made for.
struct Request {
  AttentionPass pass = AttentionPass::kForward;
  AttentionShape shape;
  bool is_plain = true;  // AttentionSpec's
  DType dtype = DType::kBF16;
  float dropout = 0;
  bool aligned = true;
  bool deterministic = true;
};

// Graphs ------------------------------------------------------------------------------------------
fe::DataType_t type_of(DType dtype) {
  return dtype == DType::kBF16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF;
}

template <class Attributes>
void describe(Attributes& tensor, Uid uid, const HeadTensor& at, fe::DataType_t type) {
  tensor.set_uid(static_cast<int64_t>(uid))
      .set_dim({at.dims.begin(), at.dims.end()})
      .set_stride({at.strides.begin(), at.strides.end()})
      .set_data_type(type);
}

TensorOfGraph input(Graph& graph, Uid uid, const HeadTensor& at, fe::DataType_t type) {
  fe::graph::Tensor_attributes tensor;
  describe(tensor, uid, at, type);
  return graph.tensor(tensor);
}

void output(const TensorOfGraph& tensor, Uid uid, const HeadTensor& at, fe::DataType_t type) {
  describe(*tensor, uid, at, type);
  tensor->set_output(true);
}

// Scores are scaled by 1 / sqrt(D); queries see keys up to their own place: nothing right of the
// diagonal, which begins top left.
template <class Attributes>
Attributes causal(const AttentionShape& shape, const char* name) {
  Attributes out;
  out.set_name(name)
      .set_attn_scale(1.0F / std::sqrt(static_cast<float>(shape.head_dim)))
      .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
      .set_diagonal_band_right_bound(0);
  return out;
}

void add_forward(Graph& graph, const AttentionShape& shape, fe::DataType_t type) {
  const AttentionLayout at = layout_of(shape);
  auto [y, log_sum_exp] =
      graph.sdpa(input(graph, Uid::kQ, at.queries, type), input(graph, Uid::kK, at.keys, type),
                 input(graph, Uid::kV, at.values, type),
                 causal<fe::graph::SDPA_attributes>(shape, "attention").set_generate_stats(true));
  output(y, Uid::kY, at.outputs, type);
  output(log_sum_exp, Uid::kLogSumExp, at.log_sum_exp, fe::DataType_t::FLOAT);
}

void add_backward(Graph& graph, const AttentionShape& shape, fe::DataType_t type,
                  bool deterministic) {
  const AttentionLayout at = layout_of(shape);
  auto [dq, dk, dv] = graph.sdpa_backward(
      input(graph, Uid::kQ, at.queries, type), input(graph, Uid::kK, at.keys, type),
      input(graph, Uid::kV, at.values, type), input(graph, Uid::kY, at.outputs, type),
      input(graph, Uid::kDy, at.outputs, type),
      input(graph, Uid::kLogSumExp, at.log_sum_exp, fe::DataType_t::FLOAT),
      causal<fe::graph::SDPA_backward_attributes>(shape, "attention_backward")
          .set_deterministic_algorithm(deterministic));
  output(dq, Uid::kDq, at.queries, type);
  output(dk, Uid::kDk, at.keys, type);
  output(dv, Uid::kDv, at.values, type);
}

// The capability is told, so that the front end does not look for a CUDA runtime to ask: ours is
// linked into the program.
std::shared_ptr<Graph> graph_of(const Request& r, int capability) {
  auto graph = std::make_shared<Graph>();
  graph->set_io_data_type(type_of(r.dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  graph->set_sm_version(capability);
  if (r.pass == AttentionPass::kForward) {
    add_forward(*graph, r.shape, type_of(r.dtype));
  } else {
    add_backward(*graph, r.shape, type_of(r.dtype), r.deterministic);
  }
  return graph;
}

// The first line of what the front end says: the others are about each engine.
std::string told(const std::string& text) {
  constexpr size_t kMost = 200;
  const std::string line = text.substr(0, std::min(text.find('\n'), kMost));
  return line.empty() ? "it does not say why" : line;
}

// Calls steps until one is refused, and says what that one said; empty: none was.
template <class... Steps>
std::string refusal_of(Steps&&... steps) {
  fe::error_t status;
  try {
    static_cast<void>(((status = steps()).is_good() && ...));
  } catch (const std::runtime_error& error) {
    return told(error.what());
  }
  return status.is_good() ? "" : told(status.get_message());
}

bool must_repeat(const Request& r) { return r.pass == AttentionPass::kForward || r.deterministic; }

std::string choose_engines(Graph& graph, const Request& r) {
  return refusal_of([&] { return graph.create_execution_plans({fe::HeurMode_t::A}); },
                    [&] {
                      if (must_repeat(r)) {
                        graph.deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC});
                      }
                      return graph.check_support();
                    });
}

// Plans -------------------------------------------------------------------------------------------
// While a thread records a graph of a step, the runtime refuses it calls that making a plan needs
// and that are no part of the recording: loading kernels.
class Unwatched {
 public:
  Unwatched() { check_cuda(cudaThreadExchangeStreamCaptureMode(&mode_), "capture mode"); }
  ~Unwatched() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  Unwatched(const Unwatched&) = delete;  // restores on exit, exactly once
  Unwatched& operator=(const Unwatched&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

struct Plan {
  AttentionFacts facts{};
  AttentionChoice choice{};
  std::shared_ptr<Graph> graph{};  // where that is cuDNN
  int64_t scratch_bytes = 0;
  bool has_run = false;
};

using Key = std::array<int64_t, 11>;

Key key_of(const Request& r) {
  return {static_cast<int64_t>(r.pass),
          r.shape.batch,
          r.shape.length,
          r.shape.heads,
          r.shape.kv_heads,
          r.shape.head_dim,
          static_cast<int64_t>(r.is_plain),
          static_cast<int64_t>(r.dtype),
          static_cast<int64_t>(r.dropout > 0),
          static_cast<int64_t>(r.aligned),
          static_cast<int64_t>(r.deterministic)};
}

// Returns nothing where there is no such GPU, for which a run may be planned all the same.
std::optional<int> capability_of(Device device) {
  int major = 0;
  int minor = 0;
  for (const auto& [number, attribute] : {std::pair(&major, cudaDevAttrComputeCapabilityMajor),
                                          std::pair(&minor, cudaDevAttrComputeCapabilityMinor)}) {
    const cudaError_t error = cudaDeviceGetAttribute(number, attribute, device.index);
    const bool is_absent = error == cudaErrorNoDevice || error == cudaErrorInvalidDevice ||
                           error == cudaErrorInsufficientDriver || error == cudaErrorStubLibrary;
    if (!is_absent) check_cuda(error, "capability");
    cudaGetLastError();
    if (is_absent) return std::nullopt;
  }
  return 10 * major + minor;
}

AttentionFacts facts_of(const Request& r, Device device) {
  const std::optional<int> capability = capability_of(device);
  AttentionFacts facts{.pass = r.pass,
                       .capability = capability.value_or(0),
                       .dtype = r.dtype,
                       .head_dim = r.shape.head_dim,
                       .is_plain = r.is_plain,
                       .dropout = r.dropout,
                       .aligned = r.aligned,
                       .deterministic = r.deterministic};
  if (!capability) {
    facts.no_cudnn =
        fmt::format("there is no {} here that cuDNN could be asked about", device.to_string());
    return facts;
  }
  size_t free = 0, total = 0;
  if (cudaSetDevice(device.index) == cudaSuccess && cudaMemGetInfo(&free, &total) == cudaSuccess) {
    facts.device_bytes = narrow<int64_t>(total);
  }
  try {
    facts.cudnn_version = static_cast<int64_t>(opened_cudnn().cudnnGetVersion());
  } catch (const Unsupported& missing) {
    facts.no_cudnn = missing.what();
  }
  return facts;
}

// A stream's handle of cuDNN and its plans.
class CudnnAttention {
 public:
  CudnnAttention() = default;
  ~CudnnAttention() {
    plans_.clear();
    if (handle_ != nullptr) opened_cudnn().cudnnDestroy(handle_);
  }
  CudnnAttention(const CudnnAttention&) = delete;  // owns the handle
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  Plan& plan(const Stream& stream, const Request& request) {
    const auto [found, is_new] = plans_.try_emplace(key_of(request));
    if (is_new) found->second = make_plan(stream, request);
    return found->second;
  }

  cudnnHandle_t handle(const Stream& stream) {
    check_cuda(cudaSetDevice(stream.stands_for().index), "device");
    const Cudnn& table = opened_cudnn();
    if (handle_ == nullptr) {
      check(table.cudnnCreate(&handle_), "cudnnCreate");
      if (!stream.device().is_meta()) {
        check(table.cudnnSetStream(handle_, static_cast<cudaStream_t>(stream.queue().native())),
              "cudnnSetStream");
      }
    }
    return handle_;
  }

 private:
  static void check(cudnnStatus_t status, std::string_view what) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    throw InternalError(fmt::format("attention by cuDNN: {}: {}", what,
                                    opened_cudnn().cudnnGetErrorString(status)));
  }

  Plan make_plan(const Stream& stream, const Request& r) {
    Plan out{.facts = facts_of(r, stream.stands_for())};
    AttentionFacts& facts = out.facts;
    out.choice = choose_attention_kernel(facts);
    if (out.choice.kind == AttentionKind::kCudnn) {
      const Unwatched unwatched;
      out.graph = graph_of(r, facts.capability);
      Graph& graph = *out.graph;
      facts.refusal = refusal_of([&] { return graph.validate(); },
                                 [&] { return graph.build_operation_graph(handle(stream)); });
      if (facts.refusal.empty()) facts.refusal = choose_engines(graph, r);
      if (facts.refusal.empty()) facts.refusal = refusal_of([&] { return graph.build_plans(); });
      if (facts.refusal.empty()) facts.scratch_bytes = graph.get_workspace_size();
      out.choice = choose_attention_kernel(facts);
    }
    // Our own kernel has room, too, should the first call be refused.
    out.scratch_bytes = flash_scratch_bytes(r.pass, r.shape, r.dropout);
    if (out.choice.kind == AttentionKind::kFlash) {
      out.graph.reset();
    } else {
      out.scratch_bytes = std::max(out.scratch_bytes, facts.scratch_bytes);
    }
    return out;
  }

  cudnnHandle_t handle_ = nullptr;
  std::map<Key, Plan> plans_;
};

// Calls -------------------------------------------------------------------------------------------
bool is_aligned(const Tensor& tensor) {
  constexpr uintptr_t kAlignment = 16;
  return !tensor.defined() || reinterpret_cast<uintptr_t>(tensor.address()) % kAlignment == 0;
}

Request request_of(AttentionPass pass, const AttentionOperands& o, const AttentionRules& rules) {
  return {.pass = pass,
          .shape = o.shape,
          .is_plain = o.is_plain,
          .dtype = o.qkv.dtype(),
          .dropout = o.dropout.p,
          .aligned = is_aligned(o.qkv) && is_aligned(o.y) && is_aligned(o.log_sum_exp) &&
                     is_aligned(o.dy) && is_aligned(o.dqkv),
          .deterministic = rules.deterministic};
}

using Addresses = std::unordered_map<int64_t, void*>;

void put(Addresses& addresses, Uid uid, const Tensor& tensor, const HeadTensor& at) {
  auto* const begin = static_cast<std::byte*>(tensor.address());
  addresses[static_cast<int64_t>(uid)] =
      begin + at.offset * static_cast<int64_t>(size_of(tensor.dtype()));
}

Addresses addresses_of(AttentionPass pass, const AttentionOperands& o) {
  const AttentionLayout at = layout_of(o.shape);
  Addresses out;
  put(out, Uid::kQ, o.qkv, at.queries);
  put(out, Uid::kK, o.qkv, at.keys);
  put(out, Uid::kV, o.qkv, at.values);
  put(out, Uid::kY, o.y, at.outputs);
  put(out, Uid::kLogSumExp, o.log_sum_exp, at.log_sum_exp);
  if (pass == AttentionPass::kBackward) {
    put(out, Uid::kDy, o.dy, at.outputs);
    put(out, Uid::kDq, o.dqkv, at.queries);
    put(out, Uid::kDk, o.dqkv, at.keys);
    put(out, Uid::kDv, o.dqkv, at.values);
  }
  return out;
}

bool run(AttentionPass pass, Stream& stream, const AttentionOperands& operands) {
  auto& state = stream.state<CudnnAttention>();
  Plan& plan = state.plan(stream, request_of(pass, operands, stream.state<AttentionRules>()));
  if (plan.choice.kind != AttentionKind::kCudnn) return false;
  const Tensor scratch =
      Tensor::empty({plan.scratch_bytes}, DType::kU8, stream, MemoryTag::kScratch);
  if (stream.device().is_meta()) return true;  // the plan of a run takes what the run will take
  Addresses addresses = addresses_of(pass, operands);
  const std::string refusal = refusal_of(
      [&] { return plan.graph->execute(state.handle(stream), addresses, scratch.address()); });
  if (refusal.empty()) return plan.has_run = true;
  if (plan.has_run) throw InternalError("attention by cuDNN: " + refusal);
  plan.facts.refusal = refusal;
  plan.facts.was_called = true;
  plan.choice = choose_attention_kernel(plan.facts);
  plan.graph.reset();
  spdlog::warn("attention: own flash kernel, because {}", plan.choice.why);
  return false;
}

}  // namespace

bool attention_forward_by_cudnn(Stream& stream, const AttentionOperands& operands) {
  return run(AttentionPass::kForward, stream, operands);
}

bool attention_backward_by_cudnn(Stream& stream, const AttentionOperands& operands) {
  return run(AttentionPass::kBackward, stream, operands);
}

AttentionKernels attention_kernels_of(Stream& stream, const AttentionSpec& spec, DType dtype,
                                      float dropout, const AttentionRules& rules) {
  auto& state = stream.state<CudnnAttention>();
  Request request{.shape = spec.shape,
                  .is_plain = spec.is_plain(),
                  .dtype = dtype,
                  .dropout = dropout,
                  .deterministic = rules.deterministic};
  const Plan& forward = state.plan(stream, request);
  request.pass = AttentionPass::kBackward;
  const Plan& backward = state.plan(stream, request);
  return {.forward = forward.choice,
          .backward = backward.choice,
          .scratch_forward = forward.scratch_bytes,
          .scratch_backward = backward.scratch_bytes};
}

std::string cudnn_refusal(AttentionPass pass, const AttentionShape& shape, DType dtype,
                          const DescribedDevice& device, const AttentionRules& rules) {
  static_cast<void>(opened_cudnn());
  auto properties = std::make_shared<fe::DeviceProperties>();
  const Request request{
      .pass = pass, .shape = shape, .dtype = dtype, .deterministic = rules.deterministic};
  const std::shared_ptr<Graph> graph = graph_of(request, device.capability);
  const std::string refusal = refusal_of(
      [&] {
        return properties->deserialize({device.json.begin(), device.json.end()});
      },
      [&] {
        graph->set_device_properties(properties);
        return graph->validate();
      },
      [&] { return graph->build_operation_graph(); });
  return refusal.empty() ? choose_engines(*graph, request) : refusal;
}

}  // namespace ds::kernels::detail
