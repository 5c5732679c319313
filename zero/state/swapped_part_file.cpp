#include "zero/state/swapped_part_file.h"

#include <cstring>
#include <utility>

#include "core/device/across.h"
#include "core/status/failpoint.h"
#include "core/values/index.h"

namespace ds {

SwappedPartFile::SwappedPartFile(Layout of, const HostPlace& host, const SwapSpace& swap)
    : PartFile(std::move(of)) {
  if (swap.open == nullptr) {
    throw Unsupported("zero: optimizer state goes to NVMe, and this rank was given no swap file");
  }
  const bool pinned = host.pinned != nullptr;
  pool_.emplace(StagingOptions{.buffers = layout().rolling.buffers,
                               .buffer_bytes = layout().buffer_bytes,
                               .pinning = layout().rolling.pinning},
                pinned ? host.pinned : &host.stream.memory(),
                pinned ? StagingMemory::kPinned : StagingMemory::kPageable);
  swapper_ = swap.open(layout().file_bytes);
}

SwappedPartFile::~SwappedPartFile() {
  try {
    finish_stores();
  } catch (const std::exception&) {  // who stored waits no more, and the file goes
  }
}

std::string SwappedPartFile::state_key(int part) const {
  return ahead_ ? ahead_->key(part) : key("state", part);
}

void SwappedPartFile::visit(const RollingPlan& plan, Gradients gradients, const Work& work) {
  const bool fills = plan.access == RollingAccess::kFill;
  DS_CHECK(fills || is_filled_, "swapped state: read before it was filled");
  run_rolling(plan, pieces(gradients), *swapper_, *pool_,
              [&](int part, std::span<std::byte> bytes) {
                if (fills) std::memset(bytes.data(), 0, to_size(frame(part).state_bytes()));
                work(part, bytes.data());
              });
  is_filled_ = true;
}

void SwappedPartFile::store(int part, const Tensor& gradient, Stream& stream) {
  stored_.push_back(put(part, gradient, frame(part).grad_bytes(), 0, stream));
  DS_FAILPOINT("offload.gradient_stored");
  if (!layout().rolling.pipeline_write) finish_stores();
}

void SwappedPartFile::load(int part, const Tensor& gradient, Stream& stream) {
  const std::string name = key("gradient", part);
  StagedBuffer loaded{.lease = take_buffer(frame(part).grad_bytes(), name)};
  const std::span<std::byte> bytes = loaded.lease.bytes();
  loaded.under_way.push_back(swapper_->get(name, bytes));
  loaded.await(*swapper_);
  copy_across(stream, Link::kToDevice, bytes.data(), gradient.address(), gradient.bytes(),
              {.what = "gradients of part", .number = part});
  stream.synchronize();
  DS_FAILPOINT("offload.gradient_loaded");
}

AheadParts& SwappedPartFile::work_ahead() {
  std::vector<RollingAhead::Part> parts;
  for (int part = 0; part < count(); ++part) {
    parts.push_back({.key = key("state", part), .bytes = frame(part).state_bytes()});
  }
  return ahead_.emplace(std::move(parts), *swapper_);
}

// The gradient is written for those who have to make another update, and read from where it is.
void SwappedPartFile::store_ahead(int part, const Tensor& gradient, Stream& stream) {
  ahead_->start(part, put(part, gradient, frame(part).bytes(), frame(part).grad_at(), stream));
  DS_FAILPOINT("offload.gradient_handed_over");
}

void SwappedPartFile::await_ahead() {
  if (ahead_) ahead_->await_all();
}

// Into the file, by way of a buffer of so many bytes, which has the gradient from `at` on.
StagedBuffer SwappedPartFile::put(int part, const Tensor& from, int64_t buffer_bytes, int64_t at,
                                  Stream& stream) {
  const std::string name = key("gradient", part);
  if (ahead_) ahead_->await(part);  // of the step before it may still be on its way
  StagedBuffer stored{.lease = take_buffer(buffer_bytes, name)};
  const std::span<std::byte> bytes = stored.lease.bytes().subspan(to_size(at), from.bytes());
  copy_across(stream, Link::kToHost, from.address(), bytes.data(), from.bytes(),
              {.what = "gradients of part", .number = part});
  stream.synchronize();
  stored.under_way.push_back(swapper_->put(name, bytes));
  return stored;
}

// The oldest store that this thread has under way gives its buffer back first. The thread that
// works ahead gives others back.
StagingPool::Lease SwappedPartFile::take_buffer(int64_t bytes, const std::string& holder) {
  const auto in_use = [this] {
    return narrow<int>(stored_.size()) + (ahead_ ? ahead_->in_use() : 0);
  };
  while (!stored_.empty() && in_use() >= layout().rolling.buffers) finish_oldest();
  return pool_->take(bytes, holder);
}

void SwappedPartFile::finish_oldest() {
  StagedBuffer oldest = std::move(stored_.front());
  stored_.pop_front();
  oldest.await(*swapper_);
}

void SwappedPartFile::finish_stores() {
  while (!stored_.empty()) finish_oldest();
}

}  // namespace ds
