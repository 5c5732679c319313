// Where the engine's tokens come from.
#pragma once

#include <cstdint>
#include <span>

namespace ds {

// Not called on meta.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Fills [micro_batch * length] inputs and the targets one position later for this rank's part of
  // a micro-step, in memory of the host. step counts from 0. All ids
  // are of the vocabulary: who reads them from files or makes them of texts has checked that.
  virtual void fill(int64_t step, int micro_step, std::span<int32_t> tokens,
                    std::span<int32_t> targets) = 0;
  // The index, within the global batch, of the first sample of this rank's part. Asked for apart,
  // because stages of a pipeline that load nothing drop the same elements of these samples.
  virtual int64_t first_sample(int micro_step) const = 0;
};

}  // namespace ds
