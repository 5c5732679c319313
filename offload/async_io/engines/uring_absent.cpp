// The engine of a build without liburing.
#include "core/status/error.h"
#include "offload/async_io/io_engine.h"

namespace ds {

std::unique_ptr<IoEngine> make_uring_engine(int /*queue_depth*/) {
  throw Unsupported(
      "io_uring: this build has no liburing; install liburing-dev and build with "
      "DS_WITH_URING=ON");
}

}  // namespace ds
