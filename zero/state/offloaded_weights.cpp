#include "zero/state/offloaded_weights.h"

#include <algorithm>
#include <utility>

#include "core/device/across.h"
#include "core/status/failpoint.h"
#include "kernels/elementwise/elementwise.h"

namespace ds {
namespace {

constexpr auto kAlignment = narrow<int64_t>(kMemoryAlignment);

}  // namespace

OffloadedWeights::OffloadedWeights(const WeightOffload& options, const WeightPlaces& places,
                                   StoreStreams streams, BucketSlots& slots)
    : options_(options),
      places_(places),
      streams_(streams),
      fetches_(places.fetches != nullptr ? *places.fetches : streams.peers),
      slots_(slots),
      lane_(fetches_.device().is_meta() ? make_meta_swap_lane(places.disk)
                                        : make_swap_lane(places.open_swap)) {
  DS_CHECK(places_.host != nullptr, "offloaded weights: no memory of the host");
}

OffloadedWeights::~OffloadedWeights() {
  // The memory of a copy has to stay until it is done, of a transfer until the swapper is gone.
  const auto outlive = [](const Event& copy) {
    try {
      copy.wait_on_host();
    } catch (...) {  // the device failed, which its stream tells whoever waits for it
    }
  };
  for (const Slice& slice : slices_) outlive(slice.arrived);
  if (open_) outlive(open_->copied);
  lane_.reset();  // waits for what it moves
  slices_.clear();
  busy_.clear();
  open_.reset();
  if (places_.nvme != nullptr && pool_) {
    places_.nvme->remove(to_size(swap_bytes_), MemoryTag::kParameters);
  }
}

std::byte* OffloadedWeights::host_memory(const Slice& slice) const {
  return host_.bytes().data() + slice.host_offset;
}

int64_t OffloadedWeights::bytes_of(const Slice& slice) const {
  return slice.numel * narrow<int64_t>(size_of(slice.dtype));
}

int OffloadedWeights::add(int64_t numel, DType dtype, WeightMaker maker) {
  const int number = narrow<int>(slices_.size());
  Slice& slice = slices_.emplace_back();
  slice.numel = numel;
  slice.dtype = dtype;
  slice.maker = maker;
  const int64_t bytes = bytes_of(slice);
  const bool is_rounded = maker == WeightMaker::kDevice || maker == WeightMaker::kBoth;
  if (dtype != DType::kF32 && is_rounded) {
    rounding_bytes_ = std::max(rounding_bytes_, bytes);
  }
  if (numel <= options_.host_numel - host_numel_) {
    host_numel_ += numel;
    slice.host_offset = host_bytes_;
    host_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return number;
  }
  if (numel > options_.buffer_numel) {
    throw ConfigError(fmt::format(
        "zero_optimization.offload_param.buffer_size: {} elements, but a rank's slice of the "
        "weights has {}; use larger buffers, more ranks, or smaller reduce_bucket_size and "
        "allgather_bucket_size",
        options_.buffer_numel, numel));
  }
  slice.key = fmt::format("weights {}", number);
  ++swapped_;
  largest_swapped_ = std::max(largest_swapped_, bytes);
  swap_bytes_ += Swapper::room_for(bytes);
  return number;
}

void OffloadedWeights::seal() {
  if (rounding_bytes_ > 0) {
    rounding_ = Tensor::empty({rounding_bytes_}, DType::kU8, streams_.compute, MemoryTag::kScratch);
  }
  const auto pool = [&](int buffers, int64_t bytes, MemoryTag tag) {
    return StagingOptions{.buffers = buffers,
                          .buffer_bytes = bytes,
                          .pinning = lane_->pinning(options_.pinning),
                          .tag = tag};
  };
  const auto kind = places_.is_pinned ? StagingMemory::kPinned : StagingMemory::kPageable;
  if (host_bytes_ > 0) {
    host_block_.emplace(pool(1, host_bytes_, MemoryTag::kParameters), places_.host, kind);
    host_ = host_block_->take(host_bytes_, "weights");
  }
  if (!uses_swap()) return;
  // A slice has two buffers at most, one that is written and one that is read.
  buffers_ = std::min(options_.buffers, 2 * swapped_);
  pool_.emplace(pool(buffers_, largest_swapped_, MemoryTag::kScratch), places_.host, kind);
  if (places_.nvme != nullptr) places_.nvme->add(to_size(swap_bytes_), MemoryTag::kParameters);
  lane_->open(swap_bytes_);
}

// That of the copy or write that began first.
void OffloadedWeights::release_oldest(Stream& by) {
  Busy oldest = std::move(busy_.front());
  busy_.pop_front();
  oldest.copied.wait_on_host();
  by.wait(oldest.copied);
  if (oldest.writes_slice >= 0) lane_->await(oldest.write, oldest.buffer, by);
}

StagingPool::Lease OffloadedWeights::take_buffer(const Slice& slice, Stream& by) {
  const auto held = (open_ ? 1 : 0) + std::ranges::count_if(slices_, [](const Slice& one) {
                      return one.buffer.has_value();
                    });
  while (!busy_.empty() && held + std::ssize(busy_) >= buffers_) release_oldest(by);
  return pool_->take(bytes_of(slice), slice.key);
}

// Waits until no write of this slice is under way; there is at most one.
void OffloadedWeights::await_write(int slice, Stream& by) {
  const auto writes = [slice](const Busy& busy) { return busy.writes_slice == slice; };
  while (std::ranges::any_of(busy_, writes)) release_oldest(by);
}

void OffloadedWeights::fetch(int number) {
  Slice& slice = nth(slices_, number);
  if (std::exchange(slice.is_fetched, true)) return;
  fetches_.wait(streams_.compute.mark());  // begins here, and is recorded where this is
  if (!slice.key.empty()) return fetch_from_swap(number, slice);
  slice.device = slots_.take(slice.numel, slice.dtype, fetches_);
  copy_across(fetches_, Link::kToDevice, host_memory(slice), slice.device.address(),
              slice.device.bytes(), {.what = "weights", .number = number});
  slice.arrived = fetches_.mark();
}

void OffloadedWeights::fetch_from_swap(int number, Slice& slice) {
  await_write(number, fetches_);
  slice.buffer = take_buffer(slice, fetches_);
  slice.read = lane_->get(slice.key, slice.buffer->bytes(), fetches_);
}

Tensor OffloadedWeights::take(int number) {
  Slice& slice = nth(slices_, number);
  fetch(number);
  if (!slice.key.empty()) take_from_swap(number, slice);
  slice.is_fetched = false;
  streams_.peers.wait(slice.arrived);
  return std::exchange(slice.device, Tensor());
}

void OffloadedWeights::take_from_swap(int number, Slice& slice) {
  StagingPool::Lease buffer = std::move(*std::exchange(slice.buffer, std::nullopt));
  lane_->await(slice.read, buffer, fetches_);
  slice.device = slots_.take(slice.numel, slice.dtype, fetches_);
  copy_across(fetches_, Link::kToDevice, buffer.bytes().data(), slice.device.address(),
              slice.device.bytes(), {.what = "weights", .number = number});
  slice.arrived = fetches_.mark();
  busy_.push_back({.buffer = std::move(buffer), .copied = slice.arrived});
}

Tensor OffloadedWeights::rounded(const Slice& slice, const Tensor& from) {
  if (from.dtype() == slice.dtype) return from;
  const int64_t bytes = from.numel() * narrow<int64_t>(size_of(slice.dtype));
  Tensor copy = rounding_.narrow(0, bytes).reinterpret(slice.dtype);
  streams_.compute.wait(fetches_.mark());  // the slice before has left it
  kernels::cast(streams_.compute, from, copy);
  return copy;
}

std::byte* OffloadedWeights::room_for(int number, int64_t begin, int64_t numel, Stream& by) {
  Slice& slice = nth(slices_, number);
  DS_CHECK(begin >= 0 && begin + numel <= slice.numel && !slice.is_fetched,
           "offloaded weights: elements {} to {} are stored in slice {}, which has {} and is "
           "{}fetched",
           begin, begin + numel, number, slice.numel, slice.is_fetched ? "" : "not ");
  const int64_t offset = begin * narrow<int64_t>(size_of(slice.dtype));
  if (slice.key.empty()) return host_memory(slice) + offset;
  open(number, numel, by);
  if (begin == 0) open_->numel = 0;  // of a visit that has failed something may be left
  return open_->buffer.bytes().data() + offset;
}

void OffloadedWeights::store(int number, int64_t begin, const Tensor& from) {
  Slice& slice = nth(slices_, number);
  std::byte* const to = room_for(number, begin, from.numel(), streams_.compute);
  fetches_.wait(streams_.compute.mark());  // takes part in a graph from here on
  const Tensor data = rounded(slice, from);
  fetches_.wait(streams_.compute.mark());
  copy_across(fetches_, Link::kToHost, data.address(), to, data.bytes(),
              {.what = "weights", .number = number});
  if (slice.key.empty()) return;
  open_->copied = fetches_.mark();
  wrote(number, from.numel(), streams_.compute);
}

Tensor OffloadedWeights::place(int number, int64_t begin, int64_t numel, Stream& host) {
  const Slice& slice = nth(slices_, number);
  std::byte* const at = room_for(number, begin, numel, host);
  slice.arrived.wait_on_host();  // whoever computed with the old ones has his copy
  return Tensor::borrow(at, {numel}, slice.dtype, host.device());
}

void OffloadedWeights::wrote(int number, int64_t numel, Stream& by) {
  if (nth(slices_, number).key.empty()) return;
  DS_CHECK(open_ && open_->slice == number, "offloaded weights: slice {} is not open", number);
  open_->numel += numel;
  if (open_->numel >= nth(slices_, number).numel) write_open(by);
}

// If a slice is not made in one go, the elements that are not made now stay as they are.
void OffloadedWeights::open(int number, int64_t numel, Stream& by) {
  if (open_ && open_->slice == number) return;
  write_open(by);
  await_write(number, by);
  Slice& slice = nth(slices_, number);
  open_ = Open{.slice = number, .buffer = take_buffer(slice, by)};
  const bool is_whole = slice.maker != WeightMaker::kBoth || numel == slice.numel;
  const bool is_there = slice.is_in_file || lane_->begins_filled();
  if (!is_whole && is_there) read_open(slice, by);
}

void OffloadedWeights::read_open(Slice& slice, Stream& by) {
  StagingPool::Lease& buffer = open_->buffer;
  lane_->await(lane_->get(slice.key, buffer.bytes(), by), buffer, by);
}

void OffloadedWeights::write_open(Stream& by) {
  if (!open_) return;
  Open made = std::move(*std::exchange(open_, std::nullopt));
  Slice& slice = nth(slices_, made.slice);
  Busy writing{.buffer = std::move(made.buffer), .writes_slice = made.slice};
  writing.write = lane_->put(slice.key, writing.buffer.bytes(), made.copied, by);
  slice.is_in_file = true;
  busy_.push_back(std::move(writing));
  DS_FAILPOINT("offload.weights_stored");
}

void OffloadedWeights::end_stores() {
  write_open(streams_.compute);
  streams_.compute.wait(fetches_.mark());
}

}  // namespace ds
