// An emulated CUDA device, for machines without one: the queues of its streams run only when
// somebody waits for them, and no further than to what is waited for. So a forgotten wait shows
// every time, as wrong numbers, and not once in a thousand runs. Its memory is closed to the host:
// who reads or writes it outside of a queue's work faults. A recorded graph runs in the order of
// each of its streams, the others as late as allowed, and has to leave the same bits. Build option
// DS_WITH_CUDA=EMULATED.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "core/cuda/queue.h"

namespace ds::emulated {

// In how many of the orders that a GPU may choose each launch, and each graph of several streams,
// is executed. In one, which is another from launch to launch, whole programs run in seconds; in
// all, from the same contents of all memory, what depends on the order shows at once. All is for
// tests of kernels: only one thread may launch then.
enum class Orders : uint8_t { kOne, kAll };
void execute_in(Orders orders);  // kOne unless this is called
Orders orders();
// Returns which of so many orders has its turn.
size_t next_order(size_t count);

// Gives work to a queue, which is one of an emulated device.
void enqueue(DeviceQueue& queue, std::function<void()> work);

}  // namespace ds::emulated
