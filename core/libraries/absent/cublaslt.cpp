// A build without the table of cuBLASLt's functions; DS_WHY comes from core/CMakeLists.txt.
#include "core/error.h"
#include "core/libraries/gpu_libraries.h"

namespace ds {

const CublasLt& cublaslt() { throw Unsupported("cuBLASLt: " DS_WHY); }

}  // namespace ds
