// A build without the table of NCCL's functions; DS_WHY comes from core/CMakeLists.txt.
#include "core/libraries/gpu_libraries.h"
#include "core/status/error.h"

namespace ds {

const Nccl& nccl() { throw Unsupported("NCCL: " DS_WHY); }

}  // namespace ds
