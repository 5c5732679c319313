#include "core/device/host_copy.h"

#include <algorithm>

#include "core/cuda/memory.h"
#include "core/memory/rounding.h"
#include "core/memory/slab.h"
#include "core/values/index.h"

namespace ds {

// A tensor of the device, cut into what fits a room.
class HostCopy::Parts {
 public:
  Parts(HostCopy& of, const Tensor& tensor)
      : of_(of),
        flat_(tensor.reshape({tensor.numel()})),
        longest_(narrow<int64_t>(of.part_bytes_ / size_of(tensor.dtype()))) {
    DS_CHECK(tensor.device() == of.stream_.device(),
             "host copy: a tensor of {}, the stream is of {}", tensor.device().to_string(),
             of.stream_.device().to_string());
  }

  int64_t count() const { return divide_up(flat_.numel(), longest_); }
  int64_t first(int64_t index) const { return index * longest_; }
  Tensor there(int64_t index) const {
    return flat_.narrow(first(index), std::min(longest_, flat_.numel() - first(index)));
  }
  Tensor here(int64_t index) const {
    return Tensor::borrow(room(index).data, there(index).shape(), flat_.dtype());
  }
  Room& room(int64_t index) const { return nth(of_.rooms_, index % 2); }

  void load(int64_t index) const {
    const Tensor part = there(index);
    of_.stream_.copy(part.address(), room(index).data, part.bytes());
    room(index).last_use = of_.stream_.mark();
  }
  void store(int64_t index) const {
    const Tensor part = there(index);
    of_.stream_.copy(room(index).data, part.address(), part.bytes());
    room(index).last_use = of_.stream_.mark();
  }

 private:
  HostCopy& of_;
  const Tensor flat_;
  const int64_t longest_;  // elements
};

HostCopy::HostCopy(Stream& stream, size_t part_bytes) : stream_(stream), part_bytes_(part_bytes) {
  DS_CHECK(part_bytes > 0 && part_bytes % sizeof(double) == 0,
           "host copy: parts of {} bytes, expected a multiple of {}", part_bytes, sizeof(double));
  if (stream.device().kind != Device::Kind::kCuda) return;
  pinned_ = make_pinned_memory(2 * slab_bytes(part_bytes));
  for (Room& room : rooms_) room.data = pinned_->allocate(part_bytes, MemoryTag::kScratch);
}

HostCopy::~HostCopy() {
  if (pinned_ == nullptr) return;
  for (const Room& room : rooms_) {
    try {
      room.last_use.wait_on_host();
    } catch (...) {  // the device failed, which its stream tells whoever waits for it
    }
    pinned_->deallocate(room.data, part_bytes_, MemoryTag::kScratch);
  }
}

void HostCopy::down(const Tensor& from, const Take& take) {
  if (from.is_meta()) return;
  if (from.device().kind != Device::Kind::kCuda) return take(0, from.reshape({from.numel()}));
  const Parts parts(*this, from);
  if (parts.count() > 0) parts.load(0);
  for (int64_t index = 0; index < parts.count(); ++index) {
    // The room is free: what was in it has been taken, or has its place in the stream's order.
    if (index + 1 < parts.count()) parts.load(index + 1);
    parts.room(index).last_use.wait_on_host();
    take(parts.first(index), parts.here(index));
  }
}

void HostCopy::up(const Tensor& to, const Make& make) {
  if (to.is_meta()) return;
  if (to.device().kind != Device::Kind::kCuda) {
    Tensor part = to.reshape({to.numel()});
    return make(0, part);
  }
  const Parts parts(*this, to);
  for (int64_t index = 0; index < parts.count(); ++index) {
    parts.room(index).last_use.wait_on_host();
    Tensor part = parts.here(index);
    make(parts.first(index), part);
    parts.store(index);
  }
}

}  // namespace ds
