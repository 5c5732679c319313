// A build without the table of cuBLASLt's functions; DS_WHY comes from core/CMakeLists.txt.
#include "core/libraries/gpu_libraries.h"
#include "core/status/error.h"

namespace ds {

const CublasLt& cublaslt() { throw Unsupported("cuBLASLt: " DS_WHY); }

}  // namespace ds
