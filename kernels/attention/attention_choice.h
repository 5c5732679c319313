// Which kernel computes attention on a CUDA device, cuDNN's or our own, and why. The decision is
// pure; attention_kernels() asks a stream's device and this machine for the facts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/device/stream.h"
#include "core/values/dtype.h"
#include "kernels/attention/attention.h"

namespace ds::kernels {

// How attention of a CUDA stream is computed if its library has a choice.
struct AttentionRules {
  // Each run of a backward pass has the same bits. Before Blackwell, cuDNN keeps a matrix of scores
  // for that, and may have to leave a long sequence to our own kernel, which is deterministic
  // always; without it, its sums go by atomic additions.
  bool deterministic = true;
};
// Told before the first pass, also to streams of meta that stand for CUDA, since what a library
// takes of memory depends on it. Streams of CPUs do nothing with it.
void set_attention_rules(Stream& stream, const AttentionRules& rules);

enum class AttentionPass { kForward, kBackward };
enum class AttentionKind { kFlash, kCudnn };  // kFlash: our own, kernels/cuda/attention

// What was known wrong of attention in releases before it, and Blackwell's deterministic backward.
inline constexpr int64_t kLeastCudnn = 91801;
// The deterministic backward may keep a matrix of scores, 2 * batch * heads * length^2 bytes, on
// GPUs before Blackwell. Beyond this, and beyond a sixteenth of the device's memory, our own takes
// less memory and as little time to be moved.
inline constexpr int64_t kMostCudnnScratch = int64_t{1} << 30;
inline constexpr int64_t kCudnnScratchShare = 16;

struct AttentionFacts {
  AttentionPass pass = AttentionPass::kForward;
  std::string no_cudnn{};     // why there is none for this build on this machine; empty: there is
  int64_t cudnn_version = 0;  // as it counts: 91900 is 9.19.0
  int capability = 0;         // of the device: 90 is sm_90
  DType dtype = DType::kBF16;
  int64_t head_dim = 0;
  bool is_plain = true;  // AttentionSpec's
  float dropout = 0;
  bool aligned = true;        // all operands begin at a multiple of 16 bytes
  bool deterministic = true;  // AttentionRules'
  // What cuDNN said when it was asked for a plan, once nothing else speaks against it.
  std::string refusal{};  // empty: none yet, or it has a plan
  // Its first call was refused, and not its plan.
  bool was_called = false;
  int64_t scratch_bytes = 0;
  int64_t device_bytes = 0;  // the device's memory; 0: not known
};

struct AttentionChoice {
  AttentionKind kind = AttentionKind::kFlash;
  std::string why{};
};
AttentionChoice choose_attention_kernel(const AttentionFacts& facts);

struct AttentionKernels {
  AttentionChoice forward, backward;
  // These are bytes under MemoryTag::kScratch while a call lasts; our own backward's count, too.
  int64_t scratch_forward = 0;
  int64_t scratch_backward = 0;
};

// What this attention will be computed with on the stream's device, for operands that begin at
// multiples of 16 bytes; nothing if that is no CUDA device. Plans of cuDNN that are made for the
// answer are kept for the calls.
std::optional<AttentionKernels> attention_kernels(Stream& stream, const AttentionSpec& spec,
                                                  DType dtype, float dropout,
                                                  const AttentionRules& rules);
// "attention: own flash kernel, because this build was made without cudnn_frontend.h", for people.
std::string to_text(const AttentionKernels& kernels);

}  // namespace ds::kernels
