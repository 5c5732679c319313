#include "core/device/host_tensor.h"

#include <cstring>

namespace ds {

void copy_by_threads(const Tensor& from, const Tensor& to, Stream& stream) {
  const auto bytes = narrow<int64_t>(from.bytes());
  stream.report("copy", {.flops = 0, .bytes = 2.0 * static_cast<double>(bytes)});
  if (stream.device().is_meta()) return;
  constexpr int64_t kGrain = 1 << 16;
  stream.pool().parallel_for(bytes, kGrain, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<std::byte*>(to.address()) + begin,
                static_cast<const std::byte*>(from.address()) + begin, to_size(end - begin));
  });
}

}  // namespace ds
