// What DeviceQueue::native() of the emulated device points to, in place of a cudaStream_t: the
// means to give the queue work, in C's types alone, for libraries that are opened at run time (the
// stand-in of NCCL, tests/support/fake_nccl).
#pragma once

namespace ds::emulated {

struct NativeStream {
  void* queue;
  // `run(context)` is called when the queue comes to it, and again by each replay where it was
  // recorded; `drop(context)` once, when it never will be again.
  void (*enqueue)(void* queue, void (*run)(void*), void (*drop)(void*), void* context);
};

}  // namespace ds::emulated
