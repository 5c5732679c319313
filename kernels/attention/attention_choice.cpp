#include "kernels/attention/attention_choice.h"

#include <algorithm>

#include "core/status/error.h"
#include "kernels/attention/cuda/attention_cudnn.h"

namespace ds::kernels {
namespace {

std::string version_text(int64_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

// Empty: nothing.
std::string against_cudnn(const AttentionFacts& f) {
  if (!f.no_cudnn.empty()) return f.no_cudnn;
  if (f.cudnn_version < kLeastCudnn) {
    return fmt::format("cuDNN {} is older than {}", version_text(f.cudnn_version),
                       version_text(kLeastCudnn));
  }
  if (f.capability < 80) {
    return fmt::format("cuDNN has attention for sm_80 and newer, and this is sm_{}", f.capability);
  }
  if (f.dtype != DType::kBF16 && f.dtype != DType::kF16) {
    return fmt::format("cuDNN has attention in bf16 and fp16, and this is {}", name_of(f.dtype));
  }
  if (!f.is_plain) {
    return "cuDNN is asked for causal attention alone, and this has a window, a mask, a scale or a "
           "cap of its own";
  }
  if (f.dropout > 0) return "the mask of dropout is the same on all devices, and cuDNN has another";
  if (f.head_dim % 8 != 0) {
    return fmt::format("cuDNN has heads of multiples of 8 elements, and these have {}", f.head_dim);
  }
  if (!f.aligned)
    return "cuDNN's operands begin at multiples of 16 bytes, and one of these does not";
  if (!f.refusal.empty()) {
    return fmt::format("cuDNN refuses{}: {}", f.was_called ? " at its first call" : "", f.refusal);
  }
  const int64_t most = std::max(kMostCudnnScratch, f.device_bytes / kCudnnScratchShare);
  if (f.scratch_bytes > most) {
    return fmt::format("cuDNN would take {} MiB of scratch, more than {}", f.scratch_bytes >> 20,
                       most >> 20);
  }
  return "";
}

std::string text_of(const AttentionChoice& choice) {
  return choice.kind == AttentionKind::kCudnn ? choice.why
                                              : "own flash kernel, because " + choice.why;
}

}  // namespace

AttentionChoice choose_attention_kernel(const AttentionFacts& facts) {
  const std::string against = against_cudnn(facts);
  if (!against.empty()) return {AttentionKind::kFlash, against};
  const bool may_differ = facts.pass == AttentionPass::kBackward && !facts.deterministic;
  return {AttentionKind::kCudnn, fmt::format("cuDNN {}{}", version_text(facts.cudnn_version),
                                             may_differ ? " (not deterministic)" : "")};
}

void set_attention_rules(Stream& stream, const AttentionRules& rules) {
  if (stream.stands_for().kind == Device::Kind::kCuda) stream.state<AttentionRules>() = rules;
}

std::optional<AttentionKernels> attention_kernels(Stream& stream, const AttentionSpec& spec,
                                                  DType dtype, float dropout,
                                                  const AttentionRules& rules) {
  if (stream.device().kind != Device::Kind::kCuda) return std::nullopt;
  return detail::attention_kernels_of(stream, spec, dtype, dropout, rules);
}

std::string to_text(const AttentionKernels& kernels) {
  const std::string forward = text_of(kernels.forward);
  const std::string backward = text_of(kernels.backward);
  if (forward == backward) return "attention: " + forward;
  return fmt::format("attention: forward {}; backward {}", forward, backward);
}

}  // namespace ds::kernels
