// PartFile: the swap file of a rank as the parts of an OptimizerStateStore see it. A part is one
// extent, master and slots, and its gradient is another; both pass through buffers of the host. A
// run moves bytes; the dry run has a twin that takes what the other one takes and tells the clocks
// of the host and of the disk what would pass. Confined to the thread of the step, but for what
// AheadParts says.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "offload/rolling_run.h"
#include "zero/state/optimizer_state_store.h"
#include "zero/state/part_frame.h"

namespace ds {

class PartFile {
 public:
  struct Layout {
    std::string name;  // of the group, among those of the rank
    std::vector<PartFrame> frames;
    NvmeStateOptions rolling{};
    int64_t buffer_bytes = 0;  // of the largest part
    int64_t file_bytes = 0;
  };
  explicit PartFile(Layout layout) : layout_(std::move(layout)) {}
  virtual ~PartFile() = default;
  PartFile(const PartFile&) = delete;  // transfers refer to its buffers
  PartFile& operator=(const PartFile&) = delete;

  // Carries out a plan for all parts; the part lies in the buffer as its frame says, with its
  // gradient if that is asked for. What a plan fills is zeros before.
  enum class Gradients : uint8_t { kNone, kLoad };
  using Work = std::function<void(int part, std::byte* buffer)>;
  virtual void visit(const RollingPlan& plan, Gradients gradients, const Work& work) = 0;

  // Keeps the gradient of a part, or brings the one that was kept last.
  virtual void store(int part, const Tensor& gradient, Stream& stream) = 0;
  virtual void load(int part, const Tensor& gradient, Stream& stream) = 0;
  virtual void finish_stores() {}  // waits for those that are under way

  // Parts are worked on ahead from now on, which needs a second place in the file for each.
  virtual AheadParts& work_ahead() = 0;
  // Keeps the gradient and begins to read the part that is worked on ahead with it.
  virtual void store_ahead(int part, const Tensor& gradient, Stream& stream) = 0;
  virtual std::byte* buffer_ahead() const = 0;  // of the part that is worked on
  virtual void await_ahead() {}                 // until nothing is under way of what was worked on

 protected:
  const Layout& layout() const { return layout_; }
  int count() const { return narrow<int>(layout_.frames.size()); }
  const PartFrame& frame(int part) const { return nth(layout_.frames, part); }
  std::string key(std::string_view what, int part) const;
  virtual std::string state_key(int part) const { return key("state", part); }
  // What a visit moves, by part.
  std::vector<RollingPieces> pieces(Gradients gradients) const;

 private:
  const Layout layout_;
};

}  // namespace ds
