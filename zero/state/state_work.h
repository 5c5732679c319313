// The work on a part that lies beside the device, where somebody wants to know what the host does.
#pragma once

#include "core/device/background_log.h"
#include "core/values/index.h"
#include "zero/state/open_part.h"

namespace ds {

inline int64_t bytes_of(const Shard& shard) {
  size_t bytes = 0;
  const auto add = [&bytes](const Tensor& tensor) {
    if (tensor.defined()) bytes += tensor.bytes();
  };
  for (const Tensor* tensor : {&shard.master, &shard.grad, &shard.copy}) add(*tensor);
  for (const Tensor& slot : shard.slots) add(slot);
  for (const Tensor& scale : shard.scales) add(scale);
  return narrow<int64_t>(bytes);
}

// work(open). What updates state is told to the BackgroundLog of the part's stream, with the bytes
// of what it reads and writes; `number`: of the part.
inline void work_in_background(PartAccess access, OpenPart& open, int number,
                               const PartWork& work) {
  if (!takes_gradients(access)) return work(open);
  const BackgroundSpan span(open.stream, BackgroundKind::kUpdate,
                            {.what = "part", .number = number}, bytes_of(open.shard));
  work(open);
}

}  // namespace ds
