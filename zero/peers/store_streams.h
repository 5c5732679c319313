// StoreStreams says where a store's work is given: what computes, and what talks to peers.
#pragma once

#include "core/device/tensor.h"
#include "zero/peers/comm_thread.h"

namespace ds {

// A point in the work with peers.
struct PeerPoint {
  Event event{};
  int64_t given = 0;  // to the thread
};

// The streams may be the same. The second waits for what the first has made, and the first for what
// it needs of the second. With a thread, which is where the first is a CPU's that plays the device,
// the second stands for its work, which goes there by give(): gathers, and what micro-steps reduce.
// Outside of micro-steps nothing is under way but a gather that is waited for at once.
struct StoreStreams {
  Stream& compute;
  Stream& peers;
  CommThread* thread = nullptr;

  // Work on tensors that stay until it is done, which copies of a Tensor are no reason for: what
  // counts their owners belongs to the thread that computes.
  void give(CommThread::Work work) const {
    thread != nullptr ? thread->give(std::move(work), compute.label()) : work(peers);
  }
  PeerPoint mark_peers() const {
    return {.event = peers.mark(), .given = thread != nullptr ? thread->given() : 0};
  }
  // What is computed from now on comes after that.
  void compute_after(const PeerPoint& point) const {
    compute.wait(point.event);
    if (thread != nullptr) thread->wait(point.given);
  }
  // With a thread: waits until it has nothing left to do.
  void settle() const {
    if (thread != nullptr) thread->wait(thread->given());
  }
};

// The same bytes, for work that is given: see there.
inline Tensor borrowed(const Tensor& tensor) {
  return Tensor::borrow(tensor.address(), tensor.shape(), tensor.dtype(), tensor.device());
}

// kernel(stream, from, to), given.
template <class Kernel>
void give(const StoreStreams& streams, Kernel kernel, const Tensor& from, const Tensor& to) {
  streams.give([kernel, from = borrowed(from), to = borrowed(to)](Stream& on) mutable {
    kernel(on, from, to);
  });
}

}  // namespace ds
