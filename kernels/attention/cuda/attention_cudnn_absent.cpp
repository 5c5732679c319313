// A build without cuDNN's graphs: all attention of CUDA devices is our own.
#include "core/libraries/gpu_libraries.h"
#include "core/status/error.h"
#include "kernels/attention/cuda/attention_cudnn.h"

namespace ds::kernels::detail {

bool attention_forward_by_cudnn(Stream& /*stream*/, const AttentionOperands& /*operands*/) {
  return false;
}

bool attention_backward_by_cudnn(Stream& /*stream*/, const AttentionOperands& /*operands*/) {
  return false;
}

AttentionKernels attention_kernels_of(Stream& /*stream*/, const AttentionSpec& spec, DType dtype,
                                      float dropout, const AttentionRules& /*rules*/) {
  const AttentionChoice choice =
      choose_attention_kernel({.no_cudnn = std::string(missing_of_build(GpuLibrary::kCudnn)),
                               .dtype = dtype,
                               .head_dim = spec.shape.head_dim,
                               .is_plain = spec.is_plain(),
                               .dropout = dropout});
  return {.forward = choice,
          .backward = choice,
          .scratch_forward = flash_scratch_bytes(AttentionPass::kForward, spec.shape, dropout),
          .scratch_backward = flash_scratch_bytes(AttentionPass::kBackward, spec.shape, dropout)};
}

std::string cudnn_refusal(AttentionPass /*pass*/, const AttentionShape& /*shape*/, DType /*dtype*/,
                          const DescribedDevice& /*device*/, const AttentionRules& /*rules*/) {
  throw Unsupported(fmt::format("cuDNN: {}", missing_of_build(GpuLibrary::kCudnn)));
}

}  // namespace ds::kernels::detail
