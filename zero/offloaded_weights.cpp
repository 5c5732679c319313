#include "zero/offloaded_weights.h"

#include <algorithm>
#include <utility>

#include "core/memory/across.h"
#include "kernels/elementwise.h"

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
      slots_(slots) {
  DS_CHECK(places_.host != nullptr, "offloaded weights: no memory of the host");
}

OffloadedWeights::~OffloadedWeights() {
  for (Slice& slice : slices_) {
    // The memory of a copy has to stay until it is done, of a transfer until the swapper is gone.
    try {
      slice.arrived.wait_on_host();
    } catch (...) {  // the device failed, which its stream tells whoever waits for it
    }
  }
  swap_.reset();  // waits for what it moves
  slices_.clear();
  busy_.clear();
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

int OffloadedWeights::add(int64_t numel, DType dtype) {
  const int number = narrow<int>(slices_.size());
  Slice& slice = slices_.emplace_back();
  slice.numel = numel;
  slice.dtype = dtype;
  const int64_t bytes = bytes_of(slice);
  if (dtype != DType::kF32) rounding_bytes_ = std::max(rounding_bytes_, bytes);
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
  largest_swapped_ = std::max(largest_swapped_, bytes);
  swap_bytes_ += Swapper::room_for(bytes);
  return number;
}

void OffloadedWeights::seal() {
  if (rounding_bytes_ > 0) {
    rounding_ = Tensor::empty({rounding_bytes_}, DType::kU8, streams_.compute, MemoryTag::kScratch);
  }
  const bool meta = fetches_.device().is_meta();
  const auto pool = [&](int buffers, int64_t bytes, MemoryTag tag) {
    return StagingOptions{.buffers = buffers,
                          .buffer_bytes = bytes,
                          .pinning = meta ? Pinning::kNone : options_.pinning,
                          .tag = tag};
  };
  const auto kind = places_.is_pinned ? StagingMemory::kPinned : StagingMemory::kPageable;
  if (host_bytes_ > 0) {
    host_block_.emplace(pool(1, host_bytes_, MemoryTag::kParameters), places_.host, kind);
    host_ = host_block_->take(host_bytes_, "weights");
  }
  if (!uses_swap()) return;
  pool_.emplace(pool(options_.buffers, largest_swapped_, MemoryTag::kScratch), places_.host, kind);
  if (places_.nvme != nullptr) places_.nvme->add(to_size(swap_bytes_), MemoryTag::kParameters);
  if (meta) return;
  if (places_.open_swap == nullptr) {
    throw Unsupported("zero: weights go to NVMe, and this rank was given no swap file");
  }
  swap_ = places_.open_swap(swap_bytes_);
}

// That of the copy or write that began first.
void OffloadedWeights::release_oldest() {
  Busy oldest = std::move(busy_.front());
  busy_.pop_front();
  oldest.copied.wait_on_host();
  if (oldest.writes_slice < 0 || swap_ == nullptr) return;
  try {
    swap_->wait(oldest.write);
  } catch (const IoTimeout&) {
    oldest.buffer.abandon();
    throw;
  }
}

StagingPool::Lease OffloadedWeights::take_buffer(const Slice& slice) {
  const auto fetched =
      std::ranges::count_if(slices_, [](const Slice& one) { return one.buffer.has_value(); });
  while (!busy_.empty() && fetched + std::ssize(busy_) >= options_.buffers) release_oldest();
  return pool_->take(bytes_of(slice), slice.key);
}

// Of writes at most one is of this slice.
void OffloadedWeights::await_write(int slice) {
  const auto writes = [slice](const Busy& busy) { return busy.writes_slice == slice; };
  while (std::ranges::any_of(busy_, writes)) release_oldest();
}

void OffloadedWeights::fetch(int number) {
  Slice& slice = nth(slices_, number);
  if (std::exchange(slice.is_fetched, true)) return;
  fetches_.wait(streams_.compute.mark());  // begins here, and is recorded where this is
  if (!slice.key.empty()) return fetch_from_swap(number, slice);
  slice.device = slots_.take(slice.numel, slice.dtype, fetches_);
  copy_across(fetches_, Link::kToDevice, host_memory(slice), slice.device.address(),
              slice.device.bytes());
  slice.arrived = fetches_.mark();
}

void OffloadedWeights::fetch_from_swap(int number, Slice& slice) {
  await_write(number);
  slice.buffer = take_buffer(slice);
  if (places_.disk != nullptr) {
    places_.disk->wait(fetches_.mark());
    report_across(*places_.disk, Link::kNvmeRead, slice.buffer->bytes().size());
    slice.arrived = places_.disk->mark();
  }
  if (swap_ != nullptr) slice.read = swap_->get(slice.key, slice.buffer->bytes());
}

Tensor OffloadedWeights::take(int number) {
  Slice& slice = nth(slices_, number);
  fetch(number);
  if (!slice.key.empty()) take_from_swap(slice);
  slice.is_fetched = false;
  streams_.peers.wait(slice.arrived);
  return std::exchange(slice.device, Tensor());
}

void OffloadedWeights::take_from_swap(Slice& slice) {
  StagingPool::Lease buffer = std::move(*std::exchange(slice.buffer, std::nullopt));
  if (swap_ != nullptr) {
    try {
      swap_->wait(slice.read);
    } catch (const IoTimeout&) {
      buffer.abandon();
      throw;
    }
  }
  slice.device = slots_.take(slice.numel, slice.dtype, fetches_);
  fetches_.wait(slice.arrived);
  copy_across(fetches_, Link::kToDevice, buffer.bytes().data(), slice.device.address(),
              slice.device.bytes());
  slice.arrived = fetches_.mark();
  busy_.push_back({.buffer = std::move(buffer), .copied = slice.arrived});
}

Tensor OffloadedWeights::rounded(const Slice& slice, const Tensor& from) {
  if (from.dtype() == slice.dtype) return from;
  Tensor copy = rounding_.narrow(0, bytes_of(slice)).reinterpret(slice.dtype);
  streams_.compute.wait(fetches_.mark());  // the slice before has left it
  kernels::cast(streams_.compute, from, copy);
  return copy;
}

void OffloadedWeights::store(int number, const Tensor& from) {
  Slice& slice = nth(slices_, number);
  DS_CHECK(from.numel() == slice.numel && !slice.is_fetched,
           "offloaded weights: {} elements are stored in slice {}, which has {} and is {}fetched",
           from.numel(), number, slice.numel, slice.is_fetched ? "" : "not ");
  fetches_.wait(streams_.compute.mark());  // takes part in a graph from here on
  const Tensor data = rounded(slice, from);
  fetches_.wait(streams_.compute.mark());
  if (!slice.key.empty()) return write_to_swap(number, slice, data);
  copy_across(fetches_, Link::kToHost, data.address(), host_memory(slice), data.bytes());
}

void OffloadedWeights::write_to_swap(int number, Slice& slice, const Tensor& from) {
  await_write(number);
  Busy writing{.buffer = take_buffer(slice), .writes_slice = number};
  const std::span<std::byte> bytes = writing.buffer.bytes();
  copy_across(fetches_, Link::kToHost, from.address(), bytes.data(), bytes.size());
  const Event copied = fetches_.mark();
  if (places_.disk != nullptr) {
    places_.disk->wait(copied);
    report_across(*places_.disk, Link::kNvmeWrite, bytes.size());
    writing.copied = places_.disk->mark();
  }
  if (swap_ != nullptr) {
    copied.wait_on_host();
    writing.write = swap_->put(slice.key, bytes);
  }
  busy_.push_back(std::move(writing));
}

void OffloadedWeights::end_stores() { streams_.compute.wait(fetches_.mark()); }

}  // namespace ds
