// Attention by cuDNN's graphs, for what choose_attention_kernel() gives to it. A build without them
// (attention_cudnn_absent.cpp) has the same functions: they do nothing and say why. Internal to
// kernels/.
#pragma once

#include <string>

#include "kernels/attention/attention_choice.h"
#include "kernels/attention/attention_operands.h"

namespace ds::kernels::detail {

// False: nothing was given to the stream, and our own kernel has to compute it. The first call for
// a shape makes the plan, which takes cuDNN a fraction of a second.
bool attention_forward_by_cudnn(Stream& stream, const AttentionOperands& operands);
bool attention_backward_by_cudnn(Stream& stream, const AttentionOperands& operands);

AttentionKernels attention_kernels_of(Stream& stream, const AttentionSpec& spec, DType dtype,
                                      float dropout, const AttentionRules& rules);

// A device that need not be there: how it counts (90 is sm_90) and what cuDNN writes of one
// (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION).
struct DescribedDevice {
  int capability = 0;
  std::string json{};
};
// What cuDNN has against attention there, empty where it has engines for it. For tests on machines
// without a GPU; Unsupported without cuDNN.
std::string cudnn_refusal(AttentionPass pass, const AttentionShape& shape, DType dtype,
                          const DescribedDevice& device, const AttentionRules& rules);

// What our own kernels allocate for a call; 16 bytes of a sample say what dropout follows from.
constexpr int64_t flash_scratch_bytes(AttentionPass pass, const AttentionShape& s, float dropout) {
  const int64_t droppings = dropout > 0 ? s.batch * int64_t{16} : 0;
  return droppings + (pass == AttentionPass::kForward ? 0 : s.batch * s.heads * s.length * 4);
}

}  // namespace ds::kernels::detail
