// Ranks that sleep instead of computing: what is measured is the order of work and of messages, on
// any number of cores. Processes of one host, each with its own end of a shared-memory group.
#pragma once

#include <fmt/format.h>
#include <sys/prctl.h>

#include <chrono>
#include <functional>
#include <thread>

#include "comm/shm/comm.h"
#include "core/device/stream.h"
#include "core/memory/resource.h"
#include "tests/support/processes.h"

namespace ds::bench {

// Work that takes so long, whatever else the machine does.
inline void work_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

inline double now_seconds() {  // one clock for all processes of a host
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Begins together on all ranks; from the first that begins to the last that ends.
inline double seconds_of(Communicator& world, Stream& stream, const std::function<void()>& body) {
  Tensor times = Tensor::empty({2}, DType::kF64, stream);
  Tensor all = Tensor::empty({int64_t{2} * world.size()}, DType::kF64, stream);
  world.barrier();
  times.data<double>()[0] = now_seconds();
  body();
  times.data<double>()[1] = now_seconds();
  world.all_gather(times, all, stream);
  const double* at = all.data<double>();
  double begin = at[0], end = at[1];
  for (int64_t rank = 1; rank < world.size(); ++rank) {
    begin = std::min(begin, at[2 * rank]);
    end = std::max(end, at[2 * rank + 1]);
  }
  return end - begin;
}

// `body` on `size` processes; throws what went wrong in one of them.
inline void on_processes(int size, const std::function<void(Communicator&, Stream&)>& body) {
  const auto results = test::run_process_ranks(size, [&](Communicator& world) {
    prctl(PR_SET_TIMERSLACK, 1000UL);  // ns: the kernel's 50 us are no part of the work
    ThreadPool pool(1);
    Stream stream({Device::cpu(), &world.memory(), &pool, nullptr});
    body(world, stream);
  });
  for (const test::ProcessResult& result : results) {
    if (!result.error.empty() || result.status != 0) {
      throw InternalError(fmt::format("a rank failed: {}", result.error));
    }
  }
}

}  // namespace ds::bench
