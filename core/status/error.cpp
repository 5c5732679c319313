#include "core/status/error.h"

namespace ds::detail {

void check_failed(const char* file, int line, const std::string& message) {
  throw InternalError(fmt::format("{} ({}:{})", message, file, line));
}

}  // namespace ds::detail
