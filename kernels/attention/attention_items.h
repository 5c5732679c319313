// Heads of attention on the threads of a stream, each with a workspace that lives as long as the
// stream.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "core/device/stream.h"
#include "core/values/index.h"
#include "kernels/cpu/scratch.h"

namespace ds::kernels::detail {

struct AttentionWorkspaces {
  std::vector<Scratch> threads;
};

// Items are independent: which thread takes one does not change its bits.
inline void for_each_item(Stream& stream, size_t floats, int64_t items,
                          const std::function<void(int64_t, float*)>& body) {
  auto& workspaces = stream.state<AttentionWorkspaces>().threads;
  workspaces.resize(to_size(stream.pool().threads()));
  std::atomic<int64_t> next{0};
  stream.pool().for_each_thread([&](int index) {
    float* const own = nth(workspaces, index).reserve(floats);
    for (int64_t i = next.fetch_add(1); i < items; i = next.fetch_add(1)) body(i, own);
  });
}

}  // namespace ds::kernels::detail
