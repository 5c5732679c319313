// SwappedPartFile: parts in a swap file, moved by its Swapper through the buffers of a staging
// pool. Where parts are worked on ahead, the last gradient goes to where that happens on its way
// into the file.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "offload/staged_buffer.h"
#include "zero/state/part_file.h"
#include "zero/state/rolling_ahead.h"

namespace ds {

class SwappedPartFile final : public PartFile {
 public:
  SwappedPartFile(Layout layout, const HostPlace& host, const SwapSpace& swap);
  ~SwappedPartFile() override;

  void visit(const RollingPlan& plan, Gradients gradients, const Work& work) override;
  void store(int part, const Tensor& gradient, Stream& stream) override;
  void load(int part, const Tensor& gradient, Stream& stream) override;
  void finish_stores() override;
  AheadParts& work_ahead() override;
  void store_ahead(int part, const Tensor& gradient, Stream& stream) override;
  std::byte* buffer_ahead() const override { return ahead_->buffer(); }
  void await_ahead() override;

 private:
  std::string state_key(int part) const override;
  StagedBuffer put(int part, const Tensor& from, int64_t buffer_bytes, int64_t at, Stream& stream);
  StagingPool::Lease take_buffer(int64_t bytes, const std::string& holder);
  void finish_oldest();

  bool is_filled_ = false;
  std::optional<StagingPool> pool_;  // outlives the swapper, which may still move bytes of it
  std::unique_ptr<Swapper> swapper_;
  std::deque<StagedBuffer> stored_;  // gradients on their way into the file
  std::optional<RollingAhead> ahead_;
};

}  // namespace ds
