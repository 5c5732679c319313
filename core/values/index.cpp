#include "core/values/index.h"

#include "core/status/error.h"

namespace ds::detail {

void refuse_narrowing(long long value) {
  throw InternalError(fmt::format("{} does not fit the type that it is needed in", value));
}

void refuse_index(size_t index, size_t size) {
  throw InternalError(fmt::format("element {} of {}", index, size));
}

}  // namespace ds::detail
