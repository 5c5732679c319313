// A build without the table of cuDNN's functions; DS_WHY comes from core/CMakeLists.txt.
#include "core/libraries/gpu_libraries.h"
#include "core/status/error.h"

namespace ds {

const Cudnn& cudnn() { throw Unsupported("cuDNN: " DS_WHY); }

}  // namespace ds
