#include "core/device/staging_ring.h"

#include <cstring>

#include "core/memory/rounding.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

size_t rounded(size_t bytes) { return round_up(bytes, kMemoryAlignment); }

}  // namespace

StagingRing::StagingRing(size_t bytes, int places, MemoryResource* pinned)
    : stride_(rounded(bytes)), copied_(to_size(places)), block_(stride_ * to_size(places), pinned) {
  DS_CHECK(places >= 1, "staging ring: {} places, expected 1 or more", places);
}

StagingRing::~StagingRing() {
  for (const Event& copied : copied_) {
    try {
      copied.wait_on_host();
    } catch (const std::exception&) {  // the device failed; whoever waits for its work is told
    }
  }
}

std::byte* StagingRing::take() {
  copied_[turn_].wait_on_host();
  return block_.data() + turn_ * stride_;
}

void StagingRing::give_back(const Event& copied) {
  copied_[turn_] = copied;
  turn_ = (turn_ + 1) % copied_.size();
}

void StagingRing::copy(const void* from, void* to, size_t bytes, Stream& stream) {
  DS_CHECK(bytes <= stride_, "staging ring: {} bytes in places of {}", bytes, stride_);
  std::byte* const place = take();
  std::memcpy(place, from, bytes);
  stream.copy(place, to, bytes);
  give_back(stream.mark());
}

}  // namespace ds
