// OffloadedWeights: slices of weights that a rank keeps off its device (ZeRO-Infinity, Rajbhandari
// et al., arXiv 2104.07857): in memory of the host, or in its swap file, from which they pass
// through a few buffers of the host. A slice comes to the device in two halves: fetch() begins, and
// take() needs it there. What the optimizer has made new is stored back, from the device or from
// the host, where its state lies there too. Confined to the thread that runs the step.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/device/tensor.h"
#include "core/memory/adaptors.h"
#include "offload/staging_pool.h"
#include "zero/layout/bucket_slots.h"
#include "zero/state/swap_lane.h"

namespace ds {

struct WeightOffload {
  // Elements that stay in memory of the host; what is added after them goes to the swap file.
  int64_t host_numel = std::numeric_limits<int64_t>::max();
  // Slices of the swap file pass through so many buffers of the host, each of which takes at most
  // so many elements.
  int buffers = 5;
  int64_t buffer_numel = 100'000'000;
  Pinning pinning = Pinning::kNone;  // of all of this memory, where the device does not do it
};

// What a rank has beside its device. All of it outlives who is given it.
struct WeightPlaces {
  Stream* fetches = nullptr;       // where slices are copied; null: where peers are talked to
  MemoryResource* host = nullptr;  // pinned where the device is not the host itself
  bool is_pinned = false;
  MemoryAccount* nvme = nullptr;      // books of the swap file
  Stream* disk = nullptr;             // on meta: whose clock is that of the swap file
  SwapFileMaker open_swap = nullptr;  // null on meta
};

// Who makes the elements of a slice new, each step and in this order: all of them at once on the
// device, part by part on the host, or some on the host and then the others on the device. Nobody:
// what is stored, now and then, is of the slice's dtype.
enum class WeightMaker : uint8_t { kDevice, kHost, kBoth, kNobody };

class OffloadedWeights {
 public:
  // slots: where slices lie on the device.
  OffloadedWeights(const WeightOffload& options, const WeightPlaces& places, StoreStreams streams,
                   BucketSlots& slots);
  ~OffloadedWeights();
  OffloadedWeights(const OffloadedWeights&) = delete;  // transfers refer to its buffers
  OffloadedWeights& operator=(const OffloadedWeights&) = delete;

  // Before seal(). Returns the slice's number. ConfigError where a slice of the swap file is larger
  // than a buffer.
  int add(int64_t numel, DType dtype, WeightMaker maker = WeightMaker::kDevice);
  // Reserves the swap file and the buffers.
  void seal();
  bool uses_swap() const { return swap_bytes_ > 0; }

  // Begins to bring a slice; nothing if that has been begun. Slices of the swap file, begun and not
  // taken, are at most as many as there are buffers.
  void fetch(int slice);
  // The slice on the device, for what the peers' stream is given from now on. Its place is to be
  // given back to the slots.
  Tensor take(int slice);
  // Keeps what the stream that computes has made, from element `begin` of the slice on: of its
  // dtype, or of fp32, which is rounded.
  void store(int slice, int64_t begin, const Tensor& from);
  // Room in memory of the host for elements [begin, begin + numel) of the slice, which is to be
  // written by that stream of the host before wrote() is called for them and anything else here is.
  Tensor place(int slice, int64_t begin, int64_t numel, Stream& host);
  void wrote(int slice, int64_t numel, Stream& by);
  // What was stored may be written again, by what the stream that computes is given from now on.
  void end_stores();

 private:
  struct Slice {
    int64_t numel = 0;
    DType dtype = DType::kF32;
    WeightMaker maker = WeightMaker::kDevice;
    std::string key;                             // in the swap file; empty: in memory of the host
    int64_t host_offset = 0;                     // there, bytes
    Tensor device{};                             // while it is fetched from memory of the host
    Event arrived{};                             // it
    std::optional<StagingPool::Lease> buffer{};  // while it is fetched from the swap file
    SwapLane::Passing read{};
    bool is_fetched = false;
    bool is_in_file = false;
  };
  // A slice of the swap file that is being made new, in a buffer, until all of it or another one
  // is.
  struct Open {
    int slice = 0;
    StagingPool::Lease buffer;
    int64_t numel = 0;  // that were made
    Event copied{};     // from the device
  };
  // A buffer that is busy after its slice is done with it.
  struct Busy {
    StagingPool::Lease buffer;
    Event copied{};         // to the device
    int writes_slice = -1;  // or it is written to the swap file
    SwapLane::Passing write{};
  };
  int64_t bytes_of(const Slice& slice) const;
  std::byte* host_memory(const Slice& slice) const;
  // `by`: whose work goes on when what it says is done.
  std::byte* room_for(int number, int64_t begin, int64_t numel, Stream& by);
  StagingPool::Lease take_buffer(const Slice& slice, Stream& by);
  void release_oldest(Stream& by);
  void await_write(int slice, Stream& by);
  void fetch_from_swap(int number, Slice& slice);
  void take_from_swap(int number, Slice& slice);
  Tensor rounded(const Slice& slice, const Tensor& from);
  void open(int number, int64_t numel, Stream& by);
  void read_open(Slice& slice, Stream& by);
  void write_open(Stream& by);

  const WeightOffload options_;
  const WeightPlaces places_;
  const StoreStreams streams_;
  Stream& fetches_;
  BucketSlots& slots_;
  std::vector<Slice> slices_;
  int64_t host_numel_ = 0;
  int64_t host_bytes_ = 0;
  int64_t largest_swapped_ = 0;  // bytes
  int swapped_ = 0;              // slices in the swap file
  int buffers_ = 0;              // for them
  int64_t swap_bytes_ = 0;       // of the file
  Tensor rounding_;              // of the largest slice that the device makes and is not fp32
  int64_t rounding_bytes_ = 0;
  std::optional<StagingPool> host_block_;  // one buffer: the slices one after the other
  StagingPool::Lease host_;
  std::optional<StagingPool> pool_;
  std::unique_ptr<SwapLane> lane_;  // before the pool goes, nothing moves
  std::deque<Busy> busy_;
  std::optional<Open> open_;
};

}  // namespace ds
