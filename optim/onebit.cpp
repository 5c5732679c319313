// What the 1-bit optimizers have in common.
#include "optim/onebit.h"

#include "core/values/index.h"
#include "kernels/quantize/onebit_math.h"

namespace ds::detail {

void require_fp32_state(const OptimizerConfig& config) {
  if (config.moment_dtype == MomentType::kFp32) return;
  throw Unsupported(
      "optimizer.moment_dtype: optimizers that exchange their momenta in one bit keep them in "
      "fp32");
}

std::vector<AuxiliarySpec> errors_by_param(std::span<const Shard> parts, int ranks) {
  std::vector<AuxiliarySpec> specs;
  if (ranks == 1) return specs;
  for (const Shard& part : parts) {
    for (const ShardField& field : part.fields) {
      const int64_t padded = kernels::onebit_padded_numel(field.numel, ranks);
      specs.push_back({.name = kWorkerError, .param = field.param, .numel = padded});
      specs.push_back({.name = kServerError, .param = field.param, .numel = padded / ranks});
    }
  }
  return specs;
}

std::vector<OneBitTensor> onebit_params(std::span<const Shard> parts, size_t slot,
                                        std::span<const Tensor> errors) {
  std::vector<OneBitTensor> tensors;
  for (const Shard& part : parts) {
    for (const ShardField& field : part.fields) {
      const size_t at = 2 * tensors.size();
      DS_CHECK(at + 2 <= errors.size(), "1-bit optimizer: errors of {} parameters are given",
               errors.size() / 2);
      tensors.push_back({.parts = {{.values = part.slots[slot].narrow(field.offset, field.numel)}},
                         .worker = errors[at],
                         .server = errors[at + 1]});
    }
  }
  return tensors;
}

bool is_skipped(const StepScalars& scalars) { return scalars.read_back().skip != 0; }

}  // namespace ds::detail
