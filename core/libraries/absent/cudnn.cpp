// A build without the table of cuDNN's functions; DS_WHY comes from core/CMakeLists.txt.
#include "core/error.h"
#include "core/libraries/gpu_libraries.h"

namespace ds {

const Cudnn& cudnn() { throw Unsupported("cuDNN: " DS_WHY); }

}  // namespace ds
